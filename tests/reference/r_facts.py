"""R's tables (`tables.json`) and their rows, ours beside them, and how the two are compared."""

import dataclasses
import functools
import json
import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from feddcd import FederatedGLM

HERE = Path(__file__).parent
# of a result, and of R's table where it has another name
NUMBERS = {
    "n_rows": "rows",
    "n_dropped": "dropped",
    "deviance": "deviance",
    "null_deviance": "null_deviance",
    "dispersion": "dispersion",
    "log_likelihood": "log_likelihood",
    "aic": "aic",
    "bic": "bic",
    "pearson": "pearson",
    "df_residual": "df_residual",
    "df_null": "df_null",
}
LINEAR = {"r_squared": "r_squared", "adjusted": "adjusted_r_squared", "f": "f", "f_p": "f_p"}
COLUMNS = ("coef", "std_err", "statistic", "p", "low", "high")
TIE = 1e-11  # a number as close to the middle of two printed ones may be printed as either
FACTOR = re.compile(r"(?:C|factor|as\.factor|relevel)\((`[^`]+`|[\w.]+).*\)")


class Facts(NamedTuple):
    made_with: str
    datasets: dict[str, dict[str, Any]]
    tables: dict[str, dict[str, Any]]
    later: dict[str, dict[str, Any]]


@functools.cache
def facts(folder: Path = HERE) -> Facts:
    known = json.loads((folder / "tables.json").read_text(encoding="utf-8"))
    by_id = lambda tables: {table["id"]: table for table in tables}
    return Facts(
        known["made_with"], known["datasets"], by_id(known["tables"]), by_id(known["later"])
    )


def frame(name: str) -> pd.DataFrame:
    """The rows of a data set, its categories in R's order, those without rows included."""
    levels = facts().datasets[name]["levels"]
    rows = pd.read_csv(
        HERE / "data" / f"{name}.csv.gz",
        dtype=dict.fromkeys(levels, str),
        keep_default_na=False,
        na_values=[""],
    )
    return rows.assign(**{c: pd.Categorical(rows[c], known) for c, known in levels.items()})


def ragged(n: int, seed: int) -> np.ndarray:
    """Three to five sites of uneven size, each row at one of them."""
    rng = np.random.default_rng(seed)
    sites = int(rng.integers(3, 6))
    site = rng.choice(sites, n, p=rng.dirichlet(np.full(sites, 2.0)))
    site[rng.choice(n, sites, replace=False)] = np.arange(sites)
    return np.array([f"site {k}" for k in site])


def in_order(rows: pd.DataFrame, formula: str, seed: int) -> np.ndarray:
    """Sites of rows that are alike: sorted by a factor (or number) of the formula and cut, so that
    sites lack levels of it."""
    rng = np.random.default_rng(seed)
    right = formula.split("~")[1]
    spoken = [c for c in rows.columns if re.search(rf"(?<![\w.]){re.escape(c)}(?![\w.])", right)]
    factors = [c for c in spoken if isinstance(rows[c].dtype, pd.CategoricalDtype)]
    by = (factors or spoken or list(rows.columns))[0]
    order = np.argsort(np.asarray(rows[by].cat.codes if by in factors else rows[by]))
    ends = np.sort(rng.choice(np.arange(1, len(rows)), int(rng.integers(2, 5)), replace=False))
    site = np.empty(len(rows), object)
    for k, part in enumerate(np.split(order, ends)):
        site[part] = f"site {k}"
    return site.astype(str)


def fitted(table: dict[str, Any], rows: pd.DataFrame, site: np.ndarray, **settings) -> FederatedGLM:
    model = FederatedGLM(table["family"], table["formula"], **asked(table), **settings)
    return model.fit(
        rows, groups=site, sample_weight=table.get("weights"), offset=table.get("offset")
    )


def asked(table: dict[str, Any]) -> dict[str, Any]:
    """What a table needs beside family and formula."""
    return {} if table.get("event") is None else {"event": table["event"]}


def key(pieces: list[tuple[str, str | None]]) -> tuple:
    """Of a coefficient: what it multiplies, however that is spelled."""
    return tuple(sorted(_piece(variable, level) for variable, level in pieces))


def _piece(variable: str, level: str | None) -> tuple[str, str]:
    if match := FACTOR.fullmatch(variable):
        variable = match[1]
    plain = re.sub(r"(?<![\w.])c(?=\()|[\s`()\[\]]", "", variable)
    plain = plain.replace("**", "^").replace('"', "'").lower()
    return plain, re.sub(r"^[A-Z]\.", "", level or "").replace("True", "TRUE")


def our_key(label: str) -> tuple:
    return () if label == "Intercept" else key([_split(part) for part in _factors(label)])


def _split(part: str) -> tuple[str, str | None]:
    """`C(a, Sum)[S.x]` is (C(a, Sum), S.x)."""
    at = next(
        (i for i, (letter, depth) in enumerate(_depths(part)) if letter == "[" and not depth), None
    )
    return (part, None) if at is None else (part[:at], part[at + 1 : -1])


def _factors(label: str) -> list[str]:
    parts = [""]
    for letter, depth in _depths(label):
        if letter == ":" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _depths(text: str):
    """Each letter, with the brackets and quotes that are open before it."""
    depth, quote = 0, False
    for letter in text:
        yield letter, depth + quote
        quote ^= letter == "`"
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0) * (not quote)


def places(table: dict[str, Any], labels: list[str]) -> list[int]:
    """Where R has the coefficients of ours."""
    theirs = [key([(p["variable"], p["level"]) for p in pieces]) for pieces in table["pieces"]]
    ours = [our_key(label) for label in labels]
    assert sorted(ours) == sorted(theirs), (labels, table["names"])
    return [theirs.index(each) for each in ours]


def numbers(table: dict[str, Any], labels: list[str]) -> np.ndarray:
    """R's coefficients, standard errors, statistics, p and intervals, in our order."""
    return np.array([table[c] for c in COLUMNS])[:, places(table, labels)].T


def as_r(result: Any, table: dict[str, Any], nudge: float = 0.0) -> Any:
    """Our result with R's numbers in it: what we would print if we had found them."""
    names = {f.name for f in dataclasses.fields(result)}
    values = numbers(table, _labels(result))
    own = result.table.copy()
    own.iloc[:, :6] = values + nudge * np.abs(values)
    whole = lambda value: value + nudge * abs(value) if isinstance(value, float) else value
    known = {ours: table.get(theirs) for ours, theirs in NUMBERS.items() if ours in names}
    found = {ours: whole(value) for ours, value in known.items() if value is not None}
    if "linear" in names and result.linear is not None:
        more = {ours: whole(table[theirs]) for ours, theirs in LINEAR.items() if theirs in table}
        sigma = np.sqrt(whole(table["dispersion"]))
        found["linear"] = result.linear._replace(**more, sigma=sigma)
    return dataclasses.replace(result, table=own, original_table=own, **found)


def misprints(result: Any, table: dict[str, Any]) -> list[tuple[str, str]]:
    """What our summary has otherwise than R: (ours, R's)."""
    wrong = [
        (cell, f"{value:.8g}")
        for line, values in zip(cells(result), numbers(table, _labels(result)), strict=True)
        for cell, value in zip(line, values, strict=True)
        if not is_rounded(cell, value)
    ]
    return wrong + _other_words(result, table)


def cells(result: Any) -> list[list[str]]:
    """The six numbers behind every coefficient, as printed."""
    lines = iter(result.summary().splitlines())
    next(line for line in lines if "std err" in line)
    found = []
    for label in _labels(result):
        line = next(line for line in lines if line.startswith(label))
        found.append(line.removeprefix(label).split())
    return found


def is_rounded(cell: str, value: float) -> bool:
    """Whether a number is printed with right digits, be they many or few."""
    if cell.startswith("<"):
        return value < float(cell[1:])
    try:
        printed = Decimal(cell)
    except InvalidOperation:
        return False
    unit = Decimal(1).scaleb(int(printed.as_tuple().exponent))
    return abs(Decimal(value) - printed) <= unit / 2 + Decimal(TIE * abs(value))


def _labels(result: Any) -> list[str]:
    return [str(label) for label in result.table.index]


def _other_words(result: Any, table: dict[str, Any]) -> list[tuple[str, str]]:
    """Words of the summary that would be others with R's numbers."""
    ours = result.summary().split()
    theirs = [as_r(result, table, nudge).summary().split() for nudge in (0, TIE, -TIE)]
    if len(ours) != len(theirs[0]):
        return [(" ".join(ours), " ".join(theirs[0]))]
    pairs = zip(ours, *theirs, strict=True)
    return [(own, r[0]) for own, *r in pairs if not any(_agree(own, each) for each in r)]


def _agree(own: str, r: str) -> bool:
    """The same; or numbers of which one has fewer digits, where fewer are proven."""
    if own == r:
        return True
    try:
        few, many = sorted((Decimal(own), Decimal(r)), key=lambda x: -int(x.as_tuple().exponent))
    except InvalidOperation:
        return False
    return few.as_tuple().exponent != many.as_tuple().exponent and many.quantize(few) == few
