"""Where the paper's printed statements fail, by example. docs/paper.md lists them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd.algorithms import AccFedDCD, FedDCD
from feddcd.data import load, partition
from feddcd.data.federate import federate
from feddcd.paper.theory import acceleration
from feddcd.participation import Everyone
from feddcd.problems import Quadratic
from feddcd.runs.build import make_algorithm
from feddcd.runs.spec import Spec
from feddcd.simulator.simulate import federation, one_round, start
from feddcd.solvers import GradientDescent, InexactOracle
from federations import DIRECT, quadratics, solution
from slices import sliced


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@eqx.filter_jit
def after(rounds, fed, w):
    """The state after so many rounds from w."""
    return jax.lax.fori_loop(0, rounds, lambda _, s: one_round(fed, s)[0], start(fed, w))


def test_the_accelerated_theorem_needs_its_constant_2():
    """f_i(w) = w'diag(α, β)w/2 - b_i w_2, b = (1, -1), everyone present: w* = 0, y_i* = -b_i,
    and G(y) - G* = sum (y_i + b_i)²/(2β) on the second coordinate, 1/β at the start. The first
    iteration moves y by α/β of the way only, so (1 - α/β)²/β is left, more than (1-a)/β."""
    alpha, beta = 0.01, 1.0
    b = np.array([[0.0, 1.0], [0.0, -1.0]])
    f = Quadratic(np.tile(np.diag([alpha, beta]), (2, 1, 1)), b)
    fed = federation(AccFedDCD(2, 2, DIRECT, kappa=alpha / beta), f, Everyone(2), seed=0)
    state = after(2, fed, jnp.zeros(2))  # both sets of one iteration
    y, _ = finished(fed.algorithm, state)
    left = float(np.sum((np.asarray(y) + b)[:, 1] ** 2)) / (2 * beta)
    assert left == pytest.approx((1 - alpha / beta) ** 2 / beta)
    shrinks = 1 - acceleration(2, 2, alpha, beta).a
    assert shrinks / beta < left <= 2 * shrinks / beta


@eqx.filter_jit
def finished(algorithm, state):
    """(y, z) at the end of the iteration."""
    down = algorithm.broadcast(state.server, jax.random.key(0))
    return jax.vmap(algorithm._finish, (0, None))(state.clients, down)


def test_the_inexact_theorem_lacks_the_error_of_the_first_call():
    """With identical clients y* = 0, so its bound on |w - w*|² is 0 from the start; an inexact
    first answer is not w*."""
    f, w = quadratics("identical"), solution("identical")
    inexact = FedDCD(GradientDescent(stop=InexactOracle(0.2)), eta=0.25)
    fed = federation(inexact, f, Everyone(len(f.mu)), seed=0)
    state = after(1, fed, jnp.zeros(w.shape))
    residual = np.asarray(f.b) - np.asarray(f.A) @ w  # -∇f_i(w*) = -y_i*
    assert np.max(np.abs(residual)) < 1e-12
    error = np.linalg.norm(state.server.w - w)
    assert 0.01 * np.linalg.norm(w) < error < np.linalg.norm(w)


@pytest.mark.parametrize("algorithm", sliced(["feddcd", "accfeddcd"], ["feddcd"]))
def test_a_step_in_place_of_alpha(algorithm):
    """As the authors run the MLP: y_i moves by step (w_i - mean), l2 nowhere in it."""
    data = load("wine")
    made = federate(data, partition(data.y, "iid", 4), l2=1e-2)
    spec = Spec(algorithm=algorithm, settings={"step": 0.3, "tol": 1e-9})
    fed = federation(make_algorithm(spec, 4, 4, made), made.problem, Everyone(4), seed=0)
    clients = after(1, fed, made.w).clients
    moved, w = clients.y if algorithm == "feddcd" else clients.dy, np.asarray(clients.w)
    assert np.linalg.norm(moved) > 0.1
    np.testing.assert_allclose(moved, -0.3 * (w - w.mean(0)), atol=1e-12)
