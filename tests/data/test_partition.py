"""Partitions: every row with exactly one client, each scheme as it is described."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from feddcd._errors import DataError
from feddcd.data import PARTITIONS, partition

FREE = ["contiguous", "iid", "sorted", "two-class", "shards", "dirichlet", "dirichlet:5"]
Y = np.repeat(np.arange(10.0), 60)
Y = Y[np.random.default_rng(0).permutation(600)]


def is_partition(parts, n):
    joined = np.concatenate(parts)
    sorted_parts = all((np.diff(part) > 0).all() for part in parts)
    return sorted_parts and np.array_equal(np.sort(joined), np.arange(n)) and min(map(len, parts))


@settings(max_examples=150, deadline=None)
@given(
    y=st.lists(st.integers(-2, 4), min_size=1, max_size=120),
    scheme=st.sampled_from(FREE),
    N=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_true_partitions(y, scheme, N, seed):
    assume(len(y) >= N)
    try:
        parts = partition(y, scheme, N, seed=seed)
    except DataError:
        # these may give up where a class or the whole has too few rows for N clients
        assert scheme in ("two-class", "shards", "dirichlet", "dirichlet:5")
        return
    assert len(parts) == N
    assert is_partition(parts, len(y))


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_groups_are_true_partitions(values):
    parts = partition(np.zeros(len(values)), "group", None, groups=values)
    assert is_partition(parts, len(values))
    assert [sorted({values[i] for i in part}) for part in parts] == [
        [v] for v in sorted(set(values))
    ]


@pytest.mark.parametrize("scheme", ["iid", "two-class", "shards", "dirichlet"])
def test_the_seed_decides(scheme):
    first, again, other = (partition(Y, scheme, 20, seed=s) for s in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_contiguous_gives_the_remainder_to_the_last():
    parts = partition(np.zeros(11), "contiguous", 3)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9, 10]]


@pytest.mark.parametrize("scheme", ["iid", "sorted"])
def test_sizes_differ_by_at_most_one(scheme):
    sizes = [part.size for part in partition(Y, scheme, 7)]
    assert max(sizes) - min(sizes) <= 1


def test_iid_is_shuffled():
    assert not np.array_equal(partition(Y, "iid", 6)[0], np.arange(100))


def test_sorted_is_stable():
    parts = partition([1, 0, 1, 0, 0], "sorted", 2)
    assert [part.tolist() for part in parts] == [[1, 3, 4], [0, 2]]
    assert [part.tolist() for part in partition([1, 1, 0, 1, 1], "sorted", 2)] == [
        [0, 1, 2],
        [3, 4],
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("N", [5, 6, 20])
def test_two_class_clients_hold_two_classes_at_most(seed, N):
    parts = partition(Y, "two-class", N, seed=seed)
    assert is_partition(parts, Y.size)
    assert max(np.unique(Y[part]).size for part in parts) == 2


def test_two_class_spreads_a_class_over_those_who_drew_it():
    parts = partition(np.repeat([0, 1], 300), "two-class", 3)
    assert all(60 < np.sum(part < 300) < 140 for part in parts)


@pytest.mark.parametrize("N", [1, 2])
def test_two_class_with_one_class(N):
    assert is_partition(partition(np.ones(40), "two-class", N), 40)


def test_shards_hold_two_runs_of_the_sorted_rows():
    parts = partition(Y, "shards", 30, seed=3)
    rank = np.argsort(np.argsort(Y, kind="stable"))
    for part in parts:
        runs = np.sort(rank[part]).reshape(2, 10)
        assert (np.diff(runs, axis=1) == 1).all()
        assert (runs[:, 0] % 10 == 0).all()


def test_a_larger_dirichlet_parameter_is_more_even():
    def unevenness(a):
        counts = [np.bincount(Y[part].astype(int), minlength=10) for part in partition(Y, a, 10)]
        return np.std(counts)

    # Dir(a) over N: share variance (1/N)(1-1/N)/(Na+1), times 60 rows: 60 * 0.3 / sqrt(10 a + 1)
    assert unevenness("dirichlet:100") < 2 < 5 < unevenness("dirichlet:0.3")
    assert unevenness("dirichlet") == unevenness("dirichlet:0.5")


def test_group_by_a_feature_column_counted_from_one():
    X = np.array([[0, 7.0], [0, 5], [0, 7], [1, 5]])
    for matrix in (X, sparse.csr_array(X)):
        parts = partition(np.zeros(4), "group:2", None, X=matrix)
        assert [part.tolist() for part in parts] == [[1, 3], [0, 2]]
        assert [part.tolist() for part in partition(np.zeros(4), "group:1", 2, X=matrix)] == [
            [0, 1, 2],
            [3],
        ]


def test_groups_may_be_words():
    parts = partition(np.zeros(3), "group", 2, groups=["b", "a", "b"])
    assert [part.tolist() for part in parts] == [[1], [0, 2]]


def test_every_scheme_is_described_in_one_line():
    assert {scheme.partition(":")[0] for scheme in FREE} | {"group"} == set(PARTITIONS)
    assert all(line and "\n" not in line for line in PARTITIONS.values())


CONTINUOUS = np.random.default_rng(0).standard_normal(400)


@pytest.mark.parametrize(
    ("y", "scheme", "N", "options", "message"),
    [
        (Y, "idd", 3, {}, "unknown partition 'idd'; known are contiguous, iid, sorted, two-class"),
        (Y, "", 3, {}, "unknown partition ''"),
        (Y, None, 3, {}, "unknown partition None"),
        (Y, "iid:3", 3, {}, "'iid' has no parameter, got 'iid:3'"),
        (
            Y,
            "iid",
            0,
            {},
            "N, the number of clients, must be from 1 to the number of rows, got N=0, rows=600",
        ),
        (Y, "iid", -1, {}, "got N=-1"),
        (Y, "sorted", 601, {}, "got N=601, rows=600"),
        (Y, "iid", None, {}, "'iid' needs the number of clients N as a whole number, got None"),
        (
            Y,
            "iid",
            2.5,
            {},
            "partition 'iid' needs the number of clients N as a whole number, got 2.5",
        ),
        (Y, "iid", True, {}, "the number of clients N as a whole number, got True"),
        (Y, "iid", 3, {"seed": -1}, "seed must be a whole number >= 0, got -1"),
        (Y, "iid", 3, {"seed": None}, "seed must be a whole number >= 0, got None"),
        ([], "iid", 1, {}, "y must have one dimension and at least one row, got shape (0,)"),
        (np.ones((2, 2)), "iid", 1, {}, "got shape (2, 2)"),
        ([1, np.nan], "iid", 1, {}, "y has nan at row 1"),
        (Y, "dirichlet:-1", 3, {}, "a must be from 1e-6 to 1e6, got a=-1.0"),
        (Y, "dirichlet:0", 3, {}, "got a=0.0"),
        (Y, "dirichlet:nan", 3, {}, "got a=nan"),
        (Y, "dirichlet:inf", 3, {}, "got a=inf"),
        (Y, "dirichlet:x", 3, {}, "'x' is not a number; write, for example, dirichlet:0.3"),
        (Y, "dirichlet:", 3, {}, "'' is not a number"),
        (
            Y,
            "dirichlet:0.001",
            30,
            {},
            "gave no rows to client 0 of 30 (counted from 0) in 100 attempts; use fewer clients",
        ),
        (Y, "dirichlet:0.001", 30, {}, "or a larger a"),
        (
            Y,
            "two-class",
            4,
            {},
            "gives each client two classes, so 10 classes need at least 5 clients, got N=4",
        ),
        (
            Y,
            "two-class",
            600,
            {},
            (
                "partition 'two-class' gave no rows to client 0 of 600 (counted from 0) in 100 "
                "attempts; use fewer clients"
            ),
        ),
        (
            Y,
            "shards",
            301,
            {},
            "'shards' needs at least two rows for each client, got N=301, rows=600",
        ),
        (
            CONTINUOUS,
            "sorted",
            3,
            {},
            "needs class labels, but y has 400 different values that are not whole numbers",
        ),
        (CONTINUOUS, "two-class", 3, {}, "'two-class' needs class labels"),
        (CONTINUOUS, "shards", 3, {}, "'shards' needs class labels"),
        (CONTINUOUS, "dirichlet:1", 3, {}, "'dirichlet:1' needs class labels"),
        (Y, "group", None, {}, "'group' needs groups, but these data have none"),
        (
            Y,
            "group",
            None,
            {"groups": [1, 2]},
            "groups must have the same shape as y, (600,), got (2,)",
        ),
        (Y, "group", 3, {"groups": Y}, "'group' has 10 groups, but N=3"),
        ([1, 2], "group", None, {"groups": [1, np.nan]}, "(nan) at row 1 (counted from 0)"),
        (Y, "group:1", None, {}, "'group:1' needs X"),
        (
            [1, 2],
            "group:3",
            None,
            {"X": np.ones((2, 2))},
            "partition 'group:3': the number of the feature must be from 1 to 2",
        ),
        (
            [1, 2],
            "group:0",
            None,
            {"X": np.ones((2, 2))},
            "partition 'group:0': the number of the feature must be from 1 to 2",
        ),
        (
            [1, 2],
            "group:a",
            None,
            {"X": np.ones((2, 2))},
            "partition 'group:a': the number of the feature must be from 1 to 2",
        ),
        (
            [1, 2],
            "group:",
            None,
            {"X": np.ones((2, 2))},
            "partition 'group:': the number of the feature must be from 1 to 2",
        ),
        ([1, 2], "group:1", None, {"X": np.ones((3, 2))}, "X has shape (3, 2), but y has 2 rows"),
    ],
)
def test_refuses(y, scheme, N, options, message):
    with pytest.raises(DataError) as caught:
        partition(y, scheme, N, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("scheme", ["contiguous", "iid"])
def test_continuous_targets_may_be_shared_out_blindly(scheme):
    assert is_partition(partition(CONTINUOUS, scheme, 7), 400)
