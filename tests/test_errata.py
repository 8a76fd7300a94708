"""Where the paper's printed statements fail, by example. docs/paper.md lists them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd.algorithms import AccFedDCD, FedDCD
from feddcd.data import load, partition
from feddcd.data.federate import federate
from feddcd.engines.simulate import federation, one_round, start
from feddcd.experiments.methods import make_algorithm
from feddcd.experiments.spec import Spec
from feddcd.participation import Everyone
from feddcd.problems import Quadratic
from feddcd.solvers import GradientDescent, InexactOracle
from feddcd.theory import acceleration
from federations import EXACT, quadratics, solution


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def test_the_accelerated_theorem_needs_its_constant_2():
    """f_i(w) = w'diag(α, β)w/2 - b_i w_2, b = (1, -1), everyone present: w* = 0, y_i* = -b_i,
    and G(y) - G* = sum (y_i + b_i)²/(2β) on the second coordinate, 1/β at the start. The first
    iteration moves y by α/β of the way only, so (1 - α/β)²/β is left, more than (1-a)/β."""
    alpha, beta = 0.01, 1.0
    b = np.array([[0.0, 1.0], [0.0, -1.0]])
    f = Quadratic(np.tile(np.diag([alpha, beta]), (2, 1, 1)), b)
    fed = federation(AccFedDCD(2, 2, EXACT, kappa=alpha / beta), f, Everyone(2), seed=0)
    state = start(fed, jnp.zeros(2))
    for _ in range(2):  # both sets of one iteration
        state, _ = one_round(fed, state)
    y, _ = jax.vmap(fed.algorithm._finish, (0, None))(  # pyright: ignore
        state.clients, fed.algorithm.broadcast(state.server)
    )
    left = float(jnp.sum((y + b)[:, 1] ** 2)) / (2 * beta)
    assert left == pytest.approx((1 - alpha / beta) ** 2 / beta)
    shrinks = 1 - acceleration(2, 2, alpha, beta).a
    assert shrinks / beta < left <= 2 * shrinks / beta


def test_the_inexact_theorem_lacks_the_error_of_the_first_call():
    """With identical clients y* = 0, so its bound on |w - w*|² is 0 from the start; an inexact
    first answer is not w*."""
    f, w = quadratics("identical"), solution("identical")
    inexact = FedDCD(GradientDescent(stop=InexactOracle(0.2)), eta=0.25)
    fed = federation(inexact, f, Everyone(len(f.mu)), seed=0)
    state, _ = one_round(fed, start(fed, jnp.zeros_like(w)))
    residual = f.b - jnp.einsum("nij,j->ni", f.A, w)  # -∇f_i(w*) = -y_i*
    assert float(jnp.max(jnp.abs(residual))) < 1e-12
    error = float(jnp.linalg.norm(state.server.w - w))
    assert 0.01 * np.linalg.norm(w) < error < np.linalg.norm(w)


@pytest.mark.parametrize("algorithm", ["feddcd", "accfeddcd"])
def test_a_step_in_place_of_alpha(algorithm):
    """As the authors run the MLP: y_i moves by step (w_i - mean), l2 nowhere in it."""
    data = load("digits")
    made = federate(data, partition(data.y, "iid", 4), l2=1e-2)
    spec = Spec(algorithm=algorithm, settings={"step": 0.3, "tol": 1e-9})
    fed = federation(make_algorithm(spec, 4, 4, made), made.problem, Everyone(4), seed=0)
    state, _ = one_round(fed, start(fed, made.w))
    clients = state.clients
    moved = clients.y if algorithm == "feddcd" else clients.dy
    np.testing.assert_allclose(moved, -0.3 * (clients.w - clients.w.mean(0)), atol=1e-12)
