"""Wrong answers of one site, `south`, by name: what is changed in which of its messages.

A lie takes the message that the honest site sends, opened, and the number of sums sent so far (the
pilot is 0), and gives another one, opened or as bytes. `PLANS` are the tables that they are told
to; `HARMLESS` are believed, and change nothing that others see.
"""

import hashlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from feddcd.federation.wire import Envelope

Change = Callable[[Envelope, int], Envelope | bytes]
BINARY = {"formula": "y ~ age + ward", "family": "binomial"}
PLANS: dict[str, dict[str, Any]] = {
    "binary": BINARY,
    "squares": {"formula": "z ~ age + ward", "family": "gaussian"},
    "weighted": {"formula": "z ~ age + ward", "family": "gaussian", "weight": "w"},
    "counts": {"formula": "c ~ age + offset(0.1 * bmi)", "family": "poisson"},
    "classes": {"formula": "k ~ age", "family": "multinomial"},
    "words": {"formula": "word ~ age", "family": "binomial"},
    "positive": {"formula": "t ~ age", "family": "gamma", "link": "log"},
    "firth": {"formula": "y ~ age", "family": "binomial", "firth": True},
    "clusters": {"formula": "y ~ age", "family": "binomial", "covariance": "cluster"},
    "robust": {"formula": "y ~ age", "family": "binomial", "covariance": "HC1"},
    "effects": {"formula": "y ~ age", "family": "binomial", "site_effects": "fixed"},
}


class Lie(NamedTuple):
    name: str
    kind: str  # of the message: welcome, columns, sums; refusal where the honest one is replaced
    change: Change
    plan: str = "binary"
    harmless: str = ""  # why it may be believed


def meta(**new: Any) -> Change:
    return lambda said, _: said._replace(meta={**said.meta, **new})


def without(name: str) -> Change:
    keep = lambda given: {k: v for k, v in given.items() if k != name}
    return lambda said, _: said._replace(meta=keep(said.meta), arrays=keep(said.arrays))


def part(name: str, change: Callable[[np.ndarray], Any], since: int = 0, until: int = 99) -> Change:
    """One array of the answers number `since` to `until`."""

    def changed(said: Envelope, number: int) -> Envelope:
        if not since <= number <= until or name not in said.arrays:
            return said
        now = np.asarray(change(said.arrays[name]))
        return said._replace(arrays={**said.arrays, name: now})

    return changed


def both(*changes: Change) -> Change:
    def changed(said: Any, number: int) -> Any:
        for change in changes:
            said = change(said, number)
        return said

    return changed


def level(column: str, *more: Any) -> Change:
    def changed(said: Envelope, _: int) -> Envelope:
        levels = {**said.meta["levels"]}
        levels[column] = [*levels.get(column, []), *more]
        return said._replace(meta={**said.meta, "levels": levels})

    return changed


def levels(column: str, start: str, count: int) -> Change:
    """Many levels, which are made only where the lie is told."""
    return lambda said, n: level(column, *(f"{start}{i}" for i in range(count)))(said, n)


def at(index: Any, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def changed(x: np.ndarray) -> np.ndarray:
        x = np.array(x)
        x[index] = value
        return x

    return changed


def raw(data: Callable[[Envelope], bytes]) -> Change:
    return lambda said, _: data(said)


def unpacked(header: bytes) -> Callable[[Envelope], bytes]:
    """A frame with this header, whatever it announces, and a right checksum."""

    def data(_: Envelope) -> bytes:
        body = struct.pack("<6sHQ", b"FEDDCD", 1, len(header)) + header
        return body + hashlib.sha256(body).digest()

    return data


MESSAGES = [
    Lie("empty bytes", "sums", raw(lambda said: b"")),
    Lie("noise", "sums", raw(lambda said: b"\x00\xff" * 500)),
    Lie("noise for columns", "columns", raw(lambda said: b"no message")),
    Lie("another kind", "sums", lambda said, _: said._replace(kind="columns")),
    Lie("a kind nobody knows", "sums", lambda said, _: said._replace(kind="sumz")),
    Lie("another's name", "sums", meta(client="north")),
    Lie("a name that is a list", "sums", meta(client=["south"])),
    Lie("no name", "sums", without("client")),
    Lie("a refusal without a reason", "sums", lambda said, _: Envelope("refusal", {}, {})),
    Lie(
        "a refusal whose reason is a table",
        "sums",
        lambda said, _: Envelope("refusal", {"client": "south", "reason": {"a": [1]}}, {}),
    ),
    Lie(
        "a refusal that blames another and obeys a terminal",
        "sums",
        lambda said, _: Envelope(
            "refusal", {"client": "north", "reason": "north: lies\x1b[2J\r\n[red]"}, {}
        ),
    ),
    Lie(
        "a refusal of ten million letters",
        "sums",
        lambda said, _: Envelope("refusal", {"client": "south", "reason": "x" * 10**7}, {}),
    ),
    Lie(
        "nested lists",
        "sums",
        raw(
            unpacked(
                b'{"arrays":[],"meta":{"client":"south","dropped":0,"kind":"sums","more":'
                + b"[" * 200
                + b"]" * 200
                + b',"version":1}}'
            )
        ),
    ),
    Lie("a hundred thousand brackets", "sums", raw(unpacked(b"[" * 100_000))),
    Lie(
        "an array of a terabyte announced",
        "sums",
        raw(unpacked(b'{"arrays":[["g","float64",[137438953472]]],"meta":{}}')),
    ),
    Lie(
        "a shape below zero",
        "sums",
        raw(unpacked(b'{"arrays":[["g","float64",[-1]]],"meta":{}}')),
    ),
    Lie(
        "an object for a dtype",
        "sums",
        raw(unpacked(b'{"arrays":[["g","object",[1]]],"meta":{}}')),
    ),
    Lie("a header that is a list", "sums", raw(unpacked(b"[]"))),
    Lie("no dropped rows told", "sums", without("dropped")),
    Lie("dropped rows below zero", "sums", meta(dropped=-5)),
    Lie("dropped rows of 10^30", "sums", meta(dropped=10**30)),
    Lie("dropped rows as a word", "sums", meta(dropped="many")),
    Lie("dropped rows as a list", "sums", meta(dropped=[1])),
    Lie("dropped rows with a fraction", "sums", meta(dropped=1.5)),
]

OFFERS = [
    Lie("no levels told", "columns", without("levels")),
    Lie("levels that are a list", "columns", meta(levels=["ward"])),
    Lie("levels that are a number", "columns", meta(levels=3)),
    Lie("levels of a column that are a number", "columns", meta(levels={"ward": 7})),
    Lie("a level that is a list", "columns", level("ward", ["a"])),
    Lie("a level that is a table", "columns", level("ward", {"a": 1})),
    Lie("a level that is nothing", "columns", level("ward", None)),
    Lie("a level twice", "columns", level("ward", "a")),
    Lie("a level of a million letters", "columns", level("ward", "x" * 10**6)),
    Lie("a level of half a letter", "columns", level("ward", "\ud800")),
    Lie("a number for a level among words", "columns", level("ward", 10**400)),
    Lie("a level that no row has", "columns", level("ward", "zz")),
    Lie("forty levels that no row has", "columns", level("ward", *(f"z{i}" for i in range(40)))),
    Lie("a level in another case", "columns", level("ward", "A")),
    Lie("a million levels", "columns", levels("ward", "l", 1_000_000)),
    Lie("numbers that are nothing", "columns", meta(numbers=None)),
    Lie("numbers that are lists", "columns", meta(numbers=[["age"]])),
    Lie("a number that is no column", "columns", meta(numbers=["age", "nothing"])),
    Lie("columns that are tables", "columns", meta(columns=[{"age": 1}, "ward"])),
    Lie("columns that are nothing", "columns", meta(columns=None)),
    Lie("columns that are a number", "columns", meta(columns=12)),
    Lie("a column twice", "columns", meta(columns=["age", "age", "ward"])),
    Lie("ten thousand more columns", "columns", meta(columns=[f"c{i}" for i in range(10_000)])),
    Lie("words as categories", "columns", meta(numbers=[], levels={"ward": ["a"], "age": ["b"]})),
    Lie("classes that are a number", "columns", meta(classes=5)),
    Lie("classes for an outcome of numbers", "columns", meta(classes=["a", "b"])),
    Lie("a class that is a list", "columns", meta(classes=[["x"], "y"]), "classes"),
    Lie("no classes", "columns", meta(classes=None), "classes"),
    Lie("a class that no row has", "columns", meta(classes=["p", "q", "r", "zz"]), "classes"),
    Lie("1,100 classes", "columns", meta(classes=[f"k{i}" for i in range(1100)]), "classes"),
    Lie("a third word of the outcome", "columns", meta(classes=["alive", "undead"]), "words"),
    Lie("three words of the outcome", "columns", meta(classes=["alive", "dead", "un"]), "words"),
]  # fmt: skip

SHAPES = [
    Lie("a gradient that is not a number", "sums", part("g", lambda x: x * np.nan)),
    Lie("an infinite value", "sums", part("value", lambda x: x + np.inf)),
    Lie("a short Hessian", "sums", part("H", lambda x: x[:-1])),
    Lie("a value of single precision", "sums", part("value", lambda x: x.astype(np.float32))),
    Lie("whole numbers for a gradient", "sums", part("g", lambda x: x.astype(np.int64))),
    Lie("a value with an axis", "sums", part("value", lambda x: np.reshape(x, (1, 1)))),
    Lie("a gradient with an axis", "sums", part("g", lambda x: x[:, None])),
    Lie("no Hessian", "sums", without("H")),
    Lie("no gradient", "sums", without("g")),
    Lie("no bins", "sums", without("bins")),
    Lie("no moments", "sums", without("moments.xx")),
    Lie("more than asked for", "sums", lambda said, _: said._replace(
        arrays={**said.arrays, "surprise": np.zeros(2)})),
    Lie("moments after the pilot", "sums", lambda said, n: said if not n else said._replace(
        arrays={**said.arrays, "moments.n": np.asarray(60.0)})),
    Lie("a meat nobody asked for", "sums", lambda said, _: said._replace(
        arrays={**said.arrays, "meat": np.zeros(10), "clusters": np.zeros(())})),
    Lie("long moments", "sums", part("moments.x", lambda x: np.append(x, 1.0))),
    Lie("moments of other columns", "sums", part("moments.xx", lambda x: x[:2])),
    Lie("an outcome of two columns", "sums", part("moments.y", lambda x: np.append(x, x))),
    Lie("a number of rows with an axis", "sums", part("moments.n", lambda x: np.full(3, 60.0))),
    Lie("a flat xy", "sums", part("moments.xy", np.ravel)),
    Lie("an offset of three", "sums", part("moments.o", lambda x: np.zeros(3))),
    Lie("bins of another shape", "sums", part("bins", lambda x: x[:, :-3], since=1)),
    Lie("bins of two rows", "sums", part("bins", lambda x: x[:2], since=1)),
    Lie("a short null model", "sums", part("null", lambda x: x[:1])),
    Lie("residuals of another size", "sums", part("residuals", lambda x: x[:5], 1), "counts"),
    Lie("a million numbers for one", "sums", part("pearson", lambda x: np.zeros(10**6))),
    Lie("an own fit of another size", "sums", part("own", lambda x: np.zeros(5))),
    Lie("an own fit that is not finite", "sums", part("own", lambda x: x * np.inf)),
    Lie("own standard errors below zero", "sums", part("own", lambda x: -np.abs(x) - 1)),
]  # fmt: skip

COUNTS = [
    Lie("no rows", "sums", part("moments.n", lambda x: 0 * x)),
    Lie("rows below zero", "sums", part("moments.n", lambda x: -x)),
    Lie("half a row", "sums", part("moments.n", lambda x: x + 0.5)),
    Lie("10^12 rows", "sums", both(
        part("moments.n", lambda x: 1e12 + 0 * x), part("moments.weight", lambda x: 1e12 + 0 * x))),
    Lie("more rows than weight", "sums", part("moments.n", lambda x: 2 * x)),
    Lie("a weight of 10^12", "sums", part("moments.weight", lambda x: 1e12 + 0 * x), "weighted"),
    Lie("a weight below zero", "sums", part("moments.weight", lambda x: -x), "weighted"),
    Lie("no weight", "sums", part("moments.weight", lambda x: 0 * x), "weighted"),
    Lie("squares below zero", "sums", part("moments.xx", lambda x: -x)),
    Lie("squares of nothing", "sums", part("moments.xx", lambda x: 0 * x)),
    Lie("squares below the means'", "sums", part("moments.xx", lambda x: x / 50)),
    Lie("squares of 10^200", "sums", part("moments.xx", lambda x: x * 1e200)),
    Lie("a sum beyond its squares", "sums", part("moments.x", lambda x: x * 1e6)),
    Lie("an intercept of 3", "sums", part("moments.x", at(0, 999.0))),
    Lie("a level with half a row", "sums", part("moments.x", at(2, 7.25))),
    Lie("more events than rows", "sums", part("moments.y", lambda x: 1e4 + 0 * x)),
    Lie("events below zero", "sums", part("moments.y", lambda x: -x)),
    Lie("half an event", "sums", part("moments.y", lambda x: x + 0.5)),
    Lie("counts below zero", "sums", part("moments.y", lambda x: -x), "counts"),
    Lie("times below zero", "sums", part("moments.y", lambda x: -x), "positive"),
    Lie("classes beyond the rows", "sums", part("moments.y", lambda x: x + 1e3), "classes"),
    Lie("a product beyond its parts", "sums", part("moments.xy", lambda x: x * 1e5)),
    Lie("products of nothing", "sums", part("moments.xy", lambda x: 0 * x)),
    Lie("an offset where there is none", "sums", part("moments.o", lambda x: x + 1.0)),
    Lie("an offset's squares below zero", "sums", part("moments.o", lambda x: -x), "counts"),
    Lie("an offset beyond its squares", "sums", part("moments.o", at(0, 1e7)), "counts"),
    Lie("a floor of the loss of 10^6", "sums", part("moments.floor", lambda x: x + 1e6)),
    Lie("a floor below any", "sums", part("moments.floor", lambda x: x - 1e6)),
    Lie("a floor above the counts'", "sums", part("moments.floor", lambda x: x + 1e6), "counts"),
    Lie("a constant of 10^9", "sums", part("moments.constant", lambda x: x + 1e9)),
    Lie("a first guess from nowhere", "sums", part("moments.start", lambda x: x * -1e9), "counts"),
    Lie("another site's rows", "sums", part("moments.x", at(2, 60.0)), "effects"),
]  # fmt: skip

CURVES = [
    Lie("a Hessian of nothing", "sums", part("H", lambda x: 0 * x)),
    Lie("a Hessian below zero", "sums", part("H", lambda x: -x)),
    Lie("an indefinite Hessian", "sums", part("H", at(1, 1e7))),
    Lie("a Hessian of 10^9 times as much", "sums", part("H", lambda x: 1e9 * x)),
    Lie("a tenth of the Hessian", "sums", part("H", lambda x: 0.1 * x)),
    Lie("ten times the Hessian at last", "sums", part("H", lambda x: 10 * x, since=2)),
    Lie("a tenth of the Hessian at last", "sums", part("H", lambda x: x / 10, since=2)),
    Lie("a Hessian of 10^300", "sums", part("H", lambda x: 1e300 + x)),
    Lie("a gradient of 10^9", "sums", part("g", lambda x: x + 1e9)),
    Lie("a gradient of 10^200", "sums", part("g", lambda x: x + 1e200)),
    Lie("the gradient of the pilot upside down", "sums", part("g", lambda x: -x, until=0)),
    Lie("the gradient upside down", "sums", part("g", lambda x: -x)),
    Lie("the gradient upside down at last", "sums", part("g", lambda x: -x, since=2)),
    Lie("a gradient that is moved", "sums", part("g", lambda x: x + 20.0, since=1)),
    Lie("a gradient of nothing", "sums", part("g", lambda x: 0 * x)),
    Lie("twice the gradient", "sums", part("g", lambda x: 2 * x)),
    Lie("a moved gradient of squares", "sums", part("g", lambda x: x + 5.0, 1), "squares"),
    Lie("a moved gradient of counts", "sums", part("g", lambda x: x + 400.0, 1), "counts"),
    Lie("a moved gradient of classes", "sums", part("g", lambda x: x + 90.0, 1), "classes"),
    Lie("a value below its floor", "sums", part("value", lambda x: -x - 1)),
    Lie("a value of 10^9", "sums", part("value", lambda x: x + 1e9)),
    Lie("a value that falls", "sums", part("value", lambda x: x / 3, since=1)),
    Lie("a value that rises", "sums", part("value", lambda x: 30 * x, since=1)),
    Lie("a value of squares that falls", "sums", part("value", lambda x: x / 2, 1), "squares"),
    Lie("half the value everywhere", "sums", part("value", lambda x: x / 2)),
    Lie("no leverage", "sums", part("M", lambda x: 0 * x, since=1)),
    Lie("leverage below zero", "sums", part("M", lambda x: -x - 1)),
    Lie("leverage of minus infinity", "sums", part("M", lambda x: -np.inf + 0 * x, since=1)),
    Lie("no bound of leverage", "sums", part("M", lambda x: np.inf + 0 * x, since=1)),
    Lie("leverage of 10^9", "sums", part("M", lambda x: 1e9 + 0 * x, since=1)),
    Lie("nothing moved", "sums", part("m", lambda x: 0 * x, since=1)),
    Lie("moved to minus infinity", "sums", part("m", lambda x: -np.inf + 0 * x)),
    Lie("moved to infinity", "sums", part("m", lambda x: np.inf + 0 * x, since=1)),
    Lie("moved by 10^6", "sums", part("m", lambda x: 1e6 + 0 * x, since=1)),
    Lie("rounding of 10^30", "sums", part("size", lambda x: 1e30 + x)),
    Lie("no rounding", "sums", part("size", lambda x: 0 * x)),
    Lie("rounding below zero", "sums", part("size", lambda x: -x)),
    Lie("Pearson's squares below zero", "sums", part("pearson", lambda x: -x)),
    Lie("no Pearson's squares", "sums", part("pearson", lambda x: 0 * x)),
    Lie("10^9 times Pearson's squares", "sums", part("pearson", lambda x: 1e9 * x), "squares"),
    Lie("Fisher's information below zero", "sums", part("F", lambda x: -x), "positive"),
    Lie("a null model of 10^9", "sums", part("null", lambda x: x + 1e9)),
    Lie("a null model below zero", "sums", part("null", lambda x: -x)),
    Lie("a null model of counts below zero", "sums", part("null", lambda x: -x), "counts"),
    Lie("Firth's part of 10^6", "sums", part("firth", lambda x: x + 1e6), "firth"),
    Lie("a meat below zero", "sums", part("meat", lambda x: -x), "robust"),
    Lie("a meat of nothing", "sums", part("meat", lambda x: 0 * x), "robust"),
    Lie("10^9 times the meat", "sums", part("meat", lambda x: 1e9 * x), "robust"),
    Lie("no meat", "sums", without("meat"), "robust"),
    Lie("clusters below zero", "sums", part("clusters", lambda x: -x), "clusters"),
    Lie("half a cluster", "sums", part("clusters", lambda x: x + 0.5), "clusters"),
    Lie("more clusters than rows", "sums", part("clusters", lambda x: x + 1e6), "clusters"),
    Lie("bins below zero", "sums", part("bins", lambda x: -x, since=1)),
    Lie("bins of 10^9 rows", "sums", part("bins", lambda x: 1e9 + x, since=1)),
    Lie("more events in a bin than rows", "sums", part("bins", at(1, 500.0), since=1)),
    Lie("bins whose means are elsewhere", "sums", part("bins", at(2, 55.0), since=1)),
    Lie("residuals below zero", "sums", part("residuals", lambda x: -x, since=1), "counts"),
    Lie("residuals of 10^9 rows", "sums", part("residuals", lambda x: 1e9 + x, 1), "counts"),
    Lie("an own fit of 10^9", "sums", part("own", lambda x: np.abs(x) + 1e9),
        harmless="it is shown as this site's own, and enters nothing else"),
]  # fmt: skip

TABLES = [*MESSAGES, *OFFERS, *SHAPES, *COUNTS, *CURVES]
