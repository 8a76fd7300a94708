"""`bits` of every method: changes of what was sent before, rounded, and nothing else differs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddcd
from feddcd import tree
from feddcd._errors import SpecError
from feddcd.algorithms import FedAvg, FedDCD, FedQN, MinibatchSGD, PointSAGA, in_bits
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
    """With few bytes more than the numbers themselves, and with a sum that is still zero. Beside
    its vector an upload of Point-SAGA has five estimates of curvatures."""
    short = run(bits)
    assert short.certificate.gap <= 1e-8
    assert short.summary["objective"] == pytest.approx(whole.summary["objective"], abs=1e-8)
    assert short.summary["dual_residual"] <= 1e-10
    sent, before = short.summary["bytes_up"], whole.summary["bytes_up"]
    vector = bits // 8 * 5 + 4  # a unit in single precision travels along
    saved = 8 * (5 + 5) - (vector + 2 * 5)
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


@pytest.mark.parametrize(("bits", "each"), [(8, 2), (16, 2), (32, 4)])
def test_single_numbers_are_short_only_where_the_method_calls_them_rough(bits, each):
    class Exact(PointSAGA):
        rough = False

    f = quadratics("equal")
    with jax.enable_x64(True):
        w, one = jnp.zeros(D), Quadratic(f.A[:1], f.b[:1])
        sizes = []
        for method in (PointSAGA(N, N), Exact(N, N)):
            short = in_bits(method, bits, one, w)
            sizes.append(tree.nbytes(_first_upload(short, tree.take(one, 0), w)))
    assert sizes[1] - sizes[0] == 5 * (8 - each)


@pytest.mark.parametrize("name", sorted(set(ALL) - {"fedqn", "fedqn-64"}))  # with bits of their own
def test_every_method_with_single_numbers_but_fednewton_calls_them_rough(name):
    f = quadratics("equal")
    with jax.enable_x64(True):
        w = jnp.zeros(D)
        method = ALL[name].make(N, N, w)
        up = jax.eval_shape(lambda: _first_upload(method, Quadratic(f.A[0], f.b[0]), w))
    single = any(x.ndim == 0 for x in jax.tree.leaves(up))
    exact = name.startswith(("fednewton", "fednlpp"))  # FedNL-PP has no `bits`
    assert method.rough or not single or exact


EXACT = ["accfeddcd", "feddcd", "fedadmm", "fedlbfgs", "feddyn", "fivegcs", "scaffnew", "tamuna"]


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_method_comes_to_the_optimum_with_8_bits(name):
    f = quadratics("equal")
    with jax.enable_x64(True):
        w = jnp.zeros(D)
        short = in_bits(ALL[name].make(N, N, w), 8, Quadratic(f.A[:1], f.b[:1]), w)
    found = play(short, f, Everyone(N), 1000)
    assert np.linalg.norm(found.model - solution("equal")) <= 1e-9


def _first_upload(method, f, w):
    key = jax.random.key(0)
    down = method.broadcast(method.init_server(w), key)
    return method.client_step(f, method.init_client(f, w), down, key)[1].value


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
    with pytest.raises(SpecError, match=r"leave out 'lr'\. .* only the setting 'bits'"):
        feddcd.run(DATA, algorithm=MinibatchSGD(), settings={"bits": 8, "lr": 1}, **few)


@pytest.mark.parametrize("algorithm", [FedDCD, [FedDCD], {"mine": FedDCD}])
def test_a_class_is_not_a_method_yet(algorithm):
    with pytest.raises(SpecError, match=r"class FedDCD, .* write FedDCD\(\.\.\.\), or FedDCD"):
        feddcd.compare(DATA, algorithms=algorithm, rounds=2, **SITES)
    with pytest.raises(SpecError, match="function FedAvg, but must be an object"):
        feddcd.run(DATA, algorithm=FedAvg, rounds=2, **SITES)
