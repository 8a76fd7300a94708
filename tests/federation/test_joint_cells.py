"""Sums over categories are equations for how many patients have each combination of them: a site
does not answer so many questions that a combination of few patients can be worked out."""

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
import tomli_w

from feddcd.analysis import _joint
from feddcd.analysis._sums import NONE, DesignRows, PointQuestion, answer
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.analysis.registry import ANALYSES
from feddcd.federation import wire
from feddcd.federation.site import answer as site
from feddcd.federation.site._again import check_joint
from feddcd.federation.site._disclosure import Release
from feddcd.federation.site._job_rules import JobRules
from feddcd.federation.site.approval import waiting, words_of
from feddcd.federation.site.policy import Outgoing, Policy, Ruled
from feddcd.federation.site.told import REFUSED
from site_world import asked as ask

CAREFUL = Policy()
W = (-0.4, 0.8, -0.7, 0.9, 0.2, -0.3)  # where a first step of an honest fit leads


def patients(n=400, seed=1):
    rng = np.random.default_rng(seed)
    return (rng.random((n, 5)) < (0.5, 0.35, 0.3, 0.25, 0.2)).astype(float)


def rows(columns, family="binomial", *more, seed=0):
    X = np.column_stack([np.ones(len(columns)), columns, *more])
    Y = (np.random.default_rng(seed).random(len(X)) < 0.4).astype(float)[:, None]
    data = DesignRows(X, Y, np.ones(len(X)), np.zeros(len(X)))
    return SiteRows(RegressionPlan("y ~ x", family), data, len(X), k=5)


def asked(w, pilot=False):
    w = np.reshape(np.asarray(w, float), (-1, 1))
    return PointQuestion(w, 0 * w, NONE, np.zeros(1), NONE, np.ones(()), pilot)


def questions(d=6, more=()):
    """As an honest coordinator asks them: the pilot, and two steps."""
    w = np.array([*W[:d], *more])
    return [asked(0 * w, pilot=True), asked(w), asked(1.03 * w)]


def refusal(own, each, policy=CAREFUL, hidden=False, free=False):
    """The number of the question that is refused, the rule, what others and the person hear."""
    for number, question in enumerate(each):
        try:
            check_joint(policy, own._replace(before=tuple(each[:number])), question, hidden, free)
        except Ruled as error:
            return number, error.rule, str(error), error.story
    return None


def test_three_answers_about_five_columns_tell_how_many_patients_have_each_combination():
    """What the attack gives, and that the first question is refused: with a first guess it tells
    as much as two."""
    own = rows(patients())
    cells = np.array(list(product([0.0, 1.0], repeat=5)))
    grid = np.column_stack([np.ones(32), cells])
    upper = np.triu_indices(6)
    equations, sums = [], []
    for question in questions():
        said = answer(own.data, own.plan.loss(), question)
        mean = 1 / (1 + np.exp(-grid @ question.w[:, 0]))
        xy = own.data.X.T @ own.data.Y[:, 0]  # from the moments of the pilot
        equations += [(grid[:, upper[0]] * grid[:, upper[1]]).T * (mean * (1 - mean))]
        equations += [grid.T * mean]
        sums += [said.H, said.g + xy]
    found = np.linalg.lstsq(np.vstack(equations), np.concatenate(sums), rcond=1e-14)[0]
    true = [(own.data.X[:, 1:] == cell).all(1).sum() for cell in cells]
    np.testing.assert_allclose(found, true, atol=1e-3)
    assert min(x for x in true if x) < 5
    number, rule, others, story = refusal(own, questions())
    assert (number, rule, others) == (0, "joint_cells", REFUSED)
    assert "together would reveal that fewer than 5 rows have a certain combination" in story
    assert refusal(own, questions(), Policy(min_support=0)) is None
    assert refusal(own, questions(), hidden=True) is None


def test_the_person_reads_which_combination_few_rows_have():
    """As the page on rules promises; it is as short as it can be, and true."""
    columns = patients()
    names = ("(Intercept)", *(f"ward[T.{letter}]" for letter in "abcde"))
    own = rows(columns)._replace(names=names)
    *_, others, story = refusal(own, questions())
    assert others == REFUSED
    said = re.search(r"combination of values: (.*?)\. A new plan can join levels", story)
    assert said, story
    held, read = np.ones(len(columns), bool), said[1].replace(" and ", ", ").split(", ")
    for part in read:
        if part.startswith("outcome = "):
            x, value = own.data.Y[:, 0], float(part.rpartition(" ")[2])
        else:
            x, value = columns[:, "abcde".index(part[-1])], float(" = " in part)
        held &= x == value
    assert 0 < held.sum() < 5
    with pytest.raises(Ruled) as found:
        check_joint(CAREFUL, own, questions()[0], False, False)
    assert " = " not in found.value.in_log, "the log is for ever, and has no value of a patient"
    assert "have a certain combination of values of: ward[T." in found.value.in_log
    assert len(read) < 6, "not all columns are needed"
    *_, story = refusal(rows(columns)._replace(columns=("ward", "y")), questions())
    assert "a certain combination of values of the columns 'ward', 'y'. A new plan" in story


def test_a_cell_of_two_reference_levels_is_told_by_products_of_the_other_levels():
    """No column has it, so that no pair of columns shows it. One patient has stage I and ward a."""
    rng = np.random.default_rng(0)
    stage, ward = rng.choice(3, 300), rng.choice(3, 300)
    ward[(stage == 0) & (ward == 0)] = 1
    stage[0] = ward[0] = 0
    columns = np.column_stack([stage == 1, stage == 2, ward == 1, ward == 2]).astype(float)
    own = rows(columns, "gaussian")
    G = own.data.X.T @ own.data.X
    assert G[0, 0] - G[0, 1:].sum() + G[1:3, 3:].sum() == 1
    pilot = asked(np.zeros(5), pilot=True)
    assert refusal(own, [pilot])[0] == 0
    ward[stage == 0] = np.arange((stage == 0).sum()) % 3
    columns = np.column_stack([stage == 1, stage == 2, ward == 1, ward == 2]).astype(float)
    assert refusal(rows(columns, "gaussian"), [pilot]) is None


def test_bins_of_many_rows_tell_the_combinations_of_few():
    """In a linear model each combination has a prediction of its own. Those of many rows are counts
    of bins, and with the products of columns the others follow."""
    columns = patients(400, 6)
    own, w = rows(columns, "gaussian"), (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
    plain, pilot = asked(w), asked(np.zeros(6), pilot=True)
    assert refusal(own, [pilot, plain]) is None
    assert refusal(own, [pilot, plain._replace(edges=np.arange(0.5, 31.5))])[0] == 1
    many = plain._replace(edges=np.array([15.5]))  # two bins
    assert refusal(own, [pilot, many]) is None


def test_a_value_in_a_cell_that_no_column_has():
    """y ~ a*b + a*c + c*z: the products tell z of the only patient with a, but neither b nor c."""
    a, b, c = patients(400, 2)[:, :3].T
    a[:20] = 1
    alone = np.flatnonzero((a == 1) & (b == 0) & (c == 0))
    b[alone[1:]] = 1
    z = np.random.default_rng(3).normal(50, 10, 400)
    X = np.column_stack([a, b, a * b, a * c, z, c * z])
    S = lambda x, y: float(x @ y)
    assert S(a, z) - S(a * b, z) - S(a * c, z) + S(a * b, c * z) == pytest.approx(z[alone[0]])
    own, pilot = rows(X, "gaussian"), asked(np.zeros(7), pilot=True)
    assert refusal(own, [pilot])[0] == 0


def test_a_column_of_many_values_hides_cells_as_long_as_it_has_an_effect():
    """A coordinator that owns a site can lead its coefficient to nothing."""
    age = np.random.default_rng(4).normal(0, 1, 400)
    own = rows(patients(), "binomial", age)
    assert refusal(own, questions(more=(0.5,))) is None
    assert refusal(own, questions(more=(1e-7,)))[0] == 1
    assert refusal(own, questions(more=(0.5,))[:1], free=True)[0] == 0


@pytest.mark.parametrize("hide", ["a little of age", "one number for four columns"])
def test_a_category_that_looks_like_a_number_is_one(hide):
    """I(a + age/1e9) has as many values as there are patients; I(a + 2*b + 4*c + 8*d) has 16."""
    columns, age = patients(), np.random.default_rng(4).normal(0, 1, 400)
    if hide == "a little of age":
        own = rows(columns + 1e-9 * age[:, None])
        assert refusal(own, questions())[0] == 0
        return
    u = columns[:, :4] @ [1.0, 2, 4, 8]
    own = rows(np.column_stack([u, u**2, u**3, np.sqrt(u), np.log1p(u)]))
    assert len(np.unique(u)) == 16
    w = np.array([-0.4, 0.1, -0.01, 1e-4, 0.2, -0.2])
    assert refusal(own, [asked(0 * w, pilot=True), asked(w), asked(1.1 * w)]) is not None


def test_cells_of_many_rows_are_no_reason_to_refuse():
    own = rows(patients(3000)[:, :3])
    assert refusal(own, questions(4)) is None


def test_the_person_is_told_before_and_others_are_not(tmp_path):
    d = pd.DataFrame(patients(), columns=list("abcde")).astype(int)
    d["y"] = (np.random.default_rng(0).random(400) < 0.4).astype(int)
    d.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(tomli_w.dumps({"answers": "each", "complete": True}))
    place = site.SitePlace("north", tmp_path, tmp_path / "data.csv")
    request = ask(place, "y ~ a + b + c + d + e", family="binomial")
    said = wire.read_refusal(wire.unpack_message(site.answer(request, place))).reason
    assert "waits for approval" in said
    told = "\n".join(words_of(tmp_path, *waiting(tmp_path)))
    assert "The rules would refuse question 1" in told
    assert (
        "the answers of this job together would reveal that fewer than 5 rows have a certain "
        "combination of values"
    ) in told


@pytest.mark.parametrize(("left_out", "told"), [(0, 0), (1, 0), (4, 0), (5, 5), (9, 9)])
def test_a_small_number_of_rows_left_out_is_not_told(left_out, told, tmp_path):
    """As one patient without a value would be."""
    pd.DataFrame({"x": [1.0]}).to_csv(tmp_path / "data.csv", index=False)
    place = site.SitePlace("north", tmp_path, tmp_path / "data.csv")
    rules = JobRules(place, Release(tmp_path, "north"), b"")
    rules._analysis = ANALYSES["regression"]
    rules._out = Outgoing("moments", "newton", (), 400, 0, {}, {}, 3, {})
    own = rows(patients())._replace(dropped=left_out)
    assert rules.counts(own)["dropped"].tolist() == [told]


def test_the_first_guess_counts_as_told():
    """The pilot asks for the sums of a site's own first fit, too: more equations than at w = 0."""
    own = rows(patients()[:, :4])
    told = lambda pilot: _joint.told(
        [_joint.AskedJob(own, [asked([0.0] * 5, pilot=pilot)])], 5
    ).shape[1]
    assert told(True) > told(False)


def weighted(role):
    """Three columns of 1 and 2, one of them in another role; one patient has 2, 1 and 1."""
    g, a, b = patients(400, 2)[:, :3].T + 1
    rare = np.flatnonzero((g == 2) & (a == 1) & (b == 1))
    a[rare[1:]] = 2
    own = rows(np.column_stack([a, b]), "gaussian" if role == "s" else "poisson")
    return own._replace(data=own.data._replace(**{role: g}))


@pytest.mark.parametrize("role", ["s", "offset"])
def test_weights_and_offsets_of_few_values_are_categories_too(role):
    """Sums over products of two columns, times the weight, are of three columns."""
    own = weighted(role)
    pilot = asked(np.zeros(3), pilot=True)
    if role == "s":
        X, s = own.data.X, own.data.s
        G = lambda s: X.T @ (s[:, None] * X)
        of_ones = lambda G: 4 * G[0, 0] - 2 * G[0, 1] - 2 * G[0, 2] + G[1, 2]
        assert of_ones(G(s)) - of_ones(G(np.ones(400))) == 1  # beside a table without weights
    plain = own._replace(data=own.data._replace(s=np.ones(400), offset=np.zeros(400)))
    assert refusal(plain, [pilot]) is None
    if role == "s":
        earlier = [_joint.AskedJob(plain, [pilot])]
        with pytest.raises(Ruled):
            check_joint(CAREFUL, own, pilot, False, False, earlier)
        own = own._replace(data=own.data._replace(s=own.data.s - 1))  # of 0 and 1: no second table
    assert refusal(own, [pilot])[0] == 0


def test_what_was_told_under_another_policy_does_not_block_all_that_follows():
    """Two jobs tell a patient, as small cells were allowed then: others are judged alone."""
    own, pilot = weighted("s"), asked(np.zeros(3), pilot=True)
    plain = own._replace(data=own.data._replace(s=np.ones(400)))
    both = [_joint.AskedJob(each, [pilot]) for each in (own, plain)]
    check_joint(CAREFUL, rows(patients(3000)[:400, :2]), pilot, False, False, both)
    with pytest.raises(Ruled):
        check_joint(CAREFUL, rows(patients()), asked(np.zeros(6), pilot=True), False, False, both)


def test_squares_of_an_outcome_count_as_told():
    """The rows, the sum and the sum of squares of 0, 1 and 2 tell how many have 2."""
    own = rows(patients()[:, :1], "gaussian")
    y = np.repeat([0.0, 1, 2], [250, 149, 1])
    pilot, data = asked(np.zeros(2), pilot=True), own.data
    assert refusal(own._replace(data=data._replace(Y=y[:, None])), [pilot])[0] == 0
    many = np.repeat([0.0, 1, 2], [250, 140, 10])
    mixed = np.random.default_rng(5).permutation(many)[:, None]
    assert refusal(own._replace(data=data._replace(Y=mixed)), [pilot]) is None


def test_a_number_that_happens_to_be_zero_is_no_category():
    """log(crp) is 0 where crp is 1.0, here in 6 of 400 rows. A product with a category is 0 in many
    rows."""
    rng = np.random.default_rng(0)
    columns, number = patients()[:, :2], rng.normal(0, 1, 400)
    number[rng.choice(400, 6, replace=False)] = 0.0
    assert refusal(rows(columns, "binomial", number), questions(3, more=(0.5,))) is None
    often = number * (rng.random(400) < 0.8)
    assert len(_joint._products(np.column_stack([number, often]), 5)) == 1
