"""All numbers that a site tells of its rows, together: fewer equations than unknowns."""

import jax
import numpy as np
import pandas as pd
import pytest

from feddcd._errors import Refused
from feddcd.data.agreement import SiteData
from feddcd.federation import wire
from feddcd.federation.site._training import closing_of, training_facts
from feddcd.federation.site._training_rules import (
    TrainingFacts,
    begin_training,
    check_batches,
    check_training,
    tell,
)
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.approval import Waits, approve, pause, waiting, words_of
from feddcd.federation.site.log import LOG
from feddcd.federation.site.memory import Memory
from feddcd.federation.site.policy import LOOSE, Outgoing, Policy, Ruled
from feddcd.federation.site.rules import budget_lines, parameters_of
from feddcd.federation.site.told import REFUSED
from feddcd.federation.terms import Terms, server_learner
from site_world import asked

POLICY = 'answers = "each"\napprove = "none"\nmax_share = 0.8\ncomplete = true\n'


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(2)
    d = pd.DataFrame({"age": rng.uniform(20, 90, 60), "bmi": rng.normal(26, 4, 60)})
    d["crp"], d["died"] = rng.gamma(4, 3, 60), np.arange(60) % 2
    d.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(POLICY)
    return SitePlace("north", tmp_path, tmp_path / "data.csv")


def refused(place, *args, **options):
    said = wire.unpack_message(answer(asked(place, *args, **options), place))
    return wire.read_refusal(said).reason if said.kind == "refusal" else ""


def run(place, latency, exchanges=6):
    """A table of four coefficients as an honest coordinator makes it, or why it was refused."""
    for e in range(exchanges):
        w = (0.1 * e, 0.001 * e, 0.002 * e, 0)
        options = {"family": "binomial", "pilot": e == 0, "latency": latency}
        if why := refused(place, "died ~ age + bmi + crp", w=w, **options):
            return why
    return ""


def test_sixty_rows_give_tables_until_there_would_be_more_equations_than_values(place):
    """60 rows of 4 columns are 240 values. A table takes 6 x (4 + 10) numbers and 10 moments, so
    two of them fit."""
    memory = Memory(place.folder, place.data)
    assert run(place, 0.1) == ""
    assert memory.told() == 94
    assert run(place, 0.1) == ""  # the same questions tell nothing new
    assert memory.told() == 94
    assert run(place, 0.2) == ""
    assert run(place, 0.3) == f"north: {REFUSED}"
    assert "max_numbers_per_value" in (place.folder / LOG).read_text()
    assert "numbers that all jobs released: 188" in "\n".join(budget_lines(Policy(), memory))
    (place.folder / "policy.toml").write_text("max_numbers_per_value = 2\n" + POLICY)
    assert run(place, 0.3) == ""


def test_questions_without_end_about_few_rows_end(place):
    """Whoever steers the sums may ask at many points: each is more equations."""
    why = run(place, 0.1, exchanges=40)
    assert why == f"north: {REFUSED}"
    assert Memory(place.folder, place.data).told() <= 240


def test_the_bound_can_be_set_and_is_off_in_a_trial():
    assert Policy().max_numbers_per_value == 1.0
    assert LOOSE.max_numbers_per_value == np.inf


def test_a_multinomial_model_has_parameters_for_each_class_but_one():
    columns = {"Intercept": 0, "age": 0, "(outcome) 1": 0, "(outcome) 2": 0, "(weight)": 0}
    assert parameters_of(columns) == 4
    assert parameters_of({"Intercept": 0, "age": 0, "(outcome)": 0, "(offset)": 0}) == 2


def training(rows=60, columns=3):
    X = np.random.default_rng(4).normal(size=(rows, columns))
    return SiteData(X, np.arange(rows) % 2, None)


def begun(place, policy, job="a", site=None, rounds=1, parameters=4):
    facts = TrainingFacts(job, ("east", "north", "south"), parameters, parameters, 0)
    memory = begin_training(policy, place, facts)
    check_training(policy, place, facts, site or training(), memory, rounds)
    return facts, memory


def test_trainings_count_as_jobs_and_their_rounds_as_numbers(place):
    """60 rows of 3 columns and an outcome are 240 values: 60 rounds of 4 numbers."""
    policy = Policy(max_jobs_per_month=2)
    facts, memory = begun(place, policy)
    for number in range(60):
        tell(policy, facts, training(), memory, str(number), 4)
        tell(policy, facts, training(), memory, str(number), 4)  # asked again
    assert memory.told() == 240
    with pytest.raises(Ruled) as refusal:
        tell(policy, facts, training(), memory, "60", 4)
    assert refusal.value.rule == "max_numbers_per_value"
    with pytest.raises(Ruled):
        begun(place, policy, "b")
    with pytest.raises(
        Refused, match=r"more than 2 jobs in a month \(max_jobs_per_month = 2 in policy.toml\)"
    ):
        begun(place, policy, "c")


@pytest.mark.parametrize(("method", "round_"), [("mbsgd", 16), ("fednewton", 16 + 16 * 17 // 2)])
def test_numbers_of_a_training_are_counted_by_their_shapes(method, round_):
    """Of 8 columns and 2 classes; fednewton sends a Hessian. It was counted as 16 numbers."""
    features, classes = tuple(f"x{i}" for i in range(8)), ("0", "1")
    with jax.enable_x64(True):
        terms = Terms("t", method, "softmax", 0.01, "samples", 0, "float64", 3, 3, features,
                      classes, {}, "sum")  # fmt: skip
        learner = server_learner(terms)
        out = Outgoing("gradient", method, features, 60, 16, {}, {}, 3, {})
        facts = training_facts(terms.to_json(), (), out, learner)
    assert facts.numbers >= round_
    assert facts.closing >= 2 * 16 + 2


def test_certificates_of_two_models_are_two_questions():
    first, again, other = ({"model.w": np.full(3, x)} for x in (1.0, 1.0, 2.0))
    assert closing_of(first) == closing_of(again) != closing_of(other)


def test_batches_of_few_rows_are_refused():
    """A batch of one row tells the row; with the seed, everybody knows which row it is."""
    check_batches(Policy(), {"lr": 0.1})
    check_batches(Policy(), {"batch_size": 8})
    check_batches(LOOSE, {"batch_size": 1})
    for size in (0, 1, 7, True, "9", 8.5):
        with pytest.raises(Refused, match="batches of fewer than 8 rows"):
            check_batches(Policy(), {"batch_size": size})
    with pytest.raises(Refused, match="batches of fewer than 50 rows"):
        check_batches(Policy(min_rows=50), {"batch_size": 49})


def test_a_careful_site_answers_no_training(place):
    """A greeting neither; the refusal says why, and nobody is asked."""
    (place.folder / "policy.toml").write_text("complete = true\n")
    for message in (wire.Hello("study", "logistic"), wire.Envelope("ask", {}, {}),
                    wire.Envelope("training", {}, {}), wire.Envelope("round", {}, {})):  # fmt: skip
        said = wire.unpack_message(answer(wire.pack_message(message), place))
        told = "its policy does not allow trainings (training = false in policy.toml)"
        assert told in wire.read_refusal(said).reason
    assert not waiting(place.folder)


def test_rows_of_trainings_may_not_differ_by_few(place):
    begun(place, Policy(), "a", training(200))
    begun(place, Policy(), "b", training(200))
    with pytest.raises(Ruled) as refusal:
        begun(place, Policy(), "c", SiteData(*(x[1:] for x in training(200)[:2]), None))
    assert refusal.value.rule == "sets"
    other = training(400)
    with pytest.raises(Waits):  # many rows more: a person is told that the file changed
        begun(place, Policy(), "d", SiteData(*(np.concatenate([x, y[200:]]) for x, y in zip(
            training(200)[:2], other[:2], strict=True)), None))  # fmt: skip


def test_a_greeting_tells_rows_once_a_person_agrees(place):
    frame = pd.read_csv(place.data)
    frame.to_csv(place.data, index=False)
    own = place._replace(label="died")
    (place.folder / "policy.toml").write_text("training = true\ncomplete = true\n")
    hello = wire.pack_message(wire.Hello("study", "logistic"))
    said = wire.unpack_message(answer(hello, own))
    assert "waits for approval" in wire.read_refusal(said).reason
    [id] = waiting(place.folder)
    assert "its number of rows: 60" in "\n".join(words_of(place.folder, id))
    approve(place.folder, id)
    assert wire.read_welcome(wire.unpack_message(answer(hello, own))).offer.rows == 60
    pause(place.folder)  # which ends that, too
    assert (
        "this site is paused" in wire.read_refusal(wire.unpack_message(answer(hello, own))).reason
    )


@pytest.mark.parametrize("where", ["policy.toml", "codebook.toml"])
def test_a_training_uses_no_identifier(where, place):
    frame = pd.read_csv(place.data)
    frame.assign(mrn=range(len(frame))).to_csv(place.data, index=False)
    own = place._replace(label="died")
    policy = 'training = true\napprove = "none"\n'
    policy += 'identifiers = ["mrn"]\n' if where == "policy.toml" else ""
    (place.folder / "policy.toml").write_text(f"{policy}complete = true\n")
    if where == "codebook.toml":
        (place.folder / where).write_text('[columns.mrn]\ntype = "identifier"\n')
    hello = wire.pack_message(wire.Hello("study", "logistic"))
    told = wire.read_refusal(wire.unpack_message(answer(hello, own))).reason
    assert "a column, because this column is an identifier" in told
    assert "mrn" not in told
    (place.folder / where).unlink()
    (place.folder / "policy.toml").write_text(
        'training = true\napprove = "none"\ncomplete = true\n'
    )
    assert wire.unpack_message(answer(hello, own)).kind == "welcome"
