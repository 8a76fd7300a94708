"""The blocks of an answer in plain words, for who decides about them and who reads a site's log.

Each name in `KINDS` of an analysis has words here, and a block without a kind cannot be made.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

from .._text import plural

COUNTED = {  # by every analysis in sums, before its first exchange
    "n": "the number of rows",
    "support": "for each column, whether this site has more than one value in it (1 or 0)",
    "dropped": "how many rows the site leaves out because of missing values (0 if they are few)",
}
TABLE = {
    "value": "the loss: how badly the model fits the rows",
    "g": "the gradient: one sum for each coefficient",
    "H": "the Hessian: one sum for each pair of coefficients",
    "F": "Fisher's information: one sum for each pair of coefficients",
    "floor": "the smallest loss that any model could have",
    "firth": "the gradient of Firth's penalty: one sum for each coefficient",
    "size": "sums of absolute values, for a bound on rounding errors: one sum for each coefficient",
    "M": "a bound on the largest leverage of a row, rounded up",
    "m": "a bound on the largest change of a row's prediction, rounded up",
    "null": "the loss, the gradient and the curvature of a model without columns",
    "bins": "rows by prediction: for each range of predictions the number of rows, the sum of "
    "outcomes and the sum of predictions (0 if a range has few rows)",
    "residuals": "rows by residual: how many rows are in each range of residuals (outcome minus "
    "prediction; 0 if a range has few rows)",
    "pearson": "Pearson's X²: a sum of squared residuals",
    "own": "coefficients and standard errors of a model that uses only the rows of this site",
    "meat": "sums for robust standard errors: one sum for each pair of coefficients",
    "clusters": "the number of clusters",
    "moments.n": "the number of rows that the model uses",
    "moments.weight": "the sum of weights (without weights, the number of rows)",
    "moments.x": "the sum of each column",
    "moments.xx": "the sum of squares of each column",
    "moments.y": "the sum of the outcome, or the number of rows of each class",
    "moments.xy": "for each column, the sum of its products with the outcome",
    "moments.o": "the sum and the sum of squares of the offset",
    "moments.floor": "the smallest loss that any model could have, for the deviance",
    "moments.constant": "sums of logarithms of the outcome and of the weights, for the AIC",
    "moments.start": "sums for the first guess of the coefficients: sums of products of two "
    "columns, and of products of a column with the outcome",
}
TABLE_FIRST = "moments."
TABLE_LATER = ("bins", "residuals", "meat", "clusters")  # not in the first exchange
DESCRIPTION = {
    "n": "the number of rows of each group",
    "present": "for each column of numbers, how many rows of each group have a value",
    "levels": "for each category, how many rows of each group have each level, and how many have "
    "no value",
    "top": "for each column of numbers, a bound on its largest absolute value, rounded up to a "
    "power of 2",
    "digits": "for each column of numbers, how many decimals its values have",
    "few": "whether this site counts rare values together with other values, and whether "
    "it left out rows because of rare values",
    "s1": "for each column of numbers, the sum of its values in each group",
    "s2": "for each column of numbers, the sum of squares of its values in each group",
    "parts": "for quantiles: how many rows of a group are in each part of a range of values",
    "bins": "for histograms: how many rows are in each range of values",
    "patterns": "for each combination of columns: how many rows have no value in exactly these "
    "columns",
    "own": "this site's own number of rows, means, standard deviations and counts of levels",
}
WORDS = {"newton": TABLE, "describe": DESCRIPTION}  # by method, as a log has it
OF_POLICY = ("bins", "residuals")  # which a careful site tells in sums alone


def words_of(method: str, names: Iterable[str]) -> dict[str, str]:
    """By name of a block: what its numbers are."""
    names = list(names)
    words = COUNTED if "support" in names else WORDS.get(method, {})
    return {name: words.get(name, f"the numbers {name!r}") for name in names}


def told_blocks(method: str, shapes: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """In words, with how many numbers each has, of a line of the log; empty ones are none."""
    words = words_of(method, shapes)
    for name, shape in shapes.items():
        if size := prod(map(int, shape)):
            yield words[name], size


def may_leave(plan: Any, mode: str, careful: bool) -> list[str]:
    """Lines for the person who decides: every block that an answer to this plan may have."""
    counted = _listed("before the first exchange:", COUNTED, COUNTED) if mode == "sum" else []
    if plan.analysis == "describe":
        never = set() if plan.by_site and mode == "each" else {"own"}
        never |= {"parts"} if plan.quantiles == "none" else set()
        names = [name for name in DESCRIPTION if name not in never]
        return counted + _listed("in the exchanges:", DESCRIPTION, names)
    if not hasattr(plan, "formula"):
        return counted
    loss, robust = plan.loss(), plan.covariance != "model"
    never = {"own": mode != "each", "F": loss.expected is None, "floor": loss.floor is None}
    never |= {"firth": not loss.firth, "meat": not robust, "clusters": not robust}
    never |= dict.fromkeys(OF_POLICY, mode == "each" and careful)
    names = [name for name in TABLE if not never.get(name)]
    once = [name for name in names if name.startswith(TABLE_FIRST)]
    later = [name for name in names if name in TABLE_LATER]
    each = [name for name in names if name not in (*once, *later)]
    return [
        *counted,
        *_listed("in the first exchange only:", TABLE, once),
        *_listed("in each exchange:", TABLE, each),
        *(_listed("in each exchange after the first:", TABLE, later) if later else ()),
    ]


def _listed(head: str, words: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [head, *(f"  {words[name]}" for name in names)]


def numbers_in(shapes: Mapping[str, Any]) -> int:
    return sum(prod(map(int, shape)) for shape in shapes.values())


def block_line(words: str, sizes: list[int]) -> str:
    """Of answers of one job: how many had this block, and its numbers in each."""
    least, most = min(sizes), max(sizes)
    each = plural(most, "number") if least == most else f"{least:,} to {most:,} numbers"
    return f"in {plural(len(sizes), 'answer')}, {each}{' each' * (len(sizes) > 1)}: {words}"
