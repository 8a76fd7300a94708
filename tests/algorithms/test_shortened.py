"""`bits` of every method: changes of what was sent before, rounded, and nothing else differs."""

import numpy as np
import pytest

import feddcd
from feddcd._errors import SpecError

SITES = {"clients": 6, "tau": 3, "l2": 0.1, "model": "ridge", "dtype": "float64"}
CHEAP = {"solver": "gd", "tol": 1e-10}  # as exact as Newton here, and sooner compiled
DATA = "synthetic:n=60,d=5,groups=6"


def run(bits, rounds=60, **more):
    settings = CHEAP if bits is None else CHEAP | {"bits": bits}
    wish = {"algorithm": "pointsaga", "settings": settings} | SITES | more
    return feddcd.run(DATA, rounds=rounds, certify_every=rounds, **wish)


@pytest.fixture(scope="module")
def whole():
    return run(None)


@pytest.mark.parametrize("bits", [8, pytest.param(16, marks=pytest.mark.chaos)])
def test_fewer_bits_come_to_the_same_optimum(bits, whole):
    """With few bytes more than the numbers themselves, and with a sum that is still zero."""
    short = run(bits)
    assert short.certificate.gap <= 1e-8
    assert short.summary["objective"] == pytest.approx(whole.summary["objective"], abs=1e-8)
    assert short.summary["dual_residual"] <= 1e-10
    sent, before = short.summary["bytes_up"], whole.summary["bytes_up"]
    saved = 8 * 5 - (bits // 8 * 5 + 4)  # a unit in single precision travels along
    assert before - sent == saved * short.summary["uploads"]


def test_64_bits_change_nothing(whole):
    same = run(64)
    np.testing.assert_array_equal(same.history["objective"], whole.history["objective"])
    assert same.summary["bytes_up"] == whole.summary["bytes_up"]


@pytest.mark.chaos
def test_lost_uploads_leave_server_and_client_agreed():
    found = run(8, rounds=150, loss=0.3)
    assert found.certificate.gap <= 1e-8
    assert found.summary["dual_residual"] <= 1e-10


def test_what_has_no_bits_says_so():
    with pytest.raises(SpecError, match="FedNLPP cannot use the setting 'bits'"):
        feddcd.run(DATA, rounds=60, algorithm="fednlpp", settings={"bits": 8}, **SITES)
    with pytest.raises(SpecError, match="bits"):
        run(7)
