"""FedQN in NumPy, to try things: uploads, in vectors of d doubles, to a gap.

    python benchmarks/fedqn_numpy.py targets | tried | who | unseen | random
        [--package] [--seeds 5] [--from 0 --to 500]

targets: the problems by name.  tried: one setting changed.  who: other N, tau and absences.
unseen: what sites that said nothing yet count for.  random: hundreds of random problems.
Bytes are what travels: 8 bits are one byte, units, the start of the metric and first visits are in.
a9a and phishing are read from the folder FEDDCD_DATA. docs/fedqn.md explains the letters.
"""

import argparse
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from fedqn_problems import drawn, known, natural

GAPS = 1e-3, 1e-6, 1e-9


@dataclass(frozen=True)
class Settings:
    tau: int = 15
    bits: int = 8
    start_bits: int = 8
    stochastic: bool = False  # rounding
    sites: int = 5  # that send their Hessian
    visits: bool = True  # every first visit sends its diagonal; else the start sites' alone counts
    enough: float = 0.2  # of all rows, for a pair
    few: bool = False  # a pair waits for eight sites, or half of them
    damp: float = 0.2
    rescaled: int = 3  # first pairs that may shrink the whole metric
    guard: float = 2.0
    patient: bool = True
    room: float = 0.1  # first limit of a step, in units of the first loss
    limited: bool = True
    shuffled: bool = False  # every site once an epoch
    lost: float = 0.0  # share of uploads
    unseen: float = 0.0  # weight of sites that said nothing yet: it shortens the step
    ease: float = 0.95  # of the least c, at each better energy
    rounds: int = 400


def coded(v, bits, rng=None):
    """v in multiples of a part of its largest entry; the bytes."""
    if bits == 64:
        return v, 8 * v.size
    most = 2 ** (bits - 1) - 1
    unit = float(np.float32(np.abs(v).max(initial=0.0) / most))
    if unit == 0:
        return np.zeros_like(v), v.size * bits / 8 + 4
    q = np.floor(v / unit + (0.5 if rng is None else rng.random(v.shape)))
    return np.clip(q, -most, most) * unit, v.size * bits / 8 + 4


def octaves(h):
    """Curvatures in a byte each: half octaves; 0 stays 0."""
    out, some = np.zeros_like(h), h > 0
    out[some] = 2.0 ** (np.clip(np.round(2 * np.log2(h[some])), -126, 128) / 2)
    return out


def start(problem, first, x, bits):
    """The correlations of a few sites' curvature, each rounded; the bytes."""
    d, total, size = problem.d, 0.0, 0.0
    most = 2.0 ** (min(bits, 30) - 1) - 1
    for i in first:
        H = problem.hessian(i, x)
        s = np.sqrt(np.diag(H))
        s1 = np.where(s > 0, s, 1)
        R = np.triu(np.round(H / s1[:, None] / s1 * most) / most, 1)
        total = total + (R + R.T + np.diag((s > 0) * 1.0)) * s[:, None] * s
        size += d * (d - 1) / 2 * bits / 8 + 4 * d
    if not len(first):
        return np.eye(d), 0.0
    s = np.sqrt(np.diag(total))
    s1 = np.where(s > 0, s, 1)
    R = total / s1[:, None] / s1
    R[np.diag_indices(d)] = 1
    noise = 2 * np.sqrt(d / 12 / len(first)) / most
    lam, Q = np.linalg.eigh(R)
    R = (Q * np.maximum(lam, max(1e-4, 0.1 * noise))) @ Q.T
    t = np.sqrt(np.diag(R))
    a = (d / (d + problem.rows[first].sum())) ** 2
    return (1 - a) * R / t[:, None] / t + a * np.eye(d), size


def solve(M, b):
    s = np.sqrt(np.maximum(np.diag(M), 1e-300))
    A = M / s[:, None] / s + 1e-10 * np.eye(len(M))
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(A, lower=True), b / s) / s


def bfgs(M, s, y, damp):
    Ms = M @ s
    sMs, sy = s @ Ms, s @ y
    if sy < damp * sMs:
        t = (1 - damp) * sMs / (sMs - sy)
        y = t * y + (1 - t) * Ms
    M = M - np.outer(Ms, Ms) / sMs + np.outer(y, y) / (s @ y)
    return (M + M.T) / 2


def cohorts(N, tau, shuffled, rng):
    left = []
    while True:
        if not shuffled:
            yield rng.choice(N, tau, replace=False)
            continue
        if len(left) < tau:
            left += [i for i in rng.permutation(N) if i not in left]
        taken, left = left[:tau], left[tau:]
        yield np.array(taken)


def fedqn(problem, o, seed, until=1e-9):
    """(uploads, rounds) at which each gap was reached, the gaps, energies over the first loss, and
    whether the server says that it does not converge."""
    rng = np.random.default_rng(seed)
    N, d, rows, n, l2 = problem.N, problem.d, problem.rows, problem.n, problem.l2
    eye, zero, w0 = np.eye(d), np.zeros(d), np.zeros(d)
    W, G, F, seen = np.zeros((N, d)), np.zeros((N, d)), np.zeros(N), np.zeros(N, bool)
    x, c, least, fall, room, streak, pairs = w0, 1.0, 1.0, 0.7, o.room, 0, 0
    S, Y, weight, size = zero, zero, 0.0, 0.0
    diagonal, known_rows, R, M, M0, h, f0 = zero, 0.0, None, eye, eye, zero, None
    low, idle, stuck, reached, track, said = np.inf, 0.0, 0.0, {}, [], False
    enough = max(o.enough, min(0.5, 8 / N)) if o.few else o.enough
    draw = cohorts(N, min(o.tau, N), o.shuffled, rng)
    for t in range(o.rounds):
        cohort = next(draw)
        arrived = cohort[rng.random(len(cohort)) >= o.lost]
        if len(arrived) == 0:
            continue
        first = R is None
        if first:
            R, more = start(problem, arrived[: o.sites], x, o.start_bits)
            size += more
        new = [i for i in arrived if not seen[i]]
        if new and (o.visits or first):
            for i in new if o.visits else arrived[: o.sites]:
                diagonal = diagonal + octaves(problem.diagonal(i, w0))
                known_rows += rows[i]
                size += d
            if not o.visits:  # the others' first gradients are sent in single precision
                usual = np.median(diagonal[diagonal > 0]) if diagonal.any() else 1.0
                diagonal = np.where(diagonal > 0, diagonal, usual)
                size += 3 * d * len(arrived)
            old, h = h, diagonal / known_rows
            h = np.maximum(h, 1e-12 * h.max())
            M0 = R * np.sqrt(h)[:, None] * np.sqrt(h) + l2 * eye
            M = M + np.diag(np.maximum(h - 4 * old, 0)) if pairs else M0
            scale = np.sqrt(h + l2)
        bend = guess = total = 0.0
        for i in arrived:
            value, grad = problem.loss(i, x)
            change = (grad - G[i]) / scale
            fine = bool(np.isfinite(value)) and bool(np.all(np.abs(change) < 1e30))
            sent, more = coded(change if fine else zero, o.bits, rng if o.stochastic else None)
            sent, v = sent * scale, x - W[i]
            size, total = size + more + 4, total + value
            if seen[i]:
                b = value - F[i] - G[i] @ v + rows[i] * l2 / 2 * v @ v
                bend += b if fine else 1e30
                guess += rows[i] * v @ M @ v / 2
                S, Y, weight = S + rows[i] * v, Y + sent, weight + rows[i]
            G[i], W[i], seen[i] = G[i] + sent, x, True
            F[i] = value if fine else F[i]
        part = rows[arrived].sum()
        f0 = max(abs(total) / part, 1e-12) if f0 is None else f0
        ratio = bend / guess if guess > 0 else 1.0
        if weight >= enough * n:
            s, y = S / weight, Y / weight + l2 * S / weight
            S, Y, weight = zero, zero, 0.0
            if s @ y > 0 and np.isfinite(s @ y) and s @ M @ s > 0:
                if pairs < o.rescaled:
                    M = np.clip(s @ y / (s @ M @ s), 0.02, 1) * (M - l2 * eye) + l2 * eye
                M, pairs = bfgs(M, s, y, o.damp), pairs + 1
        bad = ratio > o.guard
        if o.patient:
            fall = 1 - max((1 - fall) / 2, 0.02) if bad else max(0.7, fall - 0.01)
        c = min(ratio, 1e6) if bad else max(least, min(fall * c, np.sqrt(10 * c)))
        room = max(room / 2, 1e-4) if bad else min(room * (1 + (1 - fall) / 0.3), 1)
        streak = streak + 1 if bad else 0
        if streak == 3:
            M, c, streak = M * min(c, 10), 1.0, 0
        known_part = rows[seen].sum()
        w, g = rows[seen] @ W[seen] / known_part, G[seen].sum(0) / known_part
        try:
            step = solve(M, g + l2 * w)
        except (np.linalg.LinAlgError, ValueError):
            M, pairs = M0, 0
            step = solve(M, g + l2 * w)
        trust = known_part / (known_part + o.unseen * (n - known_part))
        new_x, whole = w - trust * step / c, w - step - x
        length = (new_x - x) @ M0 @ (new_x - x) / 2
        if o.limited and length > room * f0:
            new_x = x + (new_x - x) * np.sqrt(room * f0 / length)
        energy = guess / part + whole @ M @ whole / 2
        idle, stuck = idle + part / n, stuck + part / n
        if energy < 0.9 * low or energy < 1e-13 * f0:
            low, idle, stuck, least = energy, 0.0, 0.0, max(1.0, o.ease * least)
        elif o.patient and stuck > 5:
            least, stuck = min(2 * least, 1e3), 0.0
        said = not energy <= 1e-4 * f0 or idle > 20
        x = new_x
        gap = problem.value(x) - problem.best
        track.append((gap, energy / f0))
        for level in GAPS:
            if gap <= level:
                reached.setdefault(level, (size / 8 / d, t + 1))
        if gap <= until:
            break
    return reached, track, said


PROBLEMS = [
    ("phishing", "iid", 1e-3), ("phishing", "sorted", 1e-3), ("a9a", "iid", 1e-3),
    ("a9a", "sorted", 1e-3), ("a9a", "sorted", 1e-5), ("synthetic", "", 1e-4),
    ("breast-cancer", "iid", 1e-3), ("breast-cancer", "sorted", 1e-4),
]  # fmt: skip
APART = {"randhie": 2, "medpar": 16}  # sites that lie apart, and tau
PACKAGE = {"sites": 3, "ease": 0.5, "unseen": 0.3, "few": True}  # what the package has otherwise
TRIED = {
    "bits": [4, 6, 16], "start_bits": [4, 16], "stochastic": [True], "sites": [0, 1, 3, 8],
    "visits": [False], "enough": [0.1, 0.5, 1.0], "damp": [0.05, 0.5], "rescaled": [0],
    "guard": [1.2, 1.5, 4.0], "patient": [False], "limited": [False], "room": [1.0],
    "shuffled": [True],
}  # fmt: skip


def line(title, problem, o, seeds, gaps=(1e-6,)):
    cells = []
    runs = [fedqn(problem, o, seed, min(gaps))[0] for seed in range(seeds)]
    for gap in gaps:
        found = [run.get(gap, (np.inf, np.inf)) for run in runs]
        ups = [up for up, _ in found]
        middle = f"{np.median(ups):.0f}/{np.median([r for _, r in found]):.0f}"
        cells.append(f"{middle} ({np.min(ups):.0f}-{np.max(ups):.0f})")
    print(f"{title:52s}", " | ".join(cells), flush=True)


def judge(seed, usual):
    """A random problem: how it went, and whether the server's word agrees."""
    problem, tau, about = drawn(seed)
    problem.solved()
    first = problem.value(np.zeros(problem.d)) - problem.best
    lost = 0.3 * (seed % 2)
    rounds = min(int(40 * problem.N / tau / (1 - lost)) + 60, 500)
    o = replace(usual, tau=tau, lost=lost, rounds=rounds)
    _, track, said = fedqn(problem, o, seed, 1e-7 * max(first, 1e-12))
    gap = track[-1][0] / max(first, 1e-300)
    word = "reached 1e-7" if gap <= 1e-7 else "below 1e-3" if gap <= 1e-3 else "above 1e-3"
    word += ", says no" if said else ""
    print(f"{seed:4d} {word:24s} gap {gap:.0e} estimate {track[-1][1]:.0e} {about}", flush=True)
    return word


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["targets", "tried", "who", "unseen", "random"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--from", type=int, default=0, dest="begin")
    parser.add_argument("--to", type=int, default=500)
    parser.add_argument("--package", action="store_true", help="with the package's settings")
    args = parser.parse_args()
    usual = Settings(**PACKAGE if args.package else {})
    if args.what == "targets":
        for name, how, l2 in PROBLEMS:
            for bits in (8, 64):
                problem, o = known(name, how, l2), replace(usual, bits=bits, start_bits=8)
                line(f"{name} {how} l2={l2} bits={bits}", problem, o, args.seeds, GAPS)
    elif args.what == "tried":
        for name, how, l2 in (PROBLEMS[1], PROBLEMS[4], PROBLEMS[5]):
            problem = known(name, how, l2)
            line(f"{name} {how} l2={l2}", problem, usual, args.seeds)
            for key, values in TRIED.items():
                for value in values:
                    line(f"  {key}={value}", problem, replace(usual, **{key: value}), args.seeds)
    elif args.what == "who":
        for N, tau, lost in [
            (12, 2, 0), (12, 4, 0), (12, 12, 0), (50, 2, 0), (50, 5, 0), (50, 15, 0.1),
            (50, 50, 0.1), (50, 50, 0.9), (200, 2, 0), (200, 60, 0), (200, 200, 0.9),
        ]:  # fmt: skip
            for name, how, l2 in PROBLEMS[1:3]:
                o = replace(usual, tau=tau, lost=lost, rounds=4000 if tau < 5 else 600)
                line(f"{name} {how} N={N} tau={tau} lost={lost}", known(name, how, l2, N), o, 3)
    elif args.what == "unseen":
        some = [(name, known(name, how, l2), 15) for name, how, l2 in (*PROBLEMS[:2], PROBLEMS[5])]
        some += [(name, natural(name, "poisson", 1e-3), t) for name, t in APART.items()]
        some += [("breast-cancer", known("breast-cancer", "sorted", 1e-4, 12), 4)]
        for name, problem, tau in some:
            for unseen in (0.0, 0.3, 1.0):
                o = Settings(tau, rounds=1500, **PACKAGE | {"unseen": unseen, "few": False})
                line(f"{name} unseen={unseen}", problem, o, args.seeds)
    else:
        print(Counter(judge(seed, usual) for seed in range(args.begin, args.to)))


if __name__ == "__main__":
    main()
