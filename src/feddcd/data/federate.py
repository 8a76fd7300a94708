"""From rows to stacked problems: clients padded to few sizes, row weights, labels coded."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse

from .. import tree
from .._errors import DataError
from .._text import listed, plural
from .._types import Params
from ..problems import (
    FAMILIES,
    MLP,
    AbstractFamily,
    AbstractProblem,
    Architecture,
    Clients,
    Linear,
    Network,
    Targets,
    grouped,
    mlp_params,
    size_groups,
    stack_rows,
)
from ._dataset import Dataset, shape_of
from .agreement import Agreed, SiteData, check_count, check_targets, is_classifier, select

MODELS: dict[str, str] = {
    "softmax": (
        "multinomial logistic regression with one vector of weights for each class, without an "
        "intercept"
    ),
    "logistic": "logistic regression with two classes, without an intercept",
    "ridge": "least squares",
    "poisson": "Poisson regression with the log link",
    "mlp": "multilayer perceptron with ReLU (mlp:64x32 has hidden layers of 64 and 32 units)",
}
WEIGHTINGS: dict[str, str] = {
    "clients": "the mean loss of each client has the same weight (as in the paper)",
    "samples": "each row has the same weight: the result is the model of the pooled data",
}
MAX_WIDTH = 100_000
WORTH = 16e6  # bytes of padding, below which compiling several shapes costs more
Model = str | AbstractFamily | Architecture


def _as_it_is(w: Params) -> Params:
    return w


class Federated(NamedTuple):
    problem: Clients  # all N of them
    test: AbstractProblem | None  # one problem, for the score alone
    w: Params  # where a run starts
    classes: np.ndarray | None
    assemble: Callable[[Params], Any] = _as_it_is  # the model that a user gets, from w


def federate(
    data: Dataset,
    parts: Sequence[np.ndarray],
    *,
    model: Model = "softmax",
    l2: float = 1e-3,
    weighting: str = "clients",
    dtype: type = np.float64,
    seed: int = 0,
) -> Federated:
    """The clients' problems, client i holding the rows parts[i]."""
    kind = model_name(model)
    _check(model, l2, weighting, parts)
    codes = np.unique(data.y) if _coding(model) != "numbers" else None
    if codes is not None:
        _check_classes(data, codes, kind, binary=_coding(model) == "binary")
    targets = lambda y, what="": _targets(data.name, y, model, codes, what)
    if data.classes is not None and codes is None and not isinstance(model, Architecture):
        check_targets(data.name, data.classes[data.y.astype(int)], kind)
    Y = targets(data.y)
    sizes = np.array([len(part) for part in parts])
    scale = 1 / sizes if weighting == "clients" else np.full(len(parts), len(parts) / sizes.sum())
    make = functools.partial(_stack, model, l2, dtype)
    groups = _groups(data.X, sizes, np.dtype(dtype).itemsize)
    stacks = [make(data.X, Y, [parts[i] for i in ids], scale[ids]) for ids in groups]
    problem = grouped(stacks, groups)
    test = None
    if data.y_test is not None:
        Y_test = targets(data.y_test, "test ")
        everything = [np.arange(len(Y_test))]
        one = make(data.X_test, Y_test, everything, np.array([1 / len(Y_test)]))
        test = tree.first(one)
    w = _start(model, shape_of(data.X)[1], Y.shape[1], dtype, seed)
    classes = codes if data.classes is None else data.classes
    whole = model.assemble if isinstance(model, Architecture) else _as_it_is
    return Federated(problem, test, w, classes, whole)


def model_name(model: Model) -> str:
    """As messages and files call it: mlp for mlp:64x32, else the class that Python gave."""
    if isinstance(model, Architecture):
        return type(model.module).__name__
    return model.partition(":")[0] if isinstance(model, str) else type(model).__name__


def _family(model: str | AbstractFamily) -> AbstractFamily:
    if isinstance(model, AbstractFamily):
        return model
    kind = model_name(model)
    return FAMILIES["softmax" if kind == "mlp" else kind]


def _coding(model: Model) -> Targets:
    return "numbers" if isinstance(model, Architecture) else _family(model).targets


def site_problem(
    site: SiteData, agreed: Agreed, *, model: str = "softmax", **options: Any
) -> Federated:
    """One site's own problem, N = 1, as `federate` gives it; `options` as `_alone` has them."""
    dimensions(agreed, model)
    classes = None if agreed.classes is None else np.array(agreed.classes)
    Y = _targets(site.file, site.labels, model, classes)
    X = Dataset(site.file, select(site, agreed.features).X, np.zeros(len(Y))).X
    return _alone(X, Y, model, **options)._replace(classes=classes)


def phantom(d: int, k: int, *, model: str = "softmax", **options: Any) -> Federated:
    """A problem of one zero row, for a server without data: shapes, weights and the start w."""
    many = model.partition(":")[0] in ("softmax", "mlp")
    if d < 1 or (k < 2 if many else k != 1):
        raise DataError(
            f"the model {model} needs d >= 1 features and k {'>= 2' if many else '= 1'} outputs, "
            f"got d={d!r}, k={k!r}"
        )
    return _alone(np.zeros((1, d)), np.zeros((1, k)), model, **options)


def dimensions(agreed: Agreed, model: str) -> tuple[int, int]:
    """The d and k of `phantom` for what the sites have agreed on."""
    classes = len(agreed.classes or ())
    if is_classifier(model) != (classes >= 2) or (model == "logistic" and classes != 2):
        needs = "no classes" if not is_classifier(model) else "at least 2 classes"
        needs = "exactly 2 classes" if model == "logistic" else needs
        found = listed(agreed.classes or ()) or "none"
        raise DataError(f"the model {model} needs {needs}, but the agreed classes are {found}")
    d = agreed.features if isinstance(agreed.features, int) else len(agreed.features)
    return d, 1 if classes == 0 or model == "logistic" else classes


def _alone(
    X: Any,
    Y: np.ndarray,
    model: str,
    *,
    l2: float = 1e-3,
    scale: float | None = None,
    dtype: type = np.float64,
    seed: int = 0,
) -> Federated:
    """One client; each row weighs scale, or 1/n."""
    parts = [np.arange(len(Y))]
    _check(model, l2, "clients", parts)
    weight = 1 / len(Y) if scale is None else scale
    if not (np.isfinite(weight) and weight > 0):
        raise DataError(f"scale must be a finite number above 0, got scale={scale}")
    problem = _stack(model, l2, dtype, X, Y, parts, np.array([weight]))
    return Federated(problem, None, _start(model, X.shape[1], Y.shape[1], dtype, seed), None)


def _start(model: Model, d: int, k: int, dtype: type, seed: int) -> Params:
    if isinstance(model, Architecture):
        return model.start(dtype)
    kind, _, widths = str(model).partition(":")
    if kind == "mlp":
        return mlp_params((d, *_widths(widths), k), jax.random.key(seed), dtype)
    return jax.device_put(np.zeros((d, k), dtype))


def _stack(model: Model, l2: float, dtype: type, X, targets, parts, scale) -> AbstractProblem:
    """The problems of all clients, with rows of weight `scale`, padded to the largest size."""
    sizes = np.array([len(part) for part in parts])
    inside = np.arange(sizes.max()) < sizes[:, None]
    put = jax.device_put  # compiles nothing, unlike jnp.asarray
    full = lambda value: put(np.full(len(parts), value, dtype))
    s, rows, mu, zero = put((inside * scale[:, None]).astype(dtype)), put(sizes), full(l2), full(0)
    if isinstance(model, Architecture):
        X, Y = _examples(model, X, targets, parts, inside)
        return Network(
            X=put(X.astype(dtype)), Y=put(Y.astype(dtype)), s=s, mu=mu, rows=rows,
            loss_alpha=zero, loss_beta=full(np.inf), architecture=model,
        )  # fmt: skip
    family, deep = _family(model), model_name(model) == "mlp"
    Y = np.zeros((*inside.shape, targets.shape[1]), dtype)
    Y[inside] = targets[np.concatenate(parts)]
    norms = _square_norms(X)
    traces = scale * [norms[part].sum() for part in parts]
    bounded = not deep and np.isfinite(family.smoothness)
    beta = family.smoothness * traces if bounded else np.inf  # inf * 0 would be nan
    return (MLP if deep else Linear)(
        X=stack_rows(X, parts, dtype), Y=put(Y), s=s, family=family, mu=mu, rows=rows,
        loss_alpha=zero, loss_beta=full(beta),
    )  # fmt: skip


def _groups(X, sizes: np.ndarray, itemsize: int) -> list[np.ndarray]:
    """The clients that are padded to one size: all, unless that padding is worth a few shapes."""
    row = X.nnz / X.shape[0] * (itemsize + 4) if scipy.sparse.issparse(X) else X[0].size * itemsize
    padding = (len(sizes) * sizes.max() - sizes.sum()) * row
    return [np.arange(len(sizes))] if padding < WORTH else size_groups(sizes)


def _examples(model: Architecture, X, targets, parts, inside) -> tuple[np.ndarray, np.ndarray]:
    """A client's padding repeats its first row: zeros may be no example that a loss takes."""
    X = X.toarray() if scipy.sparse.issparse(X) else X
    shape, (_, d) = model.shape or X.shape[1:], X.shape
    if np.prod(shape) != d:
        raise DataError(
            f"a row has {plural(d, 'number')}, but an example of shape {shape} has {np.prod(shape)}"
        )
    rows = np.where(inside, 0, [[part[0]] for part in parts])
    rows[inside] = np.concatenate(parts)
    return X.reshape(-1, *shape)[rows], targets[rows, 0]


def _square_norms(X) -> np.ndarray:
    if scipy.sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)


def _check(model: Model, l2: float, weighting: str, parts: Sequence[np.ndarray]) -> None:
    if isinstance(model, str) and model_name(model) not in MODELS:
        raise DataError(f"unknown model {model_name(model)!r}; the models are {', '.join(MODELS)}")
    if weighting not in WEIGHTINGS:
        raise DataError(f"unknown weighting {weighting!r}; known are {', '.join(WEIGHTINGS)}")
    if not (np.isfinite(l2) and l2 >= 0):
        raise DataError(f"l2 must be a finite number >= 0, got l2={l2}")
    empty = [i for i, part in enumerate(parts) if len(part) == 0]
    if empty or not parts:
        raise DataError(f"these clients have no row: {empty}" if parts else "there are no clients")


def _targets(name: str, y: np.ndarray, model: Model, classes: np.ndarray | None, what: str = ""):
    """Y, n by k: numbers as they are, classes coded in the order given."""
    if classes is None:
        check_targets(name, y, model_name(model), what)
        return y[:, None]
    order = np.argsort(classes)
    same = (y.dtype.kind in "US") == (classes.dtype.kind in "US")
    place = np.searchsorted(classes[order], y) if same else np.zeros(len(y), int)
    codes = order[np.minimum(place, len(classes) - 1)]
    unseen = np.flatnonzero(classes[codes] != y) if same else [0]
    if len(unseen):
        raise DataError(
            f"{name}: row {unseen[0]} (counted from 0) has the label {listed([y[unseen[0]]])}, but "
            f"the agreed classes are {listed(classes)}"
        )
    binary = _coding(model) == "binary"
    return (codes == 1).astype(float)[:, None] if binary else np.eye(len(classes))[codes]


def _check_classes(data: Dataset, classes: np.ndarray, kind: str, *, binary: bool) -> None:
    labels = classes if data.classes is None else data.classes
    if len(classes) < 2:
        raise DataError(
            f"{data.name}: all rows have the label {listed(labels)}, but {kind} needs two labels"
        )
    check_count(data.name, classes)
    if binary and len(classes) != 2:
        raise DataError(
            f"{data.name}: {kind} needs 2 classes, but there are {len(classes)} "
            f"({listed(labels, 5)}); use softmax"
        )
    if data.y_test is not None:
        unseen = np.setdiff1d(data.y_test, classes)
        if len(unseen):
            raise DataError(
                f"{data.name}: the test data have the label {unseen[0]:g}, but the training "
                f"data have only {', '.join(f'{c:g}' for c in classes[:20])}"
            )


def _widths(text: str) -> tuple[int, ...]:
    try:
        widths = tuple(int(part) for part in (text or "32").split("x"))
    except ValueError:
        widths = ()
    if not widths or not 1 <= min(widths) <= max(widths) <= MAX_WIDTH:
        raise DataError(
            f"mlp:{text}: the width of a hidden layer must be a whole number from 1 to "
            f"{MAX_WIDTH}; write, for example, mlp:64x32"
        )
    return widths
