"""Bytes that say exactly one thing: what `pack` wrote comes back, all else is refused by name."""

import hashlib
import json
import struct
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddcd._errors import CodecError, VersionError
from feddcd.durable.codec import digest, pack, unpack
from feddcd.tree import flatten, restore

DTYPES = ("float32", "float64", "int32", "int64", "uint32", "uint8", "bool")
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
ARRAYS = hnp.arrays(st.sampled_from(DTYPES), SHAPES)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
METAS = st.dictionaries(st.text(), VALUES, max_size=4)
NAMES = st.text(max_size=8)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(METAS, st.dictionaries(NAMES, ARRAYS, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_is_packed_comes_back(meta, arrays):
    comes_back(meta, arrays)


@pytest.mark.chaos
@given(METAS, st.dictionaries(NAMES, ARRAYS, max_size=4))
@settings(max_examples=2000, deadline=None)
def test_whatever_is_packed_comes_back(meta, arrays):
    comes_back(meta, arrays)


def comes_back(meta, arrays):
    data = pack(meta, arrays)
    have_meta, have = unpack(data)
    assert have_meta == meta
    assert have.keys() == arrays.keys()
    assert all(same(have[name], arrays[name]) for name in arrays)
    assert pack(have_meta, have) == data


class Pair(NamedTuple):
    left: object
    right: object


LEAVES = hnp.arrays(st.sampled_from(["float32", "int32", "uint32", "uint8", "bool"]), SHAPES)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.builds(Pair, inner, inner)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(TREES)
@settings(max_examples=30, deadline=None)
def test_trees_come_back_through_bytes(tree):
    tree_comes_back(tree)


@pytest.mark.chaos
@given(TREES)
@settings(max_examples=1000, deadline=None)
def test_many_trees_come_back_through_bytes(tree):
    tree_comes_back(tree)


def tree_comes_back(tree):
    _, arrays = unpack(pack({}, flatten(tree)))
    again = restore(jax.tree.map(np.zeros_like, tree), arrays)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    leaves = zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True)
    assert all(same(np.asarray(a), b) for a, b in leaves)
    assert digest(again) == digest(tree)


META = {"round": 3, "members": ["a", "b"], "pending": None}
ARRAYS_3 = {"w": np.arange(6.0).reshape(2, 3), "n": np.int64(4), "on": np.array([True, False])}
GOOD = pack(META, ARRAYS_3)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damage_is_a_codec_error(data):
    damage(data)


@pytest.mark.chaos
@given(st.data())
@settings(max_examples=4000, deadline=None)
def test_damage_is_always_a_codec_error(data):
    damage(data)


def damage(data):
    """Flipped, cut, inserted, repeated: nothing but CodecError, and never a wrong answer."""
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(damaged)))
        j = data.draw(st.integers(i, min(len(damaged), i + 20)))
        damaged[i:j] = data.draw(st.binary(max_size=20))
    if bytes(damaged) != GOOD:
        with pytest.raises(CodecError):
            unpack(bytes(damaged))


@given(st.binary(max_size=200))
@example(b"")
def test_noise_is_a_codec_error(noise):
    with pytest.raises(CodecError):
        unpack(noise)


def test_every_flipped_bit_is_found():
    for bit in range(8 * len(GOOD)):
        damaged = bytearray(GOOD)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CodecError):
            unpack(bytes(damaged))


def sealed(header, arrays=b"", version=1, size=None):
    """Bytes with a right checksum: who can write can do that, so the rest must hold too."""
    text = header if isinstance(header, bytes) else json.dumps(header, sort_keys=True).encode()
    text = text.replace(b", ", b",").replace(b": ", b":")
    start = struct.pack("<6sHQ", b"FEDDCD", version, len(text) if size is None else size)
    body = start + text + arrays
    return body + hashlib.sha256(body).digest()


def listing(*arrays, **more):
    return {"arrays": list(arrays), "meta": {}, **more}


FORGED = {
    "another version": (
        sealed(listing(), version=2),
        "format version 2, but this version of feddcd reads the format version 1",
    ),
    "a header longer than all": (sealed(listing(), size=1 << 60), "say that the header has"),
    "no JSON": (sealed(b"{"), "wrong header"),
    "no UTF-8": (sealed(b'"\xff"'), "wrong header"),
    "nested without end": (sealed(b"[" * 100_000), "wrong header"),
    "a list": (sealed([]), "wrong header"),
    "no arrays": (sealed({"meta": {}}), "wrong header"),
    "there are too many": (sealed(listing(more=1)), "wrong header"),
    "meta is a list": (sealed({"arrays": [], "meta": []}), "wrong header"),
    "not a number": (sealed(b'{"arrays":[],"meta":{"a":NaN}}'), "wrong header"),
    "two keys of one name": (sealed(b'{"arrays":[],"meta":{"a":1,"a":2}}'), "wrong header"),
    "objects": (sealed(listing(["w", "object", [1]]), bytes(8)), "wrong header"),
    "a dtype that is a list": (sealed(listing(["w", [], [1]])), "wrong header"),
    "a negative side": (sealed(listing(["w", "uint8", [-1]])), "wrong header"),
    "a side that is true": (sealed(listing(["w", "uint8", [True]]), b"1"), "wrong header"),
    "a shape that is a word": (sealed(listing(["w", "uint8", "1"])), "wrong header"),
    "absurd beside zero": (sealed(listing(["w", "uint8", [0, 1 << 62]])), "no array can have"),
    "many dimensions": (sealed(listing(["w", "uint8", [1] * 65]), b"1"), "no array can have"),
    "more than it holds": (sealed(listing(["w", "float64", [1 << 20]])), "the header says 8388608"),
    "less than it holds": (sealed(listing(["w", "uint8", [1]]), b"123"), "the arrays have 3 bytes"),
    "a name that is a number": (sealed(listing([1, "uint8", [0]])), "wrong header"),
    "one name twice": (sealed(listing(["w", "uint8", [0]], ["w", "uint8", [0]])), "wrong header"),
    "not in order": (sealed(listing(["w", "uint8", [0]], ["a", "uint8", [0]])), "wrong header"),
    "a bool of 2": (sealed(listing(["w", "bool", [1]]), b"\2"), "neither 0 nor 1"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_bytes_are_refused(case):
    data, message = FORGED[case]
    with pytest.raises(CodecError, match=message):
        unpack(data)


def test_the_forger_can_write_good_bytes():
    _, arrays = unpack(sealed(listing(["w", "uint8", [2]]), b"\1\2"))
    assert arrays["w"].tolist() == [1, 2]
    with pytest.raises(VersionError):
        unpack(FORGED["another version"][0])


UNFIT = {
    "objects": ({}, {"w": np.array([None])}, "array 'w' has the type object"),
    "complex": ({}, {"w": np.zeros(2, complex)}, "array 'w' has the type complex128"),
    "half": ({}, {"w": np.zeros(2, np.float16)}, "array 'w' has the type float16"),
    "text": ({}, {"w": np.array("x")}, "array 'w' has the type <U1"),
    "a name that is a number": ({}, {1: np.zeros(1)}, "the name 1"),
    "a tuple": ({"a": (1, 2)}, {}, "use lists, not tuples"),
    "a key that is a number": ({1: 2}, {}, "use texts as keys"),
    "infinity": ({"a": float("inf")}, {}, "not plain JSON"),
    "an array": ({"a": np.zeros(2)}, {}, "not plain JSON"),
    "bytes": ({"a": b"x"}, {}, "not plain JSON"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_only_plain_values_are_packed(case):
    meta, arrays, message = UNFIT[case]
    with pytest.raises(CodecError, match=message):
        pack(meta, arrays)


def test_order_and_layout_do_not_matter():
    a, b = np.arange(6.0).reshape(2, 3), np.array([1, 2])
    mixed = {"b": b.astype(">i8"), "a": np.asfortranarray(a)}
    assert pack({"x": 1, "y": 2}, {"a": a, "b": b}) == pack({"y": 2, "x": 1}, mixed)
    arrays = unpack(pack({}, mixed))[1]
    assert arrays["a"].flags.writeable
    assert arrays["b"].dtype.isnative


def test_a_state_that_does_not_fit_is_named():
    like = {"w": jnp.zeros(3), "n": jax.ShapeDtypeStruct((), jnp.int32)}
    good = {"w": np.ones(3, np.float32), "n": np.array(1, np.int32)}
    assert restore(like, good)["n"] == 1
    for change, message in {
        "v": "the array v is unknown here",
        "w": r"w has the type and shape float32\(2,\), but float32\(3,\) was expected",
        "n": r"n has the type and shape float32\(2,\), but int32\(\) was expected",
    }.items():
        with pytest.raises(CodecError, match=message):
            restore(like, {**good, change: np.ones(2, np.float32)})
    with pytest.raises(CodecError, match="the array n is missing"):
        restore(like, {"w": good["w"]})
    with pytest.raises(CodecError, match="JAX works with 32 bits: set JAX_ENABLE_X64=1"):
        restore({"w": np.zeros(3)}, {"w": np.zeros(3)})
    with jax.enable_x64(True):
        assert restore({"w": np.zeros(3)}, {"w": np.ones(3)})["w"].dtype == np.float64


def test_two_leaves_of_one_name_are_refused():
    with pytest.raises(CodecError, match="would have the same name"):
        flatten({"a.b": np.zeros(1), "a": {"b": np.zeros(1)}})


def test_the_digest_sees_names_dtypes_shapes_and_bytes():
    w = np.arange(4, dtype=np.float32)
    trees = [
        {"w": w},
        {"v": w},
        {"w": w.view(np.int32)},
        {"w": w.reshape(2, 2)},
        {"w": w + 1},
        {"w": w[:2], "x": w[2:]},
        {"w": -0.0 * w},
    ]
    assert len({digest(tree) for tree in trees}) == len(trees)
    assert digest({"w": jnp.asarray(w)}) == digest({"w": w})
