"""Relatives of the paper's methods, and its open ends, in numbers: docs/relatives.md has them.

    python benchmarks/relatives.py [acceleration] [asynchronous] [greedy] [inexact]

Everything is NumPy on problems whose optimum is known, so each study is seconds.
"""

import sys
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

Array = np.ndarray
MOST = 2000  # rounds


class Quadratics(NamedTuple):
    """N clients with curvature from alpha to beta; `best` minimises the mean."""

    A: Array
    b: Array
    alpha: float
    beta: float
    best: Array

    def gap(self, w: Array) -> float:
        d = w - self.best
        return float(d @ self.A.mean(0) @ d / 2)

    def solve(self, i: Array, tilt: Array, m: float = 0.0) -> Array:
        """argmin f_i(w) - <tilt_i, w> + (m/2)|w|², for several i."""
        left = self.A[i] + m * np.eye(self.A.shape[1])
        return np.linalg.solve(left, (self.b[i] + tilt)[..., None])[..., 0]


def quadratics(N: int, d: int, alpha: float, beta: float, seed: int = 0) -> Quadratics:
    random = np.random.default_rng(seed)
    A = np.empty((N, d, d))
    for i in range(N):
        basis, _ = np.linalg.qr(random.normal(size=(d, d)))
        A[i] = basis * np.geomspace(alpha, beta, d) @ basis.T
    b = np.einsum("nij,nj->ni", A, random.normal(size=(N, d)))
    return Quadratics(A, b, alpha, beta, np.linalg.solve(A.sum(0), b.sum(0)))


class Chain(NamedTuple):
    """f_i(w) = (alpha/2)|w - c|² + sum over the edges j = i mod N of |w_j - w_{j+1}|: strongly
    convex, not smooth; the sum is total variation. ∇f_i* is known in closed form."""

    c: Array
    N: int
    alpha: float

    def solve(self, i: int, y: Array) -> Array:
        w = self.c + y / self.alpha
        j = np.arange(i, len(w) - 1, self.N)
        left, right = w[j].copy(), w[j + 1].copy()
        half = np.clip((left - right) / 2, -1 / self.alpha, 1 / self.alpha)
        w[j], w[j + 1] = left - half, right + half
        return w

    def value(self, w: Array) -> float:
        smooth = self.N * self.alpha / 2 * np.sum((w - self.c) ** 2)
        return float(smooth + np.sum(np.abs(np.diff(w))))

    def dual(self, y: Array) -> float:
        """-sum f_i*(y_i), a lower bound if the y_i sum to 0."""
        total = 0.0
        for i in range(self.N):
            w = self.solve(i, y[i])
            j = np.arange(i, len(w) - 1, self.N)
            f = self.alpha / 2 * np.sum((w - self.c) ** 2) + np.sum(np.abs(w[j] - w[j + 1]))
            total += f - y[i] @ w
        return total


def chain(d: int, N: int, alpha: float, seed: int = 0) -> Chain:
    return Chain(np.cumsum(np.random.default_rng(seed).normal(size=d)) / 4, N, alpha)


def dual_ascent(f: Chain, tau: int, rounds: int, accelerated: bool, seed: int = 0) -> Array:
    """-D of every tenth round, of FedDCD or of AccFedDCD with κ = 0 and an a that falls (Fercoq &
    Richtárik 2015):

    v = (1-a) y + a z,  y_i = v_i - α(w_i - w̄),  z_i = z_i - (r/a) α(w_i - w̄),
    a⁺ = (sqrt(a⁴ + 4a²) - a²)/2,  a_0 = r = (τ-1)/(N-1)
    """
    random = np.random.default_rng(seed)
    y = np.zeros((f.N, len(f.c)))
    z, r = y.copy(), (tau - 1) / (f.N - 1)
    a, gaps = r, []
    for k in range(rounds):
        who = random.permutation(f.N)[:tau]
        v = (1 - a) * y + a * z if accelerated else y
        w = np.stack([f.solve(i, v[i]) for i in who])
        step = f.alpha * (w - w.mean(0))
        y = v.copy()
        y[who] -= step
        if accelerated:
            z[who] -= r / a * step
            a = (np.sqrt(a**4 + 4 * a**2) - a**2) / 2
        gaps.append(-f.dual(y) if k >= rounds - 1 or not k % 10 else np.nan)
    return np.asarray(gaps)


def rounds_to(gaps: Array, most: float) -> str:
    """The first round whose gap is at most this, of those that were looked at."""
    found = np.flatnonzero(np.nan_to_num(gaps, nan=np.inf) <= most)
    return f"{found[0]:,}" if len(found) else "-"


def acceleration() -> Iterator[str]:
    f, rounds = chain(60, 8, 0.02), 4000
    targets = (1.0, 0.1, 0.01, 0.001)
    yield "rounds to a dual gap, clients strongly convex but not smooth (total variation, N = 8)"
    yield f"| clients in a round | method | {' | '.join(f'{x:g}' for x in targets)} |"
    yield "|---" * (2 + len(targets)) + "|"
    best = -dual_ascent(f, 8, 2 * rounds, True)[-1]
    for tau in (8, 4):
        for name, fast in (("FedDCD", False), ("AccFedDCD, κ = 0", True)):
            gaps = best + dual_ascent(f, tau, rounds, fast)
            shown = " | ".join(rounds_to(gaps, x) for x in targets)
            yield f"| {tau} | {name} | {shown} |"


def _descent(f: Quadratics, i: int, w: Array, steps: int) -> Array:
    for _ in range(steps):
        w = w - (f.A[i] @ w - f.b[i]) / f.beta
    return w


def _in_8_bits(change: Array, scale: Array) -> Array:
    """Each row in multiples of 1/127 of its largest entry, over the scale of its columns."""
    scaled = change / scale
    unit = np.abs(scaled).max(1, keepdims=True) / 127
    return np.round(scaled / np.where(unit > 0, unit, 1)) * unit * scale


class Learned:
    """FedQN's server, as docs/fedqn.md has it: every site's last point and gradient, changes in
    8 bits, one metric learned from pairs, and the guard c. An answer counts at the point that its
    site was sent, however old."""

    def __init__(self, f: Quadratics):
        self.f, (self.N, self.d) = f, f.b.shape
        self.w, self.g = np.zeros_like(f.b), np.zeros_like(f.b)
        self.seen, self.c = np.zeros(self.N, bool), 1.0
        self.M = self.M0 = np.eye(self.d)
        self.s, self.y, self.gathered = np.zeros(self.d), np.zeros(self.d), 0

    def next_point(self, who: Array, given: Array) -> Array:
        f = self.f
        if not self.seen.any():  # the first sites send their Hessians
            self.M = self.M0 = f.A[who].mean(0)
        grad = np.einsum("nij,nj->ni", f.A[who], given) - f.b[who]
        known = self.seen[who]
        v, change = given - self.w[who], grad - self.g[who]
        D = _in_8_bits(change, np.sqrt(np.diag(self.M0)))
        self.w[who], self.g[who], self.seen[who] = given, self.g[who] + D, True
        v, change, D = v[known], change[known], D[known]
        bend, guess = np.sum(v * change), np.sum(v @ self.M * v)
        self.s, self.y = self.s + v.sum(0), self.y + D.sum(0)
        self.gathered += len(v)
        if self.gathered >= max(0.2, min(0.5, 8 / self.N)) * self.N:
            self._pair()
        ratio = bend / guess if guess > 0 else 1.0
        self.c = ratio if ratio > 2 else max(1.0, 0.7 * self.c)
        step = np.linalg.solve(self.M, self.g[self.seen].mean(0)) / self.c
        return self.w[self.seen].mean(0) - step

    def _pair(self) -> None:
        """A BFGS update with Powell's damping."""
        s, y, M = self.s / self.gathered, self.y / self.gathered, self.M
        self.s, self.y, self.gathered = 0 * s, 0 * y, 0
        Ms = M @ s
        if s @ y > 0:
            if s @ y < 0.2 * (s @ Ms):
                t = 0.8 * (s @ Ms) / (s @ Ms - s @ y)
                y = t * y + (1 - t) * Ms
            self.M = M - np.outer(Ms, Ms) / (s @ Ms) + np.outer(y, y) / (s @ y)


def asynchronous_run(
    f: Quadratics, method: str, speeds: Array, batch: int, uploads: int, seed: int = 0
) -> tuple[float, float]:
    """The gap at the end and the mean staleness, in server steps: a client works for a random time
    around its own, the server goes on with every `batch` uploads that have come, and who was
    answered starts again at once with the latest. `fedavg-5` takes five local steps."""
    random = np.random.default_rng(seed)
    N, d = f.b.shape
    rho = np.sqrt(f.alpha * f.beta)
    x, g, y = np.zeros(d), np.zeros((N, d)), np.zeros((N, d))
    center = lambda: x - g.mean(0) / rho
    learned = Learned(f)
    given = np.tile(x, (N, 1))  # what each was sent
    born, stale = np.zeros(N, int), []
    ends = speeds * random.exponential(size=N)
    for steps in range(uploads // batch):
        who = np.argsort(ends)[:batch]  # those who come next
        now = ends[who].max()
        stale += list(steps - born[who])
        if method == "feddcd":
            w = f.solve(who, y[who])
            y[who] -= f.alpha * (w - w.mean(0))
            x = w.mean(0)
        elif method == "pointsaga":
            w = f.solve(who, g[who] + rho * given[who], rho)
            g[who] += rho * (given[who] - w)
            x = w.mean(0)
        elif method == "fedqn":
            x = learned.next_point(who, given[who])
        else:
            w = np.stack([_descent(f, i, given[i], int(method[-1])) for i in who])
            x = x + batch / N * (w - given[who]).mean(0)
        given[who] = center() if method == "pointsaga" else x
        born[who], ends[who] = steps + 1, now + speeds[who] * random.exponential(size=batch)
    return f.gap(x), float(np.mean(stale))


def asynchronous() -> Iterator[str]:
    f, N = quadratics(20, 10, 0.05, 1.0), 20
    start = f.gap(np.zeros(10))
    yield f"gap after so many uploads, N = 20 quadratics with κ = 20, from a gap of {start:.2g}"
    yield "spread: time of the slowest client / of the fastest; batch: uploads in a server step;"
    yield "staleness: mean number of server steps while a client works; -1, -5: local steps"
    yield "| spread | batch | staleness | method | 1,000 uploads | 4,000 | 16,000 |"
    yield "|---|---|---|---|---|---|---|"
    for spread in (1, 30):
        speeds = np.geomspace(1, spread, N)
        for batch in (2, 6):
            for method in ("feddcd", "pointsaga", "fedqn", "fedavg-1", "fedavg-5"):
                runs = [asynchronous_run(f, method, speeds, batch, k) for k in (1000, 4000, 16000)]
                gaps = " | ".join(f"{gap:.1e}" for gap, _ in runs)
                yield f"| {spread} | {batch} | {runs[-1][1]:.1f} | {method} | {gaps} |"


def greedy_run(
    f: Quadratics, method: str, choice: str, tau: int, seed: int = 0, most: int = MOST
) -> int:
    """Rounds to a gap of 1e-8, 2,000 at most. `oracle` takes those whose w_i is farthest from the
    model and knows all w_i, `last` goes by what each sent last (not yet asked: first)."""
    random = np.random.default_rng(seed)
    N, d = f.b.shape
    rho = np.sqrt(f.alpha * f.beta)
    x, y = np.zeros(d), np.zeros((N, d))
    far = np.full(N, np.inf)
    for k in range(most):
        center = x - y.mean(0) / rho
        m = 0.0 if method == "feddcd" else rho
        w = f.solve(np.arange(N), y + m * center, m)  # of all, for the oracle; others are not used
        if choice == "oracle":
            far = np.linalg.norm(w - (x if m == 0 else center), axis=1)
        who = random.permutation(N)[:tau]
        if choice != "uniform":
            who = np.argsort(-far + 1e-12 * random.uniform(size=N))[:tau]
        mean = w[who].mean(0)
        y[who] += m * (center - w[who]) if m else f.alpha * (mean - w[who])
        x = mean
        far[who] = np.linalg.norm(w[who] - mean, axis=1)
        if f.gap(x) < 1e-8:
            return k + 1
    return most


def greedy() -> Iterator[str]:
    yield "rounds to a gap of 1e-8, N = 30 quadratics with κ = 20, median of 3 (2,000: not reached)"
    yield "| method | clients in a round | drawn | greedy, all w_i known | greedy by the last w_i |"
    yield "|---|---|---|---|---|"
    for method in ("feddcd", "pointsaga"):
        for tau in (2, 5, 10):
            cells = []
            for choice in ("uniform", "oracle", "last"):
                runs = [
                    greedy_run(quadratics(30, 8, 0.05, 1.0, seed), method, choice, tau, seed)
                    for seed in range(3)
                ]
                cells.append(f"{int(np.median(runs)):,}")
            yield f"| {method} | {tau} | {' | '.join(cells)} |"


def inexact_run(
    f: Quadratics, method: str, delta: float, error: str, tau: int, seed: int = 0, most: int = MOST
) -> int:
    """Rounds to a gap of 1e-8, 2,000 at most, if |w - w*|² = delta |start - w*|² in every local
    solve, from the client's last w: towards the start (`short`) or in a random direction."""
    random = np.random.default_rng(seed)
    N, d = f.b.shape
    r, kappa = (tau - 1) / (N - 1), f.alpha / f.beta
    a = np.sqrt(kappa) / (1 / r + np.sqrt(kappa)) if method == "accfeddcd" else 0.0
    b = a * kappa * r**2
    s, length = (b / (a**2 + b), a * r / (a**2 + b)) if a else (0.0, 0.0)
    y, z, last = np.zeros((N, d)), np.zeros((N, d)), np.zeros((N, d))
    for k in range(most):
        who = random.permutation(N)[:tau]
        v = (1 - a) * y + a * z
        exact = f.solve(who, v[who])
        off = last[who] - exact
        if error == "random":
            turn = random.normal(size=off.shape)
            off = turn * (np.linalg.norm(off, axis=1) / np.linalg.norm(turn, axis=1))[:, None]
        w = exact + np.sqrt(delta) * off
        last[who] = w
        step = f.alpha * (w - w.mean(0))
        z = (1 - s) * z + s * v
        y = v.copy()
        y[who] -= step
        z[who] -= length * step
        if f.gap(w.mean(0)) < 1e-8:
            return k + 1
        if not np.isfinite(f.gap(w.mean(0))):
            break
    return most


def inexact() -> Iterator[str]:
    deltas = (0.0, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 0.5)
    yield "rounds to a gap of 1e-8, 5 of 20 clients in a round, median of 3 (2,000: not reached)"
    yield f"| β/α | method | error | {' | '.join(f'δ = {x:g}' for x in deltas)} |"
    yield "|---" * (3 + len(deltas)) + "|"
    for kappa in (20, 200):
        for method in ("feddcd", "accfeddcd"):
            for error in ("short", "random"):
                cells = []
                for delta in deltas:
                    make = partial(quadratics, 20, 8, 1 / kappa, 1.0)
                    runs = [inexact_run(make(s), method, delta, error, 5, s) for s in range(3)]
                    cells.append(f"{int(np.median(runs)):,}")
                yield f"| {kappa} | {method} | {error} | {' | '.join(cells)} |"


STUDIES = {
    "acceleration": acceleration,
    "asynchronous": asynchronous,
    "greedy": greedy,
    "inexact": inexact,
}


def main() -> None:
    for name in sys.argv[1:] or STUDIES:
        print(f"\n## {name}\n")
        for line in STUDIES[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
