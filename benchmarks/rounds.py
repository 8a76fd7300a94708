"""One FedDCD round against the same round in plain NumPy: ratios of one run, interleaved.

    python benchmarks/rounds.py [mnist] [rcv1-subset]

30 of 100 clients, every local problem solved to |grad| <= 1e-6 in float64, the same cohorts and
warm starts on both sides. The alternative is Newton-CG in the space of parameters as the paper's
authors ran it: CG to 1e-4, Armijo halving, one client after the other, NumPy and SciPy alone.
Reading the data, set-up (Gram matrices) and compiling are reported apart. On a GPU feddcd runs
alone, in calls of eight rounds and of sixty, after a first call that is not counted.
"""

import resource
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import feddcd
from feddcd.algorithms import FedDCD
from feddcd.data.federate import federate
from feddcd.measure import Measures
from feddcd.participation import UniformSubset, round_keys
from feddcd.simulator.simulate import federation, start
from feddcd.simulator.threads import compiled
from feddcd.solvers import NewtonCG, Tolerance

TOL, TAU, N = 1e-6, 30, 100
L2 = {"mnist": 1e-2, "rcv1-subset": 1e-3}
EARLY, LATE = range(5, 13), range(20, 28)  # many clients are new; nearly all have taken part
MANY = 60  # rounds in one call on a GPU: a call itself costs about a millisecond there
PAUSE = 0.3  # seconds, in which the other side's idle threads stop spinning


class Nothing(eqx.Module):
    """Measures nothing, so that a round is timed alone."""

    def __call__(self, algorithm, server, clients, weights) -> Measures:
        zero = jnp.zeros(())
        return Measures(zero, zero, zero)


def main(names: list[str]) -> None:
    print(f"{jax.devices()[0].device_kind}, {TAU} of {N} clients, |grad| <= {TOL}, float64")
    for name in names:
        with jax.enable_x64(True):
            bench(name)


def bench(name: str) -> None:
    clock = [time.perf_counter()]

    def lap() -> float:
        clock.append(time.perf_counter())
        return clock[-1] - clock[-2]

    data = feddcd.load(name)
    parts = feddcd.partition(data.y, "contiguous", N)
    read = lap()
    made = federate(data, parts, l2=L2[name])
    algorithm = FedDCD(NewtonCG(Tolerance(TOL)))
    fed = federation(algorithm, made.problem, UniformSubset(N, TAU), seed=0)
    fed = eqx.tree_at(lambda f: f.measure, fed, Nothing(), is_leaf=lambda x: x is fed.measure)
    state = jax.block_until_ready(start(fed, made.w))
    setup = lap()
    room = len(LATE)
    advance = compiled(fed, state, room)
    compiling = lap()
    ours, theirs = [], []
    print(f"\n{name}: read {read:.1f} s, set up {setup:.1f} s, compile {compiling:.1f} s")
    if jax.default_backend() != "cpu":
        ours = in_calls(advance, fed, made.w, room, 5)
        many = in_calls(compiled(fed, state, MANY), fed, made.w, MANY, 2)
        print(f"  rounds {MANY + 1} to {2 * MANY} in one call: {1e3 * many[-1]:.2f} ms a round")
    else:
        plain = NumpyFedDCD(data, parts, L2[name])
        for t in range(LATE.stop):
            cohort = np.asarray(fed.participation(round_keys(fed.key, jnp.asarray(t))[0]).ids)
            time.sleep(PAUSE)
            began = time.perf_counter()
            state, trace, _ = jax.block_until_ready(advance(fed, state, 1))
            ours.append(time.perf_counter() - began)
            time.sleep(PAUSE)
            began = time.perf_counter()
            mean = plain.round(cohort)
            theirs.append(time.perf_counter() - began)
            assert np.abs(mean - np.asarray(state.server.w)).max() < 1e-3
            assert float(trace.grad_norm[0]) <= TOL, trace.grad_norm
    for window in (EARLY, LATE):
        report(window, ours, theirs)
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def in_calls(advance, fed, w, room: int, calls: int) -> list[float]:
    """Seconds of each round in `calls` calls of `room` rounds, once the program has run."""
    jax.block_until_ready(advance(fed, start(fed, w), room))
    state, seconds = jax.block_until_ready(start(fed, w)), []
    for _ in range(calls):
        began = time.perf_counter()
        state, _, _ = jax.block_until_ready(advance(fed, state, room))
        seconds += [(time.perf_counter() - began) / room] * room
    return seconds


def report(window: range, ours: list[float], theirs: list[float]) -> None:
    """Medians, with the smallest and the largest, of a window of rounds."""

    def line(name: str, seconds: list[float]) -> float:
        ms = 1e3 * np.array(seconds[window.start : window.stop])
        print(f"    {name:7s}{np.median(ms):9.2f} ms a round ({ms.min():.2f} to {ms.max():.2f})")
        return float(np.median(ms))

    print(f"  rounds {window.start + 1} to {window.stop}")
    mine = line("feddcd", ours)
    if theirs:
        print(f"    ratio  {line('NumPy', theirs) / mine:9.2f}")


class NumpyFedDCD:
    """FedDCD with Newton-CG in the space of parameters, written plainly."""

    def __init__(self, data, parts, l2: float):
        classes, codes = np.unique(data.y, return_inverse=True)
        self.l2, self.X = l2, [data.X[part] for part in parts]
        self.Y = [np.eye(len(classes))[codes[part]] for part in parts]
        shape = (len(parts), self.X[0].shape[1], len(classes))
        self.y, self.w = np.zeros(shape), np.zeros(shape)

    def round(self, cohort: np.ndarray) -> np.ndarray:
        for i in cohort:
            self.w[i] = newton(self.X[i], self.Y[i], self.y[i], self.l2, self.w[i])
        mean = self.w[cohort].mean(0)
        self.y[cohort] -= self.l2 * (self.w[cohort] - mean)
        return mean


def newton(X, Y, q, mu, W):
    n = X.shape[0]

    def value(W):
        Z = X @ W
        top = Z.max(1, keepdims=True)
        total = np.log(np.exp(Z - top).sum(1)) + top[:, 0]
        return (total - (Y * Z).sum(1)).mean() + mu / 2 * (W * W).sum() - (q * W).sum()

    def softmax(W):
        Z = X @ W
        E = np.exp(Z - Z.max(1, keepdims=True))
        return E / E.sum(1, keepdims=True)

    for _ in range(50):
        P = softmax(W)
        g = X.T @ ((P - Y) / n) + mu * W - q
        size = np.linalg.norm(g)
        if size <= TOL:
            break

        def hvp(V, P=P):
            XV = X @ V
            return X.T @ (P * (XV - (P * XV).sum(1, keepdims=True)) / n) + mu * V

        D = conjugate_gradients(hvp, -g, 1e-4 * size)
        t, now, slope = 1.0, value(W), (g * D).sum()
        while value(W + t * D) > now + 1e-4 * t * slope and t > 1e-10:
            t /= 2
        W = W + t * D
    return W


def conjugate_gradients(operator, b, tol):
    x, r = np.zeros_like(b), b
    p, rr = r, (r * r).sum()
    while rr > tol**2:
        Ap = operator(p)
        a = rr / (p * Ap).sum()
        x, r = x + a * p, r - a * Ap
        rr, old = (r * r).sum(), rr
        p = r + rr / old * p
    return x


if __name__ == "__main__":
    main(sys.argv[1:] or ["mnist", "rcv1-subset"])
