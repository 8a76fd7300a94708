"""Wrong answers of one site to a description, as `lies.py` has them for tables."""

import numpy as np

from feddcd.analysis._describe_plan import DescribePlan
from lies import Lie, at, level, levels, meta, part, without

PLAN = DescribePlan(["age", "bmi", "ward", "z"], by="word", answers="each", quantiles="exact")
SUMS = "sums"

DESCRIPTIONS = [
    Lie("rows below zero", SUMS, part("n", lambda x: -x)),
    Lie("half a row", SUMS, part("n", lambda x: x + 0.5)),
    Lie("10^12 rows", SUMS, part("n", lambda x: x + 1e12)),
    Lie("10^300 rows", SUMS, part("n", lambda x: x + 1e300)),
    Lie("one row more", SUMS, part("n", at(0, 70.0))),
    Lie("no rows", SUMS, part("n", lambda x: 0 * x)),
    Lie("rows that are no number", SUMS, part("n", lambda x: x * np.nan)),
    Lie("rows in another shape", SUMS, part("n", lambda x: x[:-1])),
    Lie("rows as whole numbers", SUMS, part("n", lambda x: x.astype(np.int64))),
    Lie("more values than rows", SUMS, part("present", lambda x: x + 1)),
    Lie("values below zero", SUMS, part("present", lambda x: x - 1000)),
    Lie("levels below zero", SUMS, part("levels", lambda x: -x)),
    Lie("levels that do not add up", SUMS, part("levels", at(0, 1.0))),
    Lie("a level of 10^9 rows", SUMS, part("levels", at(1, 1e9))),
    Lie("levels of nobody", SUMS, part("levels", lambda x: 0 * x)),
    Lie("ten thousand levels", SUMS, part("levels", lambda x: np.zeros(10_000))),
    Lie("no levels told", SUMS, without("levels")),
    Lie("a largest value below zero", SUMS, part("top", lambda x: -x - 1)),
    Lie("a largest value that is infinite", SUMS, part("top", lambda x: x + np.inf)),
    Lie("a largest value of 10^200", SUMS, part("top", lambda x: x + 1e200)),
    Lie("a largest value that is no number", SUMS, part("top", lambda x: x * np.nan)),
    Lie("decimals below zero", SUMS, part("digits", lambda x: -x - 1)),
    Lie("a thousand decimals", SUMS, part("digits", lambda x: 0 * x + 2.0**1000)),
    Lie("half a decimal", SUMS, part("digits", lambda x: 0 * x + 2**1.5)),
    Lie("few that is many", SUMS, part("few", lambda x: x + 7)),
    Lie("sums that are no numbers", SUMS, part("s1", lambda x: x * np.nan)),
    Lie("sums without an end", SUMS, part("s2", lambda x: x + np.inf)),
    Lie("no sums", SUMS, without("s1")),
    Lie("squares below zero", SUMS, part("s2", lambda x: -x)),
    Lie("no squares", SUMS, part("s2", lambda x: 0 * x)),
    Lie("a mean beyond all values", SUMS, part("s1", lambda x: x + 1e7)),
    Lie("a mean among no values", SUMS, lambda said, n: said if n != 1 else said._replace(arrays={
        **said.arrays, "s1": said.arrays["s1"] * 3, "s2": said.arrays["s2"] * 9})),
    Lie("a total that is no total", SUMS, part("s1", lambda x: x + np.eye(1, x.shape[1]), until=1)),
    Lie("sums that change", SUMS, part("s1", lambda x: x + 3.0, since=2)),
    Lie("squares that change", SUMS, part("s2", lambda x: 2 * x, since=2)),
    Lie("sums of another shape", SUMS, part("s1", lambda x: x[:, :-1])),
    Lie("parts below zero", SUMS, part("parts", lambda x: -x)),
    Lie("one row more in a part", SUMS, part("parts", at(3, 1e3))),
    Lie("parts of nobody", SUMS, part("parts", lambda x: 0 * x)),
    Lie("parts of parts of nobody", SUMS, part("parts", lambda x: 0 * x, since=2)),
    Lie("parts of 10^15", SUMS, part("parts", lambda x: x + 1e15)),
    Lie("half a row in a part", SUMS, part("parts", lambda x: x / 2)),
    Lie("no parts", SUMS, without("parts")),
    Lie("a part too few", SUMS, part("parts", lambda x: x[:, :-1])),
    Lie("bars below zero", SUMS, part("bins", lambda x: -x)),
    Lie("bars of 10^9", SUMS, part("bins", lambda x: x + 1e9)),
    Lie("bars of nobody", SUMS, part("bins", lambda x: 0 * x)),
    Lie("bars of another number", SUMS, part("bins", lambda x: x[:-1])),
    Lie("patterns below zero", SUMS, part("patterns", lambda x: -x)),
    Lie("patterns of 10^9 rows", SUMS, part("patterns", lambda x: x + 1e9)),
    Lie("more than is missing", SUMS, part("patterns", np.flip)),
    Lie("patterns of another size", SUMS, part("patterns", lambda x: x[:-1])),
    Lie("more than asked for", SUMS, lambda said, _: said._replace(
        arrays={**said.arrays, "surprise": np.zeros(2)})),
    Lie("counts again", SUMS, lambda said, n: said if not n else said._replace(
        arrays={**said.arrays, "n": np.full(3, 20.0)})),
    Lie("numbers of its own, unasked", SUMS, lambda said, _: said._replace(
        arrays={**said.arrays, "own": np.zeros(5)})),
    Lie("a level that is a list, described", "columns", level("ward", ["a"])),
    Lie("a level of a million letters, described", "columns", level("ward", "x" * 10**6)),
    Lie("a million levels, described", "columns", levels("ward", "", 10**6)),
    Lie("levels that are a number, described", "columns", meta(levels=3)),
    Lie("words as numbers, described", "columns", meta(numbers=["age", "bmi", "z", "ward"])),
]  # fmt: skip
