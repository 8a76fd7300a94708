"""A federated regression beside statsmodels and scikit-learn on the pooled rows: ratios of one run.

    python benchmarks/glm.py

First a CSV of 50,000 rows and 50 columns by `feddcd glm`, from the command to the report, start-up
counted; then the same rows in memory, and a9a (if FEDDCD_DATA has it) in 50 sites, each to 0.01
standard errors. The others have all rows in one place and need no exchange. Every fit is run
`REPEATS` times, by turns, with one thread for linear algebra, and the quickest counts.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import feddcd
from feddcd._errors import DataError

NEWTON = "FederatedGLM, newton"
ROWS, NUMBERS, SITES, REPEATS = 50_000, 45, 50, 2
L2 = 1e-2  # on a9a, where some columns hold no more than a row or two
RIGHT = [f"x{j}" for j in range(NUMBERS)] + ["C(sex)", "C(stage)", "time"]


def main() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    data = patients()
    command(data)
    X = pd.get_dummies(data[[*data.columns[:NUMBERS], "sex", "stage", "time"]], drop_first=True)
    print(f"\n{ROWS:,} rows, {X.shape[1]} columns, {SITES} sites, in memory")
    fits(X.to_numpy(float), data["death"].to_numpy(float), data["hospital"].to_numpy(), 0.0)
    try:
        a9a = feddcd.load("a9a")
    except DataError:
        print("\na9a is not here: left out (feddcd data fetch a9a, or set FEDDCD_DATA)")
        return
    X = a9a.X if isinstance(a9a.X, np.ndarray) else a9a.X.toarray()
    print(f"\na9a: {X.shape[0]:,} rows, {X.shape[1]} columns, {SITES} sites, l2 = {L2:g}")
    fits(X, (a9a.y > 0).astype(float), np.arange(len(X)) % SITES, L2)


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, np.ndarray] = {
        f"x{j}": rng.normal(size=ROWS).round(4) for j in range(NUMBERS)
    }
    columns["sex"] = rng.choice(["f", "m"], ROWS)
    columns["stage"] = rng.choice(["I", "II", "III", "IV"], ROWS)
    columns["time"] = rng.exponential(size=ROWS).round(3)
    columns["hospital"] = rng.choice([f"H{i:02d}" for i in range(SITES)], ROWS)
    z = -1 + 0.3 * columns["x0"] - 0.2 * columns["x1"] + 0.4 * (columns["sex"] == "m")
    columns["death"] = (rng.random(ROWS) < 1 / (1 + np.exp(-z))).astype(int)
    return pd.DataFrame(columns)


def command(data: pd.DataFrame) -> None:
    """The whole way of a user, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "patients.csv"), Path(folder, "out")
        data.to_csv(file, index=False)
        arguments = [
            sys.executable, "-m", "feddcd", "glm", str(file), "--group", "hospital",
            "--formula", "death ~ " + " + ".join(RIGHT), "--out", str(out), "--quiet",
        ]  # fmt: skip
        start = time.perf_counter()
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        size, report = file.stat().st_size / 1e6, (out / "report.html").stat().st_size / 1e6
    print(f"CSV of {len(data):,} x {data.shape[1]} ({size:.0f} MB) to report ({report:.1f} MB): "
          f"{seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of CPU")  # fmt: skip


def fits(X: np.ndarray, y: np.ndarray, sites: np.ndarray, l2: float) -> None:
    made: dict[str, object] = {}
    methods: dict[str, Callable[[], object]] = {
        NEWTON: lambda: feddcd.FederatedGLM(l2=l2, tol=0.01, algorithm="newton").fit(X, y, sites),
        "FederatedGLM, auto": lambda: feddcd.FederatedGLM(l2=l2, tol=0.01).fit(X, y, sites),
        "scikit-learn, lbfgs": lambda: LogisticRegression(
            C=1 / l2 if l2 else np.inf, tol=1e-6, max_iter=2000
        ).fit(X, y),
    }
    if l2 == 0:  # its penalised fit has no standard errors
        design = sm.add_constant(X)
        methods["statsmodels GLM"] = lambda: sm.GLM(y, design, sm.families.Binomial()).fit()
    best = dict.fromkeys(methods, np.inf)
    with threadpool_limits(1, user_api="blas"):
        for name, fit in [*methods.items()] * REPEATS:
            start = time.perf_counter()
            made[name] = fit()
            best[name] = min(best[name], time.perf_counter() - start)
    ours = best[NEWTON]
    for name, seconds in best.items():
        print(f"  {name:<20} {seconds:7.2f} s   {seconds / ours:5.2f} of the first")
    for name in list(made)[:2]:
        compare(name, made[name], made["scikit-learn, lbfgs"], made.get("statsmodels GLM"))


def compare(name: str, federated, sklearn, pooled) -> None:
    table = federated.table_
    off = lambda w: float(np.max(np.abs(table["coef"].to_numpy() - w) / table["std_err"]))
    print(f"  {name} ({federated.choice_.method}): {federated.n_exchanges_} exchanges, "
          f"{federated.bytes_up_ / 1e6:.1f} MB up, "
          f"certified {federated.certified_error_:.1e} standard errors")  # fmt: skip
    found = np.concatenate([sklearn.intercept_, sklearn.coef_[0]])
    print(f"    largest difference in standard errors: scikit-learn {off(found):.1e}", end="")
    print("" if pooled is None else f", statsmodels {off(pooled.params):.1e}")


if __name__ == "__main__":
    main()
