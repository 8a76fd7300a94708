"""`bits` of every method: changes of what was sent before, rounded, and nothing else differs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddcd
from feddcd._errors import SpecError
from feddcd.algorithms import FedAvg, FedDCD, FedQN, MinibatchSGD, in_bits
from feddcd.participation import Everyone
from feddcd.problems import Quadratic
from federations import ALL, D, N, play, quadratics, solution

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


@pytest.mark.parametrize("name", ["sdane", "accsdane", "mime", "giant"])
def test_kinds_of_uploads_that_take_turns_are_not_rounded_as_changes_of_each_other(name):
    """Gradients and models in turns: between two uploads nothing would ever become small."""
    f = quadratics("equal")
    with jax.enable_x64(True):
        method = ALL[name].make(N, N, jnp.zeros(D))
        one = Quadratic(f.A[:1], f.b[:1])
        short = in_bits(method, 8, one, jnp.zeros(D))
    found = play(short, f, Everyone(N), 500)
    assert np.linalg.norm(found.model - solution("equal")) <= 1e-9


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


def test_an_object_takes_bits_as_a_name_does():
    few = SITES | {"rounds": 10, "certify_every": 10}
    named = feddcd.run(DATA, algorithm="mbsgd", bits=8, **few)
    made = feddcd.run(DATA, algorithm=MinibatchSGD(), bits=8, **few)
    assert made.summary["bits"] == named.summary["bits"] == 8
    np.testing.assert_array_equal(made.history["bytes_up"], named.history["bytes_up"])
    np.testing.assert_array_equal(made.history["objective"], named.history["objective"])
    whole = feddcd.run(DATA, algorithm=MinibatchSGD(), bits=64, **few)
    assert whole.summary["bytes_up"] > made.summary["bytes_up"]


def test_a_comparison_takes_bits_for_names_and_objects(tmp_path):
    few = SITES | {"rounds": 4, "certify_every": 4, "out": tmp_path / "all"}
    methods = {"mine": MinibatchSGD(), "mbsgd": "mbsgd", "fedqn": "fedqn"}
    found = feddcd.compare(DATA, algorithms=methods, bits=16, **few)
    assert [found[name].summary["bits"] for name in found] == [16, 16, 16]
    again = feddcd.resume(tmp_path / "all" / "mine", algorithm=MinibatchSGD(), rounds=8)
    assert again.history.rounds == 8
    assert again.summary["bits"] == 16
    few["out"] = None
    one = feddcd.compare(DATA, algorithms=methods, settings={"mine": {"bits": 8}}, **few)
    assert [one[name].summary["bits"] for name in one] == [8, 64, 8]


def test_fedqn_as_an_object_uses_its_own_bits():
    few = SITES | {"rounds": 4, "certify_every": 4}
    own = FedQN(np.zeros((5, 1)))
    assert feddcd.run(DATA, algorithm=own, bits=32, **few).summary["bits"] == 32


def test_bits_that_a_method_cannot_have_are_refused():
    few = SITES | {"rounds": 4}
    with pytest.raises(SpecError, match="bits"):
        feddcd.run(DATA, algorithm=MinibatchSGD(), bits=7, **few)
    with pytest.raises(SpecError, match=r"leave out lr\. .* only the setting bits"):
        feddcd.run(DATA, algorithm=MinibatchSGD(), settings={"bits": 8, "lr": 1}, **few)


@pytest.mark.parametrize("algorithm", [FedDCD, [FedDCD], {"mine": FedDCD}])
def test_a_class_is_not_a_method_yet(algorithm):
    with pytest.raises(SpecError, match=r"class FedDCD, .* write FedDCD\(\.\.\.\), or FedDCD"):
        feddcd.compare(DATA, algorithms=algorithm, rounds=2, **SITES)
    with pytest.raises(SpecError, match="function FedAvg, but must be an object"):
        feddcd.run(DATA, algorithm=FedAvg, rounds=2, **SITES)
