"""How many exchanges a regression table takes: with everyone, and with 30 % of the sites absent.

    python benchmarks/exchanges.py [fair] [phishing] [a9a] [--seeds 5] [--source OLDER/src]

Each to 0.01 standard errors from a cold start, the proof included, in 12 sites (fair) or 50, shared
out evenly, unevenly by outcome, and sorted by outcome. With everyone the number does not depend on
the split; of sites that are absent, the seeds draw who. `--source` names the sources of another
version, for the figures before a change. a9a and phishing are read from the folder FEDDCD_DATA.
"""

import argparse
import sys

import numpy as np

TOL, ABSENT = 0.01, 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["fair", "phishing", "a9a"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--source")
    asked = parser.parse_args()
    if asked.source:
        sys.path.insert(0, asked.source)
    import choosing

    print("| data | split | everyone | 30 % absent, median | each seed |\n|---|---|---:|---:|---|")
    for name in asked.names:
        X, y = choosing.solvable(*(choosing.fair() if name == "fair" else choosing.both(name)))
        for split, site in splits(y, choosing.SITES[name], choosing.uneven).items():
            whole = exchanges(X, y, site, {})
            absent = {"absent": ABSENT, "max_exchanges": 200}
            each = [exchanges(X, y, site, absent | {"random_state": s}) for s in range(asked.seeds)]
            numbers = ", ".join(map(str, each))
            print(f"| {name} | {split} | {whole} | {np.median(each):g} | {numbers} |", flush=True)


def splits(y: np.ndarray, N: int, uneven) -> dict[str, np.ndarray]:
    order = np.random.default_rng(0).permutation(len(y))
    by_outcome = np.argsort(np.argsort(y, kind="stable"), kind="stable")
    return {"even": order % N, "uneven": uneven(y, N), "sorted": by_outcome * N // len(y)}


def exchanges(X: np.ndarray, y: np.ndarray, site: np.ndarray, options: dict) -> int:
    import feddcd

    model = feddcd.FederatedGLM(tol=TOL, algorithm="newton", **options).fit(X, y, site)
    if not model.certified_error_ <= TOL:
        raise RuntimeError(f"only {model.certified_error_:.1e} standard errors are proven")
    return model.n_exchanges_


if __name__ == "__main__":
    main()
