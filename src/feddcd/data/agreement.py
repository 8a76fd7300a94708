"""What the sites agree on before the first round: the columns, their order, and the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._errors import DataError
from .._text import listed, plural
from ._dataset import shape_of, widen

CLASSIFIERS = ("softmax", "logistic", "mlp")
REGRESSIONS = ("ridge", "poisson")
MAX_CLASSES = 1000
MAX_UNEVEN = 5  # of classes that are not all whole numbers

Features = tuple[str, ...] | int  # names, or a number where LIBSVM counts them
Classes = tuple[str, ...] | tuple[float, ...]


class SiteData(NamedTuple):
    X: np.ndarray | csr_array  # n by d, float64
    labels: np.ndarray  # (n,) float64, or str where the label column holds text
    names: tuple[str, ...] | None  # of the columns; None for LIBSVM
    file: str = "the site's data"  # for messages


class Offer(NamedTuple):
    """All that a site says about its data before it is accepted."""

    client: str
    rows: int
    features: Features
    classes: Classes | None


class Agreed(NamedTuple):
    features: Features
    classes: Classes | None


def select(site: SiteData, names: Features) -> SiteData:
    """The columns in this order; for LIBSVM, zeros up to this number of features."""
    columns: Features = shape_of(site.X)[1] if site.names is None else site.names
    if not _fits(columns, names):
        told = _misfit(columns, names)
        raise DataError(f"{site.file} {told}", public=f"it {told}")
    if columns == names:
        return site
    if isinstance(columns, int) or isinstance(names, int):
        return site._replace(X=widen(site.X, _size(names)))
    place = {name: j for j, name in enumerate(columns)}
    return site._replace(X=site.X[:, [place[name] for name in names]], names=tuple(names))


def offer(client: str, site: SiteData, model: str) -> Offer:
    """What a site that trains this model says about itself."""
    n, d = shape_of(site.X)
    features = d if site.names is None else site.names
    if not is_classifier(model):
        check_targets(site.file, site.labels, model)
        return Offer(client, n, features, None)
    classes = tuple(np.unique(site.labels).tolist())
    check_count(site.file, classes)
    return Offer(client, n, features, classes)


def agree(
    offers: Sequence[Offer],
    features: Sequence[str] | int | None = None,
    classes: Sequence[str] | Sequence[float] | None = None,
    model: str = "softmax",
) -> tuple[Agreed, dict[str, str]]:
    """The standard, and why each client that does not fit it is refused.

    What is declared wins. Otherwise the standard is the set of columns that fits most sites
    (of equals, that of the first by id), with the classes that any of them has.
    """
    offers = sorted(offers, key=lambda o: o.client)
    if twice := _repeats([o.client for o in offers]):
        raise DataError(f"two sites have the name {listed(twice)}")
    if not offers:
        raise DataError("there are no sites")
    classifies = is_classifier(model)
    sound = [o for o in offers if not _unsound(o, classifies)]
    standard = _standard(sound) if features is None else _declared_features(features)
    fitting = [o for o in sound if _fits(o.features, standard)]
    if classes is not None and not classifies:
        raise DataError(
            f"the model {model} predicts a number, so it has no classes: leave out the setting "
            f"'classes' (here {listed(classes)})"
        )
    union = _union(fitting) if classes is None else _declared_classes(classes)
    agreed = Agreed(standard, union if classifies else None)
    sites_with = Counter(name for o in offers for name in _names(o.features))
    reasons = {o.client: _reason(o, agreed, sites_with) for o in offers}
    refused = {client: reason for client, reason in reasons.items() if reason}
    if len(refused) == len(offers):
        raise DataError(f"no site has data that fit the model: {'; '.join(refused.values())}")
    if classifies:
        _check_classes(union, model, [o for o in offers if o.client not in refused])
    return agreed, refused


def admit(offer: Offer, agreed: Agreed) -> str:
    """Why a site that comes later does not fit, or nothing."""
    return _reason(offer, agreed, None)


def is_classifier(model: str) -> bool:
    """Whether the labels are classes; refuses unknown models."""
    kind = model.partition(":")[0]
    if kind not in CLASSIFIERS + REGRESSIONS:
        raise DataError(
            f"unknown model {model!r}; the models are {', '.join(CLASSIFIERS + REGRESSIONS)}"
        )
    return kind in CLASSIFIERS


def check_targets(name: str, y: np.ndarray, model: str, what: str = "") -> None:
    """Refuse targets that a regression cannot have."""
    if y.dtype.kind not in "biuf":
        told = f"{name}: the model {model} needs numbers as labels, but the first row has "
        public = f"the labels of this site are text, but the model {model} needs numbers"
        raise DataError(f"{told}{str(y[0])!r}", public=public)
    if model == "poisson" and np.any(y < 0):
        row = int(np.argmax(y < 0))
        raise DataError(
            f"{name}: the model poisson needs targets >= 0, but {what}row {row} (counted from 0) "
            f"has {y[row]}"
        )


def check_count(name: str, classes: Sequence[Any] | np.ndarray) -> None:
    """Refuse labels that are too many or too uneven to be classes."""
    text = isinstance(classes[0], str)
    uneven = not text and any(c != round(c) for c in classes)
    if len(classes) > MAX_CLASSES or (len(classes) > MAX_UNEVEN and uneven):
        problem = f"more than {MAX_CLASSES} classes" if text else "a continuous target"
        advice = "" if text else "; use <model>, or poisson for counts"
        raise DataError(
            f"{name}: there are {len(classes)} different labels"
            f"{', not all of them whole numbers' * uneven}. This looks like {problem}{advice}",
            settings={"model": "ridge"},
        )


def _size(features: Features) -> int:
    return features if isinstance(features, int) else len(features)


def _names(features: Features) -> frozenset[str]:
    return frozenset() if isinstance(features, int) else frozenset(features)


def _fits(columns: Features, standard: Features) -> bool:
    """The same names, or no more numbers: absent LIBSVM features are zeros."""
    if isinstance(columns, int):
        return columns <= _size(standard)
    return not isinstance(standard, int) and _names(columns) == _names(standard)


def _misfit(columns: Features, standard: Features, sites_with: Counter[str] | None = None) -> str:
    if isinstance(columns, int):
        return f"has {plural(columns, 'feature')}, but the federation has {_size(standard)}"
    if isinstance(standard, int):
        return (
            f"has columns with names ({listed(columns, 5)}), but the federation has "
            f"{plural(standard, 'feature')} without names"
        )
    missing = [name for name in standard if name not in _names(columns)]
    more = [name for name in columns if name not in _names(standard)]
    alone = sites_with is not None and all(sites_with[name] == 1 for name in more)
    whose = "that no other site has" if alone else "that the federation does not have"
    what = lambda names: f"{'column' if len(names) == 1 else 'columns'} {listed(names, 5)}"
    parts = [f"has no {what(missing)}"] if missing else []
    parts += [f"has {'a ' * (len(more) == 1)}{what(more)} {whose}"] if more else []
    return "; it ".join(parts)


def _unsound(o: Offer, classifies: bool) -> str:
    if o.rows < 1:
        return f"has {plural(o.rows, 'row')}, but needs at least 1"
    if _size(o.features) < 1:
        return "has no features"
    if not isinstance(o.features, int) and (twice := _repeats(o.features)):
        return f"has two columns called {listed(twice)}"
    if o.classes is None:
        return "has no classes, but the model needs classes" if classifies else ""
    if not classifies:
        return f"has the classes {listed(o.classes, 5)}, but the model predicts a number"
    if not 1 <= len(o.classes) <= MAX_CLASSES:
        return f"must have 1 to {MAX_CLASSES} classes, but has {len(o.classes)}"
    if not _alike(o.classes):
        return (
            f"has the classes {listed(o.classes, 5)}, but classes must be all text or all numbers"
        )
    return ""


def _reason(o: Offer, agreed: Agreed, sites_with: Counter[str] | None) -> str:
    reason, who = _unsound(o, agreed.classes is not None), _called(o.client)
    if reason or not _fits(o.features, agreed.features):
        return f"{who} {reason or _misfit(o.features, agreed.features, sites_with)}"
    if o.classes is None or not (unseen := sorted(set(o.classes) - set(agreed.classes or ()))):
        return ""
    ours, theirs = ("text" if _is_text(c) else "numbers" for c in (o.classes, agreed.classes or ()))
    if ours != theirs:
        return (
            f"{who} has {ours} as labels ({listed(o.classes, 5)}), but the labels of the "
            f"federation are {theirs}"
        )
    classes = listed(agreed.classes or ())
    return f"{who} has the class {listed(unseen, 5)}, but the federation has only {classes}"


def _called(client: str) -> str:
    """A name that is only a number needs its noun."""
    return f"site {client}" if client.isdigit() else client


def _is_text(classes: Sequence[Any]) -> bool:
    return bool(classes) and isinstance(classes[0], str)


def _standard(offers: list[Offer]) -> Features:
    """The columns that fit most sites; of equals, those of the first."""
    votes: Counter[Any] = Counter(_names(o.features) or o.features for o in offers)
    largest = max((d for d in votes if isinstance(d, int)), default=0)
    candidates: dict[frozenset[str], Features] = {}
    for o in offers:
        columns = largest if isinstance(o.features, int) else o.features
        candidates.setdefault(_names(o.features), columns)
    support = lambda c: sum(times for columns, times in votes.items() if _fits(columns, c))
    return max(candidates.values(), key=support, default=0)


def _union(offers: list[Offer]) -> Classes:
    """The classes of all, or where some have text and some numbers, of the more numerous."""
    kinds = Counter(_is_text(o.classes or ()) for o in offers)
    text = kinds.most_common(1)[0][0] if kinds else False  # of equals, that of the first
    chosen: set[Any] = {c for o in offers for c in o.classes or () if isinstance(c, str) == text}
    return tuple(sorted(chosen))


def _declared_features(values: Any) -> Features:
    if isinstance(values, int) and values >= 1 and not isinstance(values, bool):
        return values
    names = tuple(values) if isinstance(values, list | tuple) else ()
    if not names or not all(isinstance(v, str) and v for v in names) or _repeats(names):
        raise DataError(
            f"features must be a list of different names, or a whole number >= 1; got {values!r}"
        )
    return names


def _declared_classes(values: Any) -> Classes:
    classes = tuple(values) if isinstance(values, list | tuple) else ()
    if not classes or not _alike(classes) or _repeats(classes):
        raise DataError(
            f"classes must be a list with at least one class, all text or all numbers, and no "
            f"class may occur twice; got {values!r}"
        )
    return classes if _is_text(classes) else tuple(map(float, classes))


def _repeats(values: Sequence[Any]) -> list[Any]:
    return [value for value, times in Counter(values).items() if times > 1]


def _alike(classes: Sequence[Any]) -> bool:
    """All text, or all finite numbers."""
    if _is_text(classes):
        return all(isinstance(c, str) for c in classes)
    return all(isinstance(c, int | float) and np.isfinite(c) for c in classes)


def _check_classes(classes: Classes, model: str, offers: list[Offer]) -> None:
    check_count("the sites together", classes)
    if len(classes) >= 2 and (model != "logistic" or len(classes) == 2):
        return
    needs = "2 classes" if model == "logistic" else "at least 2 classes"
    at = lambda c: ", ".join(_called(o.client) for o in offers if c in (o.classes or ()))
    holders = "; ".join(f"the class {listed([c])} (at {at(c) or 'no site'})" for c in classes)
    have = "only" if len(classes) == 1 else f"{len(classes)} classes:"
    raise DataError(f"{model} needs {needs}, but the sites together have {have} {holders}")
