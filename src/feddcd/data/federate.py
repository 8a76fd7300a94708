"""From rows to one stacked problem: clients padded to one size, row weights, labels coded."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from .._types import Params
from ..problems import FAMILIES, MLP, AbstractSamples, Linear, mlp_params, stack
from ._dataset import DataError, Dataset

MODELS: dict[str, str] = {
    "softmax": "multinomial logistic regression, one column per class, no bias",
    "logistic": "binary logistic regression, one column, no bias",
    "ridge": "least squares",
    "poisson": "Poisson regression with the log link",
    "mlp": "multilayer perceptron with ReLU (mlp:64x32 sets the hidden widths)",
}
WEIGHTINGS: dict[str, str] = {
    "clients": "each client's mean loss counts equally (the paper)",
    "samples": "each row counts equally: the model is that of the pooled data",
}


class Federated(NamedTuple):
    problem: AbstractSamples  # leading axis N
    test: AbstractSamples | None  # one problem, for the score alone
    w: Params  # where a run starts
    classes: np.ndarray | None


def federate(
    data: Dataset,
    parts: Sequence[np.ndarray],
    *,
    model: str = "softmax",
    l2: float = 1e-3,
    weighting: str = "clients",
    dtype: type = np.float64,
    seed: int = 0,
) -> Federated:
    """The clients' problems, client i holding the rows parts[i]."""
    kind, _, widths = model.partition(":")
    _check(kind, l2, weighting, parts)
    Y, Y_test, classes = _targets(data, kind)
    sizes = np.array([len(part) for part in parts])
    scale = 1 / sizes if weighting == "clients" else np.full(len(parts), len(parts) / sizes.sum())
    make = _maker(kind, l2, dtype)
    problem = make([data.X[part] for part in parts], [Y[part] for part in parts], scale)
    test = None
    if Y_test is not None:
        one = make([data.X_test], [Y_test], np.array([1 / len(Y_test)]))
        test = jax.tree.map(lambda x: x[0], one)
    d, k = data.X.shape[1], Y.shape[1]
    w = jnp.zeros((d, k), dtype)
    if kind == "mlp":
        w = mlp_params((d, *_widths(widths), k), jax.random.key(seed), dtype)
    return Federated(problem, test, w, classes)


def _maker(kind: str, l2: float, dtype: type):
    family = FAMILIES["softmax" if kind == "mlp" else kind]

    def make(blocks, targets, scale) -> AbstractSamples:
        N, n = len(blocks), max(len(y) for y in targets)
        Y, s = np.zeros((N, n, targets[0].shape[1]), dtype), np.zeros((N, n), dtype)
        traces = np.zeros(N, dtype)
        for i, (X, y) in enumerate(zip(blocks, targets, strict=True)):
            Y[i, : len(y)], s[i, : len(y)] = y, scale[i]
            traces[i] = scale[i] * (
                X.multiply(X).sum() if scipy.sparse.issparse(X) else (X**2).sum()
            )
        rows = jnp.asarray([len(y) for y in targets])
        parts = (stack(blocks, dtype), jnp.asarray(Y), jnp.asarray(s), family)
        mu, zero = jnp.full(N, l2, dtype), jnp.zeros(N, dtype)
        if kind == "mlp":
            return MLP(*parts, mu, rows, zero, jnp.full(N, jnp.inf, dtype))
        return Linear(*parts, mu, rows, zero, jnp.asarray(family.smoothness * traces, dtype))

    return make


def _check(kind: str, l2: float, weighting: str, parts: Sequence[np.ndarray]) -> None:
    if kind not in MODELS:
        raise DataError(f"unknown model {kind!r}; there are {', '.join(MODELS)}")
    if weighting not in WEIGHTINGS:
        raise DataError(f"unknown weighting {weighting!r}; there are {', '.join(WEIGHTINGS)}")
    if not (np.isfinite(l2) and l2 >= 0):
        raise DataError(f"need a finite l2 >= 0, got l2={l2}")
    empty = [i for i, part in enumerate(parts) if len(part) == 0]
    if empty or not parts:
        raise DataError(f"clients without a row: {empty}" if parts else "there are no clients")


def _targets(data: Dataset, kind: str):
    """Y (n by k), the same of the test data, and the classes if there are any."""
    if kind in ("ridge", "poisson"):
        if kind == "poisson" and np.any(data.y < 0):
            row = int(np.argmax(data.y < 0))
            raise DataError(f"{data.name}: Poisson needs targets >= 0, row {row} has {data.y[row]}")
        return data.y[:, None], None if data.y_test is None else data.y_test[:, None], None
    classes = np.unique(data.y)
    _check_classes(data, classes, kind)
    code = lambda y: np.eye(len(classes))[np.searchsorted(classes, y)]
    if kind == "logistic":
        code = lambda y: (y == classes[1]).astype(float)[:, None]
    return code(data.y), None if data.y_test is None else code(data.y_test), classes


def _check_classes(data: Dataset, classes: np.ndarray, kind: str) -> None:
    if len(classes) < 2:
        raise DataError(f"{data.name}: all rows have the label {classes[0]:g}; {kind} needs two")
    if len(classes) > 1000 or (len(classes) > 100 and np.any(classes != np.round(classes))):
        raise DataError(
            f"{data.name}: {len(classes)} distinct labels look like a continuous target; "
            "use --model ridge or poisson"
        )
    if kind == "logistic" and len(classes) != 2:
        raise DataError(f"{data.name}: logistic needs 2 classes, got {len(classes)}; use softmax")
    if data.y_test is not None:
        unseen = np.setdiff1d(data.y_test, classes)
        if len(unseen):
            raise DataError(
                f"{data.name}: the test data has the label {unseen[0]:g}, which the training "
                f"data has not (it has {', '.join(f'{c:g}' for c in classes[:20])})"
            )


def _widths(text: str) -> tuple[int, ...]:
    try:
        widths = tuple(int(part) for part in (text or "32").split("x"))
    except ValueError:
        widths = ()
    if not widths or min(widths) < 1:
        raise DataError(f"hidden widths look like mlp:64x32, not mlp:{text}")
    return widths
