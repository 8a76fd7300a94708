"""A maximum by a sum, which tells nothing else."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddcd._errors import DataError, SpecError
from feddcd.analysis._sums import round_up
from feddcd.sums import levels
from feddcd.sums.levels import Grid, grid_of

M, SMALL = grid_of(8), Grid(2, -3, 3)
bounds = st.floats(0, np.inf) | st.floats(0, 1e9) | st.sampled_from([0.0, np.inf, 1e-300])


def opened(values, grid):
    words = [levels.encode(np.array([value]), grid) for value in values]
    return float(levels.decode(np.sum(words, 0, dtype=np.uint64), grid)[0])


@settings(max_examples=60)
@given(st.lists(bounds, min_size=1, max_size=6), st.sampled_from([grid_of(1), M, SMALL]))
def test_what_is_opened_is_the_level_above_the_largest(values, grid):
    found, largest, held = opened(values, grid), max(values), levels.values(grid)
    assert found >= largest
    if largest == 0:
        assert found == 0
    elif largest <= held[0]:
        assert found == held[0], "below the grid counts as its lowest level"
    elif largest > held[-2]:
        assert found == np.inf, "above the grid, or infinite"
    else:
        assert found < largest * 2 ** (1 / grid.steps) * (1 + 1e-9)


@pytest.mark.parametrize("steps", [1, 8])
def test_what_is_rounded_up_already_stays_at_its_level(steps):
    rng = np.random.default_rng(0)
    rounded = [float(round_up(x, steps)) for x in 2.0 ** rng.uniform(-45, 24, 500)]
    found = levels.decode(levels.encode(np.array(rounded), grid_of(steps)), grid_of(steps))
    assert np.allclose(found, rounded, rtol=1e-11, atol=0)


def test_a_level_is_a_root_of_two_to_the_last_digit():
    """As integers have it: the 8th power is 2^k."""
    plain = levels.values(M)[:-1] / (1 + levels.ABOVE)
    for k, value in enumerate(plain[:40]):
        assert abs(Fraction(float(value)) ** 8 / Fraction(2) ** (k - 400) - 1) < 1e-14


def test_how_many_sites_reach_a_level_is_not_told():
    """The words of levels that one site reaches, and those that five do, look alike: random."""
    grid, n = Grid(1, -1, 1), 4000
    one, five = (
        np.sum([levels.encode(np.ones(n), grid) for _ in range(k)], 0, dtype=np.uint64)
        for k in (1, 5)
    )
    for words in (one, five):
        reached = words[:, :2]
        assert np.all(words[:, 2:] == 0), "and above the maximum there is nothing"
        ones = np.unpackbits(np.ascontiguousarray(reached).view(np.uint8)).mean()
        assert abs(ones - 0.5) < 6 * 0.5 / np.sqrt(reached.size * 64)
        assert len(np.unique(reached)) == reached.size


def test_a_bound_that_is_no_number_is_refused():
    with pytest.raises(DataError, match="not a number"):
        levels.encode(np.array([1.0, np.nan]), M)


@pytest.mark.parametrize("odd", [(0, 0, 1), (65, 0, 1), (1, 1, 1), (1, -501, 0), (1, 0, 501),
                                 (1.0, 0, 1), (True, 0, 1), ("1", 0, 1)])  # fmt: skip
def test_odd_grids_are_refused(odd):
    with pytest.raises(SpecError, match="a grid for rounding must"):
        Grid(*odd).check()


def test_noise_is_never_zero(monkeypatch):
    given = iter([bytes(16), bytes(8) + b"\1" * 8, b"\2" * 8])
    monkeypatch.setattr(levels.secrets, "token_bytes", lambda n: next(given))
    assert np.all(levels.noise(2) != 0)
