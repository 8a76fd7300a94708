"""The methods of others contract on quadratics as their theory says."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd import tree
from feddcd.algorithms import (
    SDANE,
    AccSDANE,
    FedADMM,
    FedDualAvg,
    FedDyn,
    FedLBFGS,
    FedNLPP,
    FiveGCS,
    Giant,
    Mime,
    PointSAGA,
    Scaffnew,
    Tamuna,
    opened,
)
from feddcd.participation import broadcast_key, client_key
from feddcd.problems import random_quadratics
from feddcd.solvers import GradientDescent
from federations import DIRECT

N, D, C, ALPHA, BETA = 8, 5, 4, 0.05, 1.0
KAPPA = BETA / ALPHA


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@cache
def problem():
    """As many as there are; the optimum is (sum A_i)^-1 sum b_i."""
    with jax.enable_x64(True):
        f = random_quadratics(N, D, alpha=ALPHA, beta=BETA, seed=6)
        A, b = np.asarray(f.A), np.asarray(f.b)
        best = np.linalg.solve(A.sum(0), b.sum(0))
        return f, A, b, best


def run(algorithm, rounds, tau=N, seed=0):
    """The states after each round, stacked, with cohorts of tau."""
    f = problem()[0]
    random = np.random.default_rng(seed)
    cohorts = np.stack([random.permutation(N)[:tau] for _ in range(rounds)])
    with jax.enable_x64(True):
        return _run(algorithm, f, jnp.asarray(cohorts), jax.random.key(seed))


@eqx.filter_jit
def _run(algorithm, f, cohorts, key):
    weights = jax.vmap(algorithm.weight)(f)
    w = jnp.zeros(D)
    clients = jax.vmap(algorithm.init_client, (0, None), axis_size=N)(f, w)

    def round(carry, now):
        (server, clients), (t, ids) = carry, now
        down = algorithm.broadcast(server, broadcast_key(key, t))
        keys = jax.vmap(client_key, (None, 0))(jax.random.fold_in(key, t), ids)
        step = lambda f, client, key: algorithm.client_step(f, client, down, key)
        new, up = jax.vmap(step)(tree.take(f, ids), tree.take(clients, ids), keys)
        mean = tree.weighted_mean(jax.vmap(opened)(up.value), weights[ids])
        share = weights[ids].sum() / weights.sum()
        server, answer = algorithm.server_step(server, mean, share)
        if answer is not None:
            new = jax.vmap(algorithm.client_receive, (0, None))(new, answer)
        clients = jax.tree.map(lambda all_, one: all_.at[ids].set(one), clients, new)
        return (server, clients), (server, clients, jnp.max(up.steps))

    start = algorithm.init_server(w), clients
    return jax.lax.scan(round, start, (jnp.arange(len(cohorts)), cohorts))[1]


def gap(x):
    """F(x)/N - F*/N = (x - x*)'A(x - x*)/2."""
    _, A, _, best = problem()
    d = np.asarray(x) - best
    return np.einsum("...i,ij,...j->...", d, A.mean(0), d) / 2


def square(x):
    return np.sum(np.asarray(x) ** 2, -1)


def check(measure, theory, per=1.0):
    """A Lyapunov function falls by `theory` in each of `per` steps, in the mean of some runs; and
    the theory promises something over these rounds."""
    measure = np.asarray(measure)
    steps = np.cumsum(np.broadcast_to(per, len(measure) - 1))
    real = measure > 1e-20 * measure[0]
    last = int(np.flatnonzero(real)[-1])
    observed = (measure[last] / measure[0]) ** (1 / steps[last - 1])
    assert theory ** steps[-1] < 0.1
    assert observed <= theory
    return observed


def gradients():
    _, A, b, best = problem()
    return A @ best - b  # of every client, at the optimum


SKIPS = [("scaffnew", N), ("tamuna", C)]


@pytest.mark.parametrize(("name", "tau"), SKIPS)
def test_scaffnew_and_tamuna(name, tau):
    """|x - x*|² N/γ² + |h - h*|² (N-1)/((s-1) p² χ) shrinks by max((1-γμ)², 1 - p²χ(s-1)/(N-1)) a
    local step; ProxSkip: s = N. That is sqrt(κ) rounds where gradient descent needs κ."""
    s = tau
    chi = N * (s - 1) / (s * (N - 1))
    algorithm = Scaffnew() if name == "scaffnew" else Tamuna(tau=tau, N=N)
    servers, clients, steps = run(algorithm, 120, tau)
    p = min(1, np.sqrt(N / (s * KAPPA)))
    np.testing.assert_allclose(algorithm.chosen(tree.take(servers, 5))["p"], p, rtol=1e-6)
    theory = max((1 - 1 / KAPPA) ** 2, 1 - p**2 * chi * (s - 1) / (N - 1))
    best = problem()[3]
    own = square(np.asarray(clients.h) - gradients()).sum(1) / BETA**2
    psi = N * square(servers.w - best) + own * (N - 1) / ((s - 1) * p**2 * chi)
    check(psi, theory, np.asarray(steps)[1:])
    descent = 1 - 1 / KAPPA
    assert gap(servers.w[-1]) < gap(servers.w[0]) * descent**120


def test_5gcs():
    """|x - x*|²/γ + (N/C)(1/τ + 1/L_F) sum |u - u*|² shrinks by
    max(1/(1+γμ), 1 - (C/N) τ/(L_F + τ)), L_F = (L-μ)/N, τ = 1/(2γN)."""
    gamma = 3 / 16 * np.sqrt(C / (BETA * ALPHA * N))
    algorithm = FiveGCS(C, N, DIRECT, gamma=gamma)
    servers, clients, _ = run(algorithm, 200, C)
    best, L = problem()[3], (BETA - ALPHA) / N
    tau = 1 / (2 * gamma * N)
    own = square(np.asarray(clients.u) - (gradients() - ALPHA * best)).sum(1) / N**2
    psi = square(servers.x - best) / gamma + N / C * (1 / tau + 1 / L) * own
    theory = max(1 / (1 + gamma * ALPHA), 1 - C / N * tau / (L + tau))
    check(psi[1:], theory)


@pytest.mark.chaos  # the rate below is of the same code
def test_feddyn_is_point_saga():
    """The same states, bit by bit, with the same constant."""
    given, saga = (run(kind(C, N, DIRECT, rho=0.7), 150, C) for kind in (FedDyn, PointSAGA))
    assert np.array_equal(given[0].x, saga[0].x)


def test_feddyn():
    """By default with 3 sqrt(L α)."""
    servers, clients, _ = run(FedDyn(C, N, DIRECT), 150, C)
    a = float(FedDyn(C, N, DIRECT).chosen(tree.take(servers, 9))["a"])
    assert a == pytest.approx(3 * np.sqrt(BETA * ALPHA), rel=0.05)
    # Point-SAGA's rate for one client a round (Defazio 2016), 1/(1 + μ/ρ); for more it is no worse
    own = square(np.asarray(clients.g) - gradients()).sum(1)
    psi = square(servers.x - problem()[3]) + own / (a * BETA)
    check(psi[2:], 1 / (1 + ALPHA / a))


def test_fedadmm():
    """Douglas-Rachford shrinks |z - z*|, z = w + y/ρ, by max(ρ/(ρ+μ), L/(L+ρ)) (Giselsson & Boyd
    2017); if a client moves with probability C/N, the square by 1 - (C/N)(1 - that²)."""
    algorithm = FedADMM(DIRECT, rho=3 * np.sqrt(BETA * ALPHA))
    _, clients, _ = run(algorithm, 200, C)
    rho, best = algorithm.rho, problem()[3]
    fixed = best - gradients() / rho
    shrink = max(rho / (rho + ALPHA), BETA / (BETA + rho))
    psi = square(np.asarray(clients.moved) - fixed).sum(1)
    check(psi[1:], 1 - C / N * (1 - shrink**2))


def test_sdane():
    """|v - x*|² shrinks by 1/(1 + μ/λ) a step of two rounds, if λ >= 2 δ, where δ² is the mean of
    |A_i - A|²."""
    _, A, _, best = problem()
    lam = 2 * np.sqrt(np.mean([np.linalg.norm(a - A.mean(0), 2) ** 2 for a in A]))
    servers, _, _ = run(SDANE(DIRECT, lam=lam), 120)
    check(square(servers.v - best)[::2], 1 / (1 + ALPHA / lam))


@pytest.mark.chaos
def test_sdane_finds_its_constant():
    _, A, _, _ = problem()
    lam = 2 * np.sqrt(np.mean([np.linalg.norm(a - A.mean(0), 2) ** 2 for a in A]))
    servers, _, _ = run(SDANE(DIRECT), 40)
    assert gap(servers.v[-1]) < 1e-8 * gap(servers.v[0])
    assert np.asarray(servers.lam).max() < 4 * lam


def test_accsdane():
    """F(x) - F* <= |x_0 - x*|²/(2 A), and A grows by 1 + sqrt(μ/λ) a step, nearly."""
    _, A, _, best = problem()
    lam = 2 * np.sqrt(np.mean([np.linalg.norm(a - A.mean(0), 2) ** 2 for a in A]))
    servers, _, _ = run(AccSDANE(DIRECT, lam=lam), 80)
    grown, gaps = np.asarray(servers.now.A)[1::2], gap(servers.now.x)[1::2]
    real = gaps > 1e-15
    assert np.all(gaps[real] <= square(best) / (2 * grown[real]))
    rate = (grown[-1] / grown[9]) ** (1 / 30)
    assert rate >= 1 + np.sqrt(ALPHA / lam)
    assert grown[-1] > 1e3


def test_giant():
    """|x - x*|_A shrinks by η = |I - A^½ mean(A_i^-1) A^½| at t = 1: here it is below 1, so that a
    whole step is accepted, and each iteration is two rounds."""
    f, A, _, _ = problem()
    near = jax.tree.map(jnp.asarray, (0.15 * A + 0.85 * A.mean(0)))
    root = np.linalg.cholesky(A.mean(0))
    eta = np.linalg.norm(np.eye(D) - root.T @ np.linalg.inv(near).mean(0) @ root, 2)
    assert eta < 0.2
    alike = eqx.tree_at(lambda f: f.A, f, near)
    with jax.enable_x64(True):
        cohorts = jnp.tile(jnp.arange(N), (12, 1))
        servers, _, _ = _run(Giant(), alike, cohorts, jax.random.key(0))
    check(gap(servers.ray.w)[::2], eta**2)


def test_lbfgs():
    """With as many pairs as there are dimensions it is as good as conjugate gradients, whose gap
    shrinks by ((sqrt(κ)-1)/(sqrt(κ)+1))² a step; κ of the mean."""
    values = np.linalg.eigvalsh(problem()[1].mean(0))
    root = np.sqrt(values[-1] / values[0])
    servers, _, _ = run(FedLBFGS(), 30)
    check(gap(servers.ray.w)[1:], ((root - 1) / (root + 1)) ** 2)


@pytest.mark.parametrize("settings", [{}, pytest.param({"top": 3}, marks=pytest.mark.chaos)])
def test_fednlpp(settings):
    """The mean of |w_i - x*|², w_i where a client was last asked, shrinks by 1 - 3C/(4N) near x*:
    a rate without κ. Here from the start, and with the Hessians learned it is a Newton step."""
    servers, _, _ = run(FedNLPP(jnp.zeros(D), **settings), 40, C)
    check(square(servers.x - problem()[3]), 1 - 3 * C / (4 * N))


def test_mime():
    """K steps of length lr, everyone: x - x* goes by M = I - mean_i(sum_k (I - lr A_i)^k) lr A. For
    lr L K <= 1 that is at least half of what K steps on F would do: 1 - K lr μ/2."""
    _, A, _, best = problem()
    K, lr = 4, 1 / (4 * BETA)
    servers, _, _ = run(Mime(GradientDescent(lr=lr, steps=K)), 200)
    check(np.sqrt(square(servers.x - best))[1::2], 1 - K * lr * ALPHA / 2)
    local = [sum(np.linalg.matrix_power(np.eye(D) - lr * a, k) for k in range(K)) for a in A]
    M = np.eye(D) - np.mean(local, 0) * lr @ A.mean(0)
    x = best - M @ M @ M @ best
    np.testing.assert_allclose(np.asarray(servers.x)[5], x, rtol=0, atol=1e-12)


@pytest.mark.chaos
def test_mime_with_momentum():
    K, lr = 4, 1 / (4 * BETA)
    held, _, _ = run(Mime(GradientDescent(lr=lr / 2, steps=K), momentum=0.5), 200)
    assert gap(held.x[-1]) < 1e-6 * gap(held.x[0])


def test_feddualavg():
    """One local step, everyone, no decay: the mean of the models has a gap of at most
    |x*|²/(2 lr T), as dual averaging has."""
    _, _, _, best = problem()
    servers, _, _ = run(FedDualAvg(lr=1 / BETA, steps=1, fall=0), 100)
    models = np.asarray(servers.z) / (1 + np.asarray(servers.eta * servers.mu))[:, None]
    for T in (5, 20, 100):
        assert gap(models[:T].mean(0)) <= square(best) / (2 * T / BETA)


@pytest.mark.chaos
def test_feddualavg_is_biased_with_several_steps():
    biased, _, _ = run(FedDualAvg(lr=1 / BETA, steps=5, fall=0), 100)
    assert gap(biased.z[-1]) > 1e-4
