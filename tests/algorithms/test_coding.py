"""Numbers in few bits, and parts of uploads that travel now and then."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd import tree
from feddcd._errors import CodecError
from feddcd.algorithms import (
    BITS,
    Coded,
    Extra,
    arrived,
    code,
    extra_bytes,
    extra_sent,
    filled,
    opened,
    opened_now,
    parts_of,
    travelling,
    usual_bytes,
    with_parts,
)
from feddcd.algorithms._coding import code_brief, code_logs, code_square

# compiled as a whole: one by one their operations take far longer
square = jax.jit(lambda H, bits: opened(code_square(H, bits)), static_argnums=1)
logs = jax.jit(lambda x: opened(code_logs(x)))
brief = jax.jit(code_brief)
X = np.random.default_rng(0).standard_normal(40)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("bits", BITS)
def test_a_number_has_its_bits_and_is_off_by_half_a_unit_at_most(bits):
    coded = code(jnp.asarray(X), bits)
    exact = {32: 1e-7, 64: 0.0}
    step = exact.get(bits, 1.0001 * np.abs(X).max() / (2 ** (bits - 1) - 1) / 2)
    assert tree.nbytes(coded) == 40 * bits // 8 + (4 if bits < 32 else 0)
    assert np.abs(np.asarray(opened(coded)) - X).max() <= step


def test_with_a_key_it_is_right_on_average():
    keys = jax.random.split(jax.random.key(0), 4000)
    many = jax.vmap(lambda key: opened(code(jnp.asarray(X), 8, key)))(keys)
    unit = np.abs(X).max() / 127
    assert np.abs(np.asarray(many) - X).max() <= 1.0001 * unit
    assert np.abs(np.asarray(many).mean(0) - X).max() < 5 * unit / np.sqrt(4 * 4000)


@pytest.mark.parametrize("x", [np.zeros(3), np.full(3, 1e-60), np.array([0.0, 3e38, -3e38])])
def test_what_is_nothing_or_enormous(x):
    back = np.asarray(opened(code(jnp.asarray(x), 8)))
    assert np.isfinite(back).all()
    assert np.abs(back - x).max() <= 1.0001 * np.abs(x).max() / 254 + 1e-45


def test_columns_have_their_own_units():
    wide = X.reshape(10, 4) * np.array([1e-6, 1.0, 1e6, 0.0])
    coded = code(jnp.asarray(wide), 8, columns=True)
    assert coded.unit.shape == (4,)
    error = np.abs(np.asarray(opened(coded)) - wide).max(0)
    assert (error <= np.abs(wide).max(0) / 253).all()


@pytest.mark.parametrize("bits", BITS)
def test_a_matrix_keeps_its_diagonal(bits):
    root = X.reshape(10, 4)[:, :4] * np.array([1e-4, 1.0, 1e4, 0.0])
    H = root.T @ root
    back = np.asarray(square(H, bits))
    off = np.abs(back - H[np.triu_indices(4)])
    sizes = np.sqrt(np.outer(np.diag(H), np.diag(H)))[np.triu_indices(4)]
    assert (off <= sizes * {8: 0.51 / 127, 16: 0.51 / 32767}.get(bits, 1e-6)).all()
    diagonal = back[[0, 4, 7, 9]]
    assert np.allclose(diagonal, np.diag(H), rtol=1e-7)


class Parts(NamedTuple):
    usual: jax.Array
    one: Extra
    other: Extra


def upload(one: bool, other: bool) -> Parts:
    value = {"H": code(jnp.asarray(X), 8), "n": jnp.ones(3)}
    return Parts(
        jnp.ones(2), Extra(jnp.asarray(one), value), Extra(jnp.asarray(other), jnp.ones(5))
    )


@pytest.mark.parametrize("parts", [(False, False), (True, False), (False, True), (True, True)])
def test_what_is_not_there_does_not_travel(parts):
    value = upload(*parts)
    arrays = travelling(value)
    sizes = (44 + 24, 40)
    extra = sum(size for size, there in zip(sizes, parts, strict=True) if there)
    assert usual_bytes(value) == 16
    assert int(extra_bytes(value)) == extra_sent(value) == extra
    assert sum(x.nbytes for x in arrays.values()) == 16 + extra
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), value)
    back = arrived(like, arrays)
    assert parts_of(back) == parts
    for a, b in zip(jax.tree.leaves(opened_now(back)), jax.tree.leaves(opened(value)), strict=True):
        assert np.array_equal(a, b)


def test_half_a_part_is_refused():
    value = upload(True, False)
    arrays = travelling(value)
    del arrays["one.n"]
    with pytest.raises(CodecError, match=r"the array one\.n is missing"):
        arrived(value, arrays)


def test_means_count_what_was_not_sent_as_zero():
    both = tree.stack([opened(upload(True, False)), opened(upload(True, True))])
    mean = tree.weighted_mean(both, jnp.array([1.0, 3.0]))
    assert float(mean.one.there) == 1.0
    assert float(mean.other.there) == 0.75
    assert np.allclose(mean.other.value, 0.75)
    assert isinstance(code(jnp.asarray(X), 8), Coded)


def test_filled_is_the_inverse_of_with_parts():
    value = opened(upload(True, False))
    again = filled(value, with_parts(value, (1.0, 0.0)), (1.0, 0.0))
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(value), strict=True):
        assert np.array_equal(a, b)


def test_logarithms_are_as_right_for_small_entries_as_for_large():
    """One byte with the sign: 126 steps for 16 octaves, half a step is a factor of 2^(1/15.75)."""
    x = np.array([3.0, -0.4, 7e-3, -1e-4, 1e-6, 0.0])
    back = np.asarray(logs(x))
    np.testing.assert_allclose(back[:4], x[:4], rtol=2 ** (1 / 15.75) - 1)
    assert list(back[4:]) == [0.0, 0.0]
    assert float(back[0]) == 3.0
    assert not np.asarray(logs(np.zeros(3))).any()


@pytest.mark.parametrize("x", [0.0, 1.0, -2.71828, 1e30, 3e-9])
def test_two_bytes_hold_a_number_within_half_a_percent(x):
    coded = brief(x)
    assert coded.q.nbytes == 2
    assert float(opened(coded)) == pytest.approx(x, rel=2**-8)
