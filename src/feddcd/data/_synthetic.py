"""Synthetic classification with natural groups and a dial for how much the groups differ."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from feddcd.data._dataset import Dataset
from feddcd.data._random import generator

from .._errors import DataError

SYNTHETIC = {
    "synthetic-iid": "2,000 x 20, 3 classes, 20 groups that are all alike",
    "synthetic-heterogeneous": "2,000 x 20, 3 classes, 20 groups that differ a lot",
    "synthetic": "n x d of your choice, as in synthetic:n=2000,d=20,classes=3,groups=20,"
    "heterogeneity=0.5",
}
DIALS = {"synthetic-iid": 0.0, "synthetic-heterogeneous": 1.0}
MAX_VALUES = 2**30
SIGNAL = 3.0


@dataclass(frozen=True)
class Options:
    """n training rows, d features; heterogeneity in [0, 1], 0 for groups that are all alike."""

    n: int = 2000
    d: int = 20
    classes: int = 3
    groups: int = 20
    heterogeneity: float = 0.5

    def __post_init__(self) -> None:
        for key, least in (("n", 1), ("d", 1), ("classes", 2), ("groups", 1)):
            if getattr(self, key) < least:
                raise DataError(f"synthetic: need {key} >= {least}, got {getattr(self, key)}")
        if not 0 <= self.heterogeneity <= 1:
            raise DataError(f"synthetic: need 0 <= heterogeneity <= 1, got {self.heterogeneity}")
        for key in ("groups", "classes"):
            if getattr(self, key) > self.n:
                raise DataError(f"synthetic: need {key} <= n, got {getattr(self, key)} > {self.n}")
        if max(self.n, self.groups * self.classes) * max(self.d, self.classes) > MAX_VALUES:
            raise DataError(f"synthetic: {self} is too large to make")


def parse_options(name: str) -> Options:
    """Options of `synthetic:n=2000,d=20`, or of one of the two named sets."""
    if name in DIALS:
        return Options(heterogeneity=DIALS[name])
    kind, _, text = name.partition(":")
    if kind in DIALS:
        raise DataError(f"{kind} takes no options, got {name!r}; use synthetic:{text}")
    kinds = {field.name: int if field.type == "int" else float for field in fields(Options)}
    values = {}
    for part in filter(None, text.split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in kinds or key in values:
            what = "repeated" if key in values else "unknown"
            raise DataError(f"synthetic: {what} key {key!r} in {name!r}; keys: {', '.join(kinds)}")
        try:
            values[key] = kinds[key](value)
        except ValueError:
            kind = "a whole number" if kinds[key] is int else "a number"
            raise DataError(
                f"synthetic: {key}={value!r} is not {kind}; keys: {', '.join(kinds)}"
            ) from None
    return Options(**values)


def make_synthetic(name: str, seed: int) -> Dataset:
    """Class ~ softmax(c (W + h dW_g)' x + log p_g) for x ~ N(h mu_g, I) in group g, dial h."""
    options = parse_options(name)
    rng = generator(seed)
    d, K, G, h = options.d, options.classes, options.groups, options.heterogeneity
    mean = h * rng.standard_normal((G, d))
    weights = rng.standard_normal((d, K)) + h * rng.standard_normal((G, d, K))
    mixture = (1 - h) / K + h * rng.dirichlet(np.full(K, 0.5), G)
    offset = np.log(np.maximum(mixture, 1e-9))

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group = np.arange(n) * G // n
        X = mean[group] + rng.standard_normal((n, d))
        logits = np.empty((n, K))
        for g in np.unique(group):
            rows = group == g
            logits[rows] = SIGNAL / np.sqrt(d) * X[rows] @ weights[g] + offset[g]
        y = np.argmax(logits + rng.gumbel(size=(n, K)), axis=1)
        return X, y, group

    X, y, group = draw(options.n)
    seen = np.unique(y).size
    if seen < K:
        raise DataError(f"{name}: only {seen} of {K} classes occur in n={options.n} rows; raise n")
    X_test, y_test, _ = draw(max(options.n // 4, 1))
    return Dataset(name, X, y, group).with_test(X_test, y_test)
