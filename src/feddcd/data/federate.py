"""From rows to one stacked problem: clients padded to one size, row weights, labels coded."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from .._types import Params
from ..problems import FAMILIES, MLP, AbstractSamples, Linear, mlp_params, stack_rows
from ._dataset import DataError, Dataset, shape_of

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
MAX_WIDTH = 100_000


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
    problem = make(data.X, Y, parts, scale)
    test = None
    if Y_test is not None:
        everything = [np.arange(len(Y_test))]
        one = make(data.X_test, Y_test, everything, np.array([1 / len(Y_test)]))
        test = jax.tree.map(lambda x: x[0], one)
    (_, d), (_, k) = shape_of(data.X), Y.shape
    w = jnp.zeros((d, k), dtype)
    if kind == "mlp":
        w = mlp_params((d, *_widths(widths), k), jax.random.key(seed), dtype)
    return Federated(problem, test, w, classes)


def _maker(kind: str, l2: float, dtype: type):
    family = FAMILIES["softmax" if kind == "mlp" else kind]

    def make(X, targets, parts, scale) -> AbstractSamples:
        N, n = len(parts), max(map(len, parts))
        Y, s = np.zeros((N, n, targets.shape[1]), dtype), np.zeros((N, n), dtype)
        norms = _square_norms(X)
        traces = np.array([c * norms[part].sum() for c, part in zip(scale, parts, strict=True)])
        for i, part in enumerate(parts):
            Y[i, : len(part)], s[i, : len(part)] = targets[part], scale[i]
        rows = jnp.asarray([len(part) for part in parts])
        model, beta = (MLP, np.inf) if kind == "mlp" else (Linear, family.smoothness * traces)
        return model(
            X=stack_rows(X, parts, dtype),
            Y=jnp.asarray(Y),
            s=jnp.asarray(s),
            family=family,
            mu=jnp.full(N, l2, dtype),
            rows=rows,
            loss_alpha=jnp.zeros(N, dtype),
            loss_beta=jnp.full(N, beta, dtype),
        )

    return make


def _square_norms(X) -> np.ndarray:
    if scipy.sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)


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
        for what, y in (("", data.y), ("test ", data.y_test)):
            if kind == "poisson" and y is not None and np.any(y < 0):
                row = int(np.argmax(y < 0))
                raise DataError(
                    f"{data.name}: Poisson needs targets >= 0, {what}row {row} has {y[row]}"
                )
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
    if not widths or not 1 <= min(widths) <= max(widths) <= MAX_WIDTH:
        raise DataError(
            f"hidden widths look like mlp:64x32, each at most {MAX_WIDTH}, not mlp:{text}"
        )
    return widths
