"""What a regression table costs over sites, by method: exchanges, bytes, proven error, seconds.

    python benchmarks/choosing.py [fair] [phishing] [a9a]

fair (of statsmodels) in 12 sites, a9a and phishing (from the folder FEDDCD_DATA) in 50, shared out
unevenly by outcome; all to 0.01 standard errors. The seconds are expected for 0.1 s an exchange and
1 MB/s, not measured. A fit that would take many hundred exchanges is expected only. Without a
penalty, a9a and phishing go without the levels that have one outcome only and the columns that
depend on others, as no unpenalised table exists with them.
"""

import sys
import warnings
from typing import Any

import numpy as np
import statsmodels.api as sm

import feddcd
from feddcd._errors import DataError

L2 = 10.0
MOST = 400  # exchanges; the 891 of a9a were not done after ten minutes of CPU
SITES = {"fair": 12, "phishing": 50, "a9a": 50}
TOL = 0.01
LINE: dict[str, Any] = {"latency": 0.1, "bandwidth": 1e6}
METHODS: dict[str, dict[str, Any]] = {
    "newton, everyone": {"algorithm": "newton"},
    "newton, 30 % absent": {"algorithm": "newton", "absent": 0.3, "max_exchanges": 200},
    f"newton, everyone, l2 = {L2:g}": {"algorithm": "newton", "l2": L2},
    f"pointsaga, everyone, l2 = {L2:g}": {"algorithm": "pointsaga", "l2": L2},
}


def main() -> None:
    print("| data | rows x columns | sites | method | exchanges | MB up | proven, s.e. "
          "| expected, s |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    for name in sys.argv[1:] or SITES:
        try:
            X, y = fair() if name == "fair" else both(name)
        except DataError:
            print(f"{name} is not here: left out (set FEDDCD_DATA)")
            continue
        for label, options in METHODS.items():
            Z, z = (X, y) if options.get("l2") else solvable(X, y)
            print(line(name, Z, z, uneven(z, SITES[name]), label, options), flush=True)


def line(name: str, X, y, sites, label: str, options: dict[str, Any]) -> str:
    what = [name, f"{len(X):,} x {X.shape[1]}", SITES[name], label]
    if options["algorithm"] == "pointsaga":
        newton = feddcd.FederatedGLM(**options | {"algorithm": "newton"}, tol=TOL, **LINE)
        newton.fit(X, y, sites)
        guess: Any = newton.choice_.predictions.loc["pointsaga"]
        if guess.exchanges > MOST:
            return row(*what, f"{guess.exchanges:.0f} expected", "-", "-", f"{guess.seconds:.1f}")
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "the certificate does not reach"
        )  # the table says what was proven
        fit = feddcd.FederatedGLM(**options, tol=TOL, **LINE).fit(X, y, sites)
    seconds, megabytes = fit.history_["seconds"].iloc[-1], fit.bytes_up_ / 1e6
    proven = f"{fit.certified_error_:.1e}"
    return row(*what, fit.n_exchanges_, f"{megabytes:.2f}", proven, f"{seconds:.1f}")


def row(*cells: Any) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def fair() -> tuple[np.ndarray, np.ndarray]:
    data: Any = sm.datasets.fair.load_pandas().data
    return data.drop(columns="affairs").to_numpy(), (data["affairs"] > 0).to_numpy(float)


def both(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = feddcd.load(name)
    X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    return X, (data.y == data.y.max()).astype(float)


def solvable(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without rows of a level that has one outcome only, and columns that depend on others."""
    rows = np.ones(len(y), bool)
    for x in X.T:
        for v in (0, 1):
            there = x == v
            rows &= ~there | (np.ptp(y[there]) > 0 if there.any() else True)
    X, y = X[rows], y[rows]
    G = np.column_stack([np.ones(len(X)), X])
    G, kept = G.T @ G / len(X), [0]
    for k in range(1, len(G)):
        known = np.linalg.solve(G[np.ix_(kept, kept)], G[kept, k])
        if G[k, k] - G[kept, k] @ known > 1e-9 * G[k, k]:
            kept.append(k)
    return X[:, np.array(kept[1:]) - 1], y


def uneven(y: np.ndarray, N: int) -> np.ndarray:
    site = np.empty(len(y), int)
    for i, part in enumerate(feddcd.partition(y.astype(int), "dirichlet:0.3", N, seed=0)):
        site[part] = i
    return site


if __name__ == "__main__":
    main()
