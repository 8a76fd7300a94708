"""The sites' first exchange, and a site's problem against that of the whole federation."""

import re
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from feddcd import tree
from feddcd._errors import DataError
from feddcd.data import Agreed, Dataset, Offer, SiteData, admit, agree, offer, partition, select
from feddcd.data.agreement import CLASSIFIERS, REGRESSIONS
from feddcd.data.federate import MODELS, dimensions, federate, phantom, site_problem
from slices import sliced

AB = ("a", "b")
BITS = (0.0, 1.0)


def site(client, features=AB, classes=BITS, rows=5):
    return Offer(client, rows, features, classes)


def test_every_model_has_its_kind():
    assert (*CLASSIFIERS, *REGRESSIONS) == ("softmax", "logistic", "mlp", "ridge", "poisson")
    assert set(MODELS) == {*CLASSIFIERS, *REGRESSIONS}


@pytest.mark.parametrize(
    ("labels", "model", "classes"),
    [
        ([3, 1, 3.0], "softmax", (1.0, 3.0)),
        ([3, 1, 3], "mlp:8", (1.0, 3.0)),
        ([3, 3, 3], "logistic", (3.0,)),
        (["v", "u", "v"], "softmax", ("u", "v")),
        ([0.5, 2, 1], "ridge", None),
        ([0, 2, 1], "poisson", None),
    ],
)
def test_offers(labels, model, classes):
    y = np.asarray(labels if isinstance(labels[0], str) else np.asarray(labels, float))
    assert offer("s", SiteData(np.ones((3, 2)), y, AB), model) == Offer("s", 3, AB, classes)
    assert offer("s", SiteData(np.ones((3, 2)), y, None), model) == Offer("s", 3, 2, classes)


@pytest.mark.parametrize(
    ("labels", "model", "message"),
    [
        (
            np.linspace(0, 1, 101),
            "softmax",
            "f: there are 101 different labels, not all of them whole numbers. This looks",
        ),
        (
            np.array([13.5, 10.25, 7.0, 8.0, 9.0, 6.0]),
            "softmax",
            "f: there are 6 different labels, not all of them whole numbers. This looks",
        ),
        (
            np.arange(1001.0),
            "softmax",
            "f: there are 1001 different labels. This looks like a continuous target; use",
        ),
        (
            np.arange(1001).astype(str),
            "softmax",
            "f: there are 1001 different labels. This looks like more than 1000",
        ),
        (
            np.array(["u", "v"]),
            "ridge",
            "f: the model ridge needs numbers as labels, but the first row has 'u'",
        ),
        (
            np.array([1.0, -2]),
            "poisson",
            "f: the model poisson needs targets >= 0, but row 1 (counted from 0) has -2.0",
        ),
        (np.array([1.0, 2]), "ridgee", "unknown model 'ridgee'; the models are softmax, logistic"),
    ],
)
def test_offer_refuses(labels, model, message):
    with pytest.raises(DataError) as caught:
        offer("s", SiteData(np.ones((len(labels), 2)), labels, AB, "f"), model)
    assert message in str(caught.value)


TEXT = ("u", "v")
STANDARDS = {
    "one order": ([site("1", ("b", "a")), site("2")], {}, ("b", "a"), BITS),
    "most have it": ([site("1", ("c",)), site("2"), site("3", ("b", "a"))], {}, AB, BITS),
    "a tie": ([site("2", ("c",)), site("1")], {}, AB, BITS),
    "declared": ([site("1"), site("2", ("c",))], {"features": ["c"]}, ("c",), BITS),
    "numbers": ([site("1", 3), site("2", 7), site("3", 5)], {}, 7, BITS),
    "number declared": ([site("1", 3), site("2", 7)], {"features": 5}, 5, BITS),
    "numbers join names": ([site("1", 1), site("2", 2), site("3")], {}, AB, BITS),
    "numbers outvote names": ([site("1", 9), site("2", 9), site("3")], {}, 9, BITS),
    "union": ([site("1", classes=(2.0,)), site("2", classes=(0.0,))], {}, AB, (0.0, 2.0)),
    "text": ([site("1", classes=("v",)), site("2", classes=("u",))], {}, AB, TEXT),
    "mostly text": (
        [site("1"), site("2", classes=TEXT), site("3", classes=("u",))],
        {},
        AB,
        TEXT,
    ),
    "declared classes": ([site("1")], {"classes": [1, 0, 2]}, AB, (1.0, 0.0, 2.0)),
    "declared text": ([site("1", classes=("u",))], {"classes": ["v", "u"]}, AB, ("v", "u")),
    "of refused sites": (
        [site("1"), site("2"), site("3", ("c",), (7.0,))],
        {},
        AB,
        BITS,
    ),
    "ridge": ([site("1", classes=None)], {"model": "ridge"}, AB, None),
}


@pytest.mark.parametrize(
    ("offers", "options", "features", "classes"), STANDARDS.values(), ids=STANDARDS
)
def test_standards(offers, options, features, classes):
    assert agree(offers, **options)[0] == Agreed(features, classes)
    assert agree(offers[::-1], **options) == agree(offers, **options)


REFUSED = [
    (
        site("s", ("a", "alter")),
        {},
        "s has no column 'b'; it has a column 'alter' that no other site has",
    ),
    (site("s", ("a",)), {}, "s has no column 'b'"),
    (site("s", ("a", "b", "c")), {}, "s has a column 'c' that no other site has"),
    (
        site("s", ("a", "z")),
        {},
        "s has no column 'b'; it has a column 'z' that the federation does",
    ),
    (site("s", tuple("abcdefghi")), {}, "columns 'c', 'd', 'e', 'f', 'g', and 2 more that"),
    (site("s", 3), {}, "s has 3 features, but the federation has 2"),
    (site("s", 3), {"features": AB}, "s has 3 features, but the federation has 2"),
    (
        site("s", classes=("u", "v")),
        {},
        "s has text as labels ('u', 'v'), but the labels of the federation are numbers",
    ),
    (
        site("s", classes=(7.0,)),
        {"classes": [0, 1]},
        "s has the class 7, but the federation has only 0, 1",
    ),
    (site("s", classes=None), {}, "s has no classes, but the model needs classes"),
    (site("s", rows=0), {}, "s has 0 rows, but needs at least 1"),
    (site("s", ()), {}, "s has no features"),
    (site("s", 0), {}, "s has no features"),
    (site("s", ("a", "b", "a")), {}, "s has two columns called 'a'"),
    (site("s", classes=()), {}, "s must have 1 to 1000 classes, but has 0"),
    (
        site("s", classes=tuple(map(float, range(1001)))),
        {},
        "s must have 1 to 1000 classes, but has 1001",
    ),
    (
        site("s", classes=("u", 1.0)),
        {},
        "s has the classes 'u', 1, but classes must be all text or all numbers",
    ),
    (
        site("s", classes=(0.0, np.nan)),
        {},
        "s has the classes 0, nan, but classes must be all text or all numbers",
    ),
]


@pytest.mark.parametrize(("other", "options", "reason"), REFUSED)
def test_refused_with_the_reason(other, options, reason):
    offers = [site("1"), site("2"), site("3"), site("4", ("a", "z"), BITS), other]
    agreed, refused = agree(offers, **options)
    assert agreed == Agreed(AB, BITS)
    assert set(refused) == {"4", "s"}
    assert reason in refused["s"]
    later = reason.partition(" that ")[0].replace("nobody else", "")
    assert later in admit(other, agreed)


def test_names_and_numbers_do_not_mix():
    _, refused = agree([site("1", 9), site("2", 9), site("3")])
    assert refused == {
        "3": (
            "site 3 has columns with names ('a', 'b'), but the federation has 9 features "
            "without names"
        )
    }
    _, refused = agree([site("1", classes=None), site("2")], model="ridge")
    assert refused == {"2": "site 2 has the classes 0, 1, but the model predicts a number"}


def test_later_sites():
    agreed = Agreed(AB, (0.0, 1.0, 2.0))
    for features, classes in ((("b", "a"), (2.0,)), (1, BITS), (AB, BITS)):
        assert admit(site("s", features, classes), agreed) == ""
    assert (
        admit(site("s", AB, (5.0,)), agreed)
        == "s has the class 5, but the federation has only 0, 1, 2"
    )
    assert admit(site("s", classes=None), Agreed(AB, None)) == ""
    wider = "s has a column 'c' that the federation does not have"
    assert admit(site("s", ("a", "b", "c")), agreed) == wider


ERRORS = [
    ([], {}, "there are no sites"),
    ([site("1"), site("2"), site("1")], {}, "two sites have the name '1'"),
    (
        [site("1", classes=(1.0,)), site("2", classes=(1.0,))],
        {},
        "softmax needs at least 2 classes",
    ),
    (
        [site("1", classes=BITS), site("2", classes=(2.0,)), site("3")],
        {"model": "logistic"},
        (
            "logistic needs 2 classes, but the sites together have 3 classes: the class 0 (at "
            "site 1, site 3); the class 1 (at site 1, site 3); the class 2 (at site 2)"
        ),
    ),
    (
        [site("1", classes=("u",))],
        {"model": "logistic"},
        "logistic needs 2 classes, but the sites together have only the class 'u' (at site 1)",
    ),
    (
        [site("1")],
        {"model": "logistic", "classes": [0, 1, 2]},
        (
            "logistic needs 2 classes, but the sites together have 3 classes: the class 0 (at "
            "site 1); the class 1 (at site 1); the class 2 (at no site)"
        ),
    ),
    (
        [site("1"), site("2", 3)],
        {"features": ["c", "d"]},
        "no site has data that fit the model: site 1 has no columns 'c', 'd'; ",
    ),
    (
        [site("1"), site("2", 3)],
        {"features": ["c", "d"]},
        "; site 2 has 3 features, but the federation has 2",
    ),
    (
        [site("1")],
        {"classes": ["u", "v"]},
        (
            "that fit the model: site 1 has numbers as labels (0, 1), but the labels of the "
            "federation are text"
        ),
    ),
    (
        [site("1", rows=0)],
        {},
        "no site has data that fit the model: site 1 has 0 rows, but needs at least 1",
    ),
    (
        [site("1")],
        {"model": "ridge", "classes": [0, 1]},
        (
            "the model ridge predicts a number, so it has no classes: leave out the setting "
            "'classes' (here 0, 1)"
        ),
    ),
    ([site("1")], {"model": "forest"}, "unknown model 'forest'"),
    (
        [site("1")],
        {"features": []},
        "features must be a list of different names, or a whole number >= 1; got []",
    ),
    ([site("1")], {"features": "ab"}, "got 'ab'"),
    ([site("1")], {"features": 0}, "got 0"),
    ([site("1")], {"features": True}, "got True"),
    ([site("1")], {"features": ["a", "a"]}, "got ['a', 'a']"),
    ([site("1")], {"features": ["a", 1]}, "got ['a', 1]"),
    (
        [site("1")],
        {"classes": []},
        "classes must be a list with at least one class, all text or all numbers, and no class may "
        "occur twice; got []",
    ),
    ([site("1")], {"classes": [0, "u"]}, "got [0, 'u']"),
    ([site("1")], {"classes": [0, 0.0]}, "got [0, 0.0]"),
    ([site("1")], {"classes": [0, np.nan]}, "got [0, nan]"),
    ([site("1")], {"classes": "uv"}, "got 'uv'"),
    (
        [site(str(i), classes=(i / 2, i + 0.25)) for i in range(60)],
        {},
        (
            "the sites together: there are 120 different labels, not all of them whole numbers. "
            "This looks like a continuous target"
        ),
    ),
]


@pytest.mark.parametrize(("offers", "options", "message"), ERRORS)
def test_refuses(offers, options, message):
    with pytest.raises(DataError) as caught:
        agree(offers, **options)
    assert message in str(caught.value)


def some(values, most=3):
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True).map(tuple)


# most of them sound, so that there is something to agree on
COLUMNS = st.sampled_from([AB, AB, ("b", "a"), ("a", "b", "c"), (), 0, 1, 2, 2, 4])
LABELS = st.sampled_from([BITS, BITS, (2.0,), (0.0, 2.0), TEXT, ("u",), ("w", "u"), ()])
ROWS = st.sampled_from([1, 2, 3, 4, 0])


def offers_of(classes):
    one = st.builds(Offer, st.just(""), ROWS, COLUMNS, classes)
    many = st.lists(one, min_size=1, max_size=7)
    return many.map(lambda all: [o._replace(client=f"s{i}") for i, o in enumerate(all)])


CASES = st.tuples(st.sampled_from(CLASSIFIERS), offers_of(LABELS)) | st.tuples(
    st.sampled_from(REGRESSIONS), offers_of(st.sampled_from([None, None, None, BITS]))
)


@settings(max_examples=400, deadline=None)
@given(
    case=CASES,
    features=st.none() | st.none() | some("abc") | st.integers(1, 4),
    shuffle=st.randoms(use_true_random=False),
)
def test_each_is_accepted_and_fits_or_is_refused_with_a_reason(case, features, shuffle):
    model, offers = case
    try:
        agreed, refused = agree(offers, features=features, model=model)
    except DataError:
        return
    again = list(offers)
    shuffle.shuffle(again)
    assert agree(again, features=features, model=model) == (agreed, refused)
    assert set(refused) < {o.client for o in offers}
    for o in offers:
        assert (admit(o, agreed) == "") == (o.client not in refused)
        if o.client in refused:
            assert refused[o.client].startswith(f"{o.client} ")
            continue
        d = o.features if isinstance(o.features, int) else len(o.features)
        names = None if isinstance(o.features, int) else o.features
        wide = select(SiteData(np.ones((o.rows, d)), np.ones(o.rows), names), agreed.features)
        assert wide.X.shape[1] == dimensions(agreed, model)[0]
        assert o.classes is None or set(o.classes) <= set(agreed.classes)


@settings(max_examples=200, deadline=None)
@given(sets=st.lists(some("abc"), min_size=1, max_size=7))
def test_the_most_common_columns_win_and_the_first_of_equals(sets):
    agreed, refused = agree([site(f"s{i}", own) for i, own in enumerate(sets)])
    votes = Counter(frozenset(own) for own in sets)
    best = max(votes.values())
    winner = next(own for own in sets if votes[frozenset(own)] == best)
    assert agreed.features == winner
    assert len(refused) == len(sets) - best


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@eqx.filter_jit
def seen(problem, i, w):
    """Value, slope and constants of a stacked client."""
    f = tree.take(problem, i)
    return *jax.value_and_grad(lambda w: f(w))(w), (f.beta, f.weight, f.mu)


def federation(model, thin):
    random = np.random.default_rng(1)
    X = random.normal(size=(30, 4)) * (random.uniform(size=(30, 4)) < 0.6)
    y = {
        "logistic": np.arange(30) % 2,
        "ridge": random.normal(size=30),
        "poisson": random.poisson(2.0, 30),
    }.get(model, np.arange(30) % 3 + 0.5)
    return Dataset("made", sparse.csr_array(X) if thin else X, y)


ALL_MODELS = ["softmax", "logistic", "ridge", "poisson", "mlp:5"]


@pytest.mark.parametrize("weighting", sliced(["clients", "samples"], {"clients"}))
@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", sliced(ALL_MODELS, {"softmax", "poisson", "mlp:5"}))
@pytest.mark.usefixtures("x64")
def test_a_site_has_its_part_of_the_federation(model, thin, weighting):
    data = federation(model, thin)
    parts = [np.arange(0, 9, 3), np.arange(9, 12), np.r_[np.arange(12, 30), [1, 2, 4, 5, 7, 8]]]
    options = {"model": model, "l2": 0.1, "seed": 3}
    whole = federate(data, parts, weighting=weighting, **options)
    sites = [SiteData(data.X[p], data.y[p], ("d", "c", "b", "a")) for p in parts]
    offers = [offer(f"s{i}", s, model) for i, s in enumerate(sites)]
    agreed, refused = agree(offers, model=model)
    assert not refused
    scale = None if weighting == "clients" else len(parts) / 30
    noise = np.random.default_rng(2)
    w = jax.tree.map(lambda x: np.asarray(x) + noise.normal(size=x.shape), whole.w)
    server = phantom(*dimensions(agreed, model), scale=scale, **options)
    for i, own in enumerate(sites):
        order = [2, 0, 3, 1]
        mixed = own._replace(X=own.X[:, order], names=tuple("dcba"[j] for j in order))
        mine = site_problem(mixed, agreed, scale=scale, **options)
        assert mine.problem.rows.tolist() == [len(own.labels)]
        assert mine.test is None
        there, here = seen(whole.problem, jnp.asarray(i), w), seen(mine.problem, jnp.asarray(0), w)
        np.testing.assert_allclose(there[0], here[0], rtol=1e-12)
        for x, y in zip(*(jax.tree.leaves(slope) for _, slope, _ in (there, here)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(there[2], here[2], rtol=1e-12)
        for start in (mine.w, server.w):
            pairs = zip(*map(jax.tree.leaves, (start, whole.w)), strict=True)
            assert all(np.array_equal(x, y) for x, y in pairs)
    assert server.problem.rows.tolist() == [1]
    assert np.isfinite(server.problem.beta).all() == np.isfinite(whole.problem.beta).all()


@pytest.mark.usefixtures("x64")
def test_codes_are_those_of_the_federation():
    own = SiteData(np.eye(2), np.array(["v", "v"]), None)
    made = site_problem(own, Agreed(3, ("w", "v", "u")))
    assert made.problem.Y[0].tolist() == [[0, 1, 0], [0, 1, 0]]
    assert made.classes.tolist() == ["w", "v", "u"]
    assert made.w.shape == (3, 3)
    logistic = site_problem(own, Agreed(("a", "b"), ("u", "v")), model="logistic")
    assert logistic.problem.Y[0].tolist() == [[1], [1]]


ONE = SiteData(np.eye(2), np.array([1.0, 2.0]), None, "f")
UVW = SiteData(np.eye(2), np.array(["u", "v"]), None, "f")
PROBLEMS = [
    (
        ONE,
        Agreed(2, (1.0, 3.0)),
        {},
        r"f: row 1 \(counted from 0\) has the label 2, but the agreed classes are 1, 3",
    ),
    (
        ONE,
        Agreed(2, (0.0, 1.0)),
        {},
        r"f: row 1 \(counted from 0\) has the label 2, but the agreed classes are 0, 1",
    ),
    (
        UVW,
        Agreed(2, ("u", "w")),
        {},
        r"f: row 1 \(counted from 0\) has the label 'v', but the agreed classes are 'u', 'w'",
    ),
    (
        UVW,
        Agreed(2, BITS),
        {},
        r"f: row 0 \(counted from 0\) has the label 'u', but the agreed classes are 0, 1",
    ),
    (
        ONE,
        Agreed(2, ("1", "2")),
        {},
        r"f: row 0 \(counted from 0\) has the label 1, but the agreed classes are '1', '2'",
    ),
    (
        UVW,
        Agreed(2, None),
        {"model": "ridge"},
        "f: the model ridge needs numbers as labels, but the first row has 'u'",
    ),
    (
        ONE,
        Agreed(2, None),
        {},
        "the model softmax needs at least 2 classes, but the agreed classes are none",
    ),
    (ONE, Agreed(2, BITS), {"model": "ridge"}, "needs no classes, but the agreed classes are 0, 1"),
    (
        ONE,
        Agreed(2, (1.0, 2.0, 3.0)),
        {"model": "logistic"},
        "logistic needs exactly 2 classes, but the agreed classes are 1, 2, 3",
    ),
    (ONE, Agreed(1, (1.0, 2.0)), {}, "f has 2 features, but the federation has 1"),
    (
        ONE,
        Agreed(2, (1.0, 2.0)),
        {"scale": 0.0},
        "scale must be a finite number above 0, got scale=0.0",
    ),
    (
        ONE,
        Agreed(2, (1.0, 2.0)),
        {"scale": np.nan},
        "scale must be a finite number above 0, got scale=nan",
    ),
    (ONE, Agreed(2, (1.0, 2.0)), {"l2": -1}, "l2 must be a finite number >= 0, got l2=-1"),
    (
        ONE,
        Agreed(2, (1.0, 2.0)),
        {"model": "mlp:x"},
        "mlp:x: the width of a hidden layer must be a whole number from 1 to 100000",
    ),
    (ONE._replace(X=ONE.X * np.nan), Agreed(2, (1.0, 2.0)), {}, "f: X has nan at row 0, column 0"),
    (
        ONE._replace(labels=np.array([1.0, -1])),
        Agreed(2, None),
        {"model": "poisson"},
        "f: the model poisson needs targets >= 0, but row 1 .counted from 0. has -1",
    ),
]


@pytest.mark.parametrize(("own", "agreed", "options", "message"), PROBLEMS)
@pytest.mark.usefixtures("x64")
def test_site_problem_refuses(own, agreed, options, message):
    with pytest.raises(DataError, match=message):
        site_problem(own, agreed, **options)


@pytest.mark.parametrize(
    ("d", "k", "model", "message"),
    [
        (0, 2, "softmax", "softmax needs d >= 1 features and k >= 2 outputs, got d=0, k=2"),
        (3, 1, "mlp:4", "mlp:4 needs d >= 1 features and k >= 2 outputs, got d=3, k=1"),
        (3, 2, "logistic", "logistic needs d >= 1 features and k = 1 outputs, got d=3, k=2"),
        (3, 1, "forest", "unknown model 'forest'"),
    ],
)
def test_phantom_refuses(d, k, model, message):
    with pytest.raises(DataError, match=re.escape(message)):
        phantom(d, k, model=model)


@pytest.mark.usefixtures("x64")
def test_zero_rows_do_not_spoil_the_bound_of_poisson():
    data = Dataset("made", np.zeros((4, 2)), np.arange(4))
    parts = partition(data.y, "iid", 2, seed=0)
    assert np.isinf(federate(data, parts, model="poisson").problem.beta).all()
