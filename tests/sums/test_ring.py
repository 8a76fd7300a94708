"""Exact numbers against Python's own integers and fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from feddcd._errors import DataError
from feddcd.sums import ring

MODULUS = 2**256
SCALE = Fraction(2) ** -ring.UNIT
numbers = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) < ring.LARGEST)
integers = st.integers(0, MODULUS - 1) | st.integers(-(2**70), 2**70).map(lambda n: n % MODULUS)
few = settings(max_examples=60)


def whole(words):
    """Each number's integer."""
    return [sum(int(word) << (64 * k) for k, word in enumerate(row)) for row in words]


def words(values):
    held = [[(n >> (64 * k)) % 2**64 for k in range(ring.WORDS)] for n in values]
    return np.array(held, np.uint64).reshape(-1, ring.WORDS)


def signed(n):
    return n - MODULUS if n >= MODULUS // 2 else n


@few
@given(st.lists(numbers, max_size=20))
@example([0.0, -0.0, 2.0**-124, -(2.0**-124), 2.0**-125, 1.5 * 2.0**-124, 5e-324, -5e-324])
@example([np.nextafter(ring.LARGEST, 0), -np.nextafter(ring.LARGEST, 0), 2.0**-72, 1 / 3])
def test_a_number_becomes_the_nearest_integer_ties_to_even(x):
    nearest = [round(Fraction(value) * SCALE) % MODULUS for value in x]
    assert whole(ring.encode(np.array(x))) == nearest


@few
@given(st.lists(integers, max_size=20))
@example([0, 1, MODULUS - 1, MODULUS // 2, MODULUS // 2 - 1, 2**53 + 1, 2**54 + 2, 2**54 + 6])
@example([2**192 + 2**139, 2**192 + 2**139 + 1, 2**192 + 3 * 2**139, 2**64 + 2**11, 2**64 - 1])
def test_an_integer_becomes_the_nearest_double_ties_to_even(n):
    nearest = [float(Fraction(signed(value)) / SCALE) for value in n]
    assert ring.decode(words(n)).tolist() == nearest


@few
@given(st.lists(st.tuples(integers, integers), max_size=20))
@example([(MODULUS - 1, 1), (2**64 - 1, 1), (2**128 - 1, 2**128 - 1), (2**192 - 1, 2**64)])
def test_sums_and_differences_are_those_of_integers(pairs):
    a, b = (words([pair[k] for pair in pairs]) for k in (0, 1))
    assert whole(ring.add(a, b)) == [(x + y) % MODULUS for x, y in pairs]
    assert whole(ring.subtract(a, b)) == [(x - y) % MODULUS for x, y in pairs]
    assert whole(ring.negate(a)) == [-x % MODULUS for x, _ in pairs]


@few
@given(st.lists(numbers, min_size=1, max_size=40), st.randoms())
def test_a_sum_is_the_same_in_any_order_and_within_its_bound(x, random):
    mixed = list(x)
    random.shuffle(mixed)
    one, other = (
        ring.total((ring.encode(np.array([v])).ravel() for v in held), 1, ring.WORDS)
        for held in (x, mixed)
    )
    assert one.tolist() == other.tolist()
    exact = Fraction(signed(whole(one.reshape(1, -1))[0])) / SCALE
    assert abs(exact - sum(map(Fraction, x))) <= Fraction(ring.rounding(len(x)))


def test_ordinary_doubles_are_exact():
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], 20_000) * 10.0 ** rng.uniform(-20, 36, 20_000)
    assert np.array_equal(ring.decode(ring.encode(x)), x)


def test_an_adder_keeps_more_carries_than_a_byte_holds():
    vector = np.full(2 * ring.WORDS + 1, 2**64 - 1, np.uint64)
    adder = ring.Adder(2, len(vector))
    for _ in range(600):
        adder.add(vector)
    total = adder.total()
    assert whole(total[:-1].reshape(2, -1)) == [-600 % MODULUS] * 2
    assert int(total[-1]) == -600 % 2**64, "a word that stands alone has no carry"


@few
@given(st.lists(st.tuples(st.booleans(), integers, integers), max_size=12))
@example([(False, 0, 1), (False, 0, 0), (True, 2**255, 2**64 - 1), (False, 2**64, 2**192)])
def test_an_adder_adds_and_subtracts_as_integers_do(steps):
    adder, expected = ring.Adder(2, 2 * ring.WORDS + 1), [0, 0, 0]
    for plus, *numbers in steps:
        vector = np.append(words(numbers).ravel(), np.uint64(numbers[0] % 2**64))
        (adder.add if plus else adder.subtract)(vector)
        numbers.append(numbers[0])
        expected = [a + (b if plus else -b) for a, b in zip(expected, numbers, strict=True)]
    total = adder.total()
    assert whole(total[:-1].reshape(2, -1)) == [n % MODULUS for n in expected[:2]]
    assert int(total[-1]) == expected[2] % 2**64


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf, ring.LARGEST, -ring.LARGEST, 1e300])
def test_what_does_not_fit_is_refused_without_its_value(x):
    with pytest.raises(DataError, match=r"not finite, or its absolute value is .* or more") as told:
        ring.encode(np.array([1.0, x]))
    assert "e+300" not in str(told.value)


def test_there_is_room_for_all_sites():
    most = np.nextafter(ring.LARGEST, 0)
    one = ring.encode(np.array([most, -most])).ravel()
    held = ring.total([one] * ring.MOST_SITES, 2, len(one)).reshape(2, -1)
    assert ring.decode(held).tolist() == [most * ring.MOST_SITES, -most * ring.MOST_SITES]


@pytest.mark.parametrize("odd", [np.zeros((2, 3), np.uint64), np.zeros((2, 4)), np.zeros(4, "u8")])
def test_other_words_are_refused(odd):
    with pytest.raises(DataError, match="each number needs 4 words"):
        ring.decode(odd)


def test_carries_reach_numbers_however_they_lie_in_memory():
    a = np.asfortranarray(words([2**64 - 1, 2**192 - 1]))
    assert whole(ring.add(a, words([1, 1]))) == [2**64, 2**192]
    assert whole(ring.add(np.asfortranarray(words([1, 1])), a)) == [2**64, 2**192]
    assert whole(ring.negate(a)) == [MODULUS - 2**64 + 1, MODULUS - 2**192 + 1]
