"""What is fitted, as the server knows it, and models that have no unique finite estimate."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError, SpecError
from .._text import plural
from ..formula import INTERCEPT
from ..sums import ring
from ._sums import Moments
from .families import Family
from .plan import ModelSettings, is_real
from .protocol import ALL, Agreement


class Model(NamedTuple):
    """What is fitted, as the server knows it before the first exchange."""

    loss: Family
    names: tuple[str, ...]  # of the columns
    k: int  # columns of w
    penalty: np.ndarray  # per column, user's units
    sites: tuple[str, ...]
    intercept: int | None  # its place
    effects: int = 0  # columns at the end, before the family's extras, that stand for sites
    standardize: bool = False  # the penalty is of coefficients per standard deviation
    summed: int = 0  # sites behind the one answer, where only sums over them are known

    @property
    def family(self) -> str:
        return self.loss.name

    @property
    def quadratic(self) -> bool:
        return self.loss.quadratic

    @property
    def rows(self) -> int:
        """Columns that the table shows: all but a parameter of the variance."""
        return len(self.names) - (0 if self.loss.bare else len(self.loss.extras))

    @property
    def rounding(self) -> float:
        """How far an entry of a sum may be off, as sums of masked numbers are rounded."""
        return ring.rounding(self.summed) if self.summed else 0.0

    @property
    def p(self) -> int:
        return len(self.names) * self.k

    def own_columns(self, site: str) -> np.ndarray:
        """1 for columns that a model of this site alone has: others' effects say nothing of its
        rows, nor does its own beside an intercept."""
        effects = self.names[len(self.names) - self.effects :]
        alone = {f"site[{site}]"} if self.intercept is None else set()
        return np.array([float(n in alone or n not in effects) for n in self.names])


def summed_model(model: Model) -> Model:
    """The same of one answer, the sums over all sites."""
    if model.effects:
        told = (
            "<site_effects> needs the sums of each single site, but in mode 'sum' the coordinator "
            "reads only totals of all sites. Use mode 'each', or leave out <site_effects>"
        )
        raise SpecError(told, settings={"site_effects": "fixed"})
    return model._replace(sites=(ALL,), summed=len(model.sites))


def model_for(settings: ModelSettings, cohort: Agreement) -> Model:
    k = len(cohort.classes or ()) - 1 if settings.family == "multinomial" else 1
    effects, loss = effect_names(settings, cohort), settings.loss(cohort.classes)
    names = [name for name in cohort.names if name != INTERCEPT or not loss.bare] + effects
    return model_of(loss, names, k, settings.l2, cohort.sites, len(effects), settings.standardize)


def model_of(
    loss: Family, names: list[str], k: int, l2: Any, sites, effects: int, standardize: bool
) -> Model:
    names = [*names, *loss.extras]
    P = penalties(l2, names, effects + len(loss.extras))
    at = names.index(INTERCEPT) if INTERCEPT in names else None
    return Model(loss, tuple(names), k, P, tuple(sites), at, effects, standardize)


def effect_names(settings: ModelSettings, cohort: Agreement) -> list[str]:
    """One column for each site; but for the first, if there is an intercept."""
    if settings.site_effects != "fixed":
        return []
    return [f"site[{site}]" for site in cohort.sites[1 if INTERCEPT in cohort.names else 0 :]]


def finished_columns(
    X: np.ndarray, settings: ModelSettings, cohort: Agreement, code: np.ndarray
) -> np.ndarray:
    """The columns of a model: those of the design (thresholds stand for an intercept), of sites,
    `code` being the place of each row's, and zeros for parameters beside them."""
    loss, effects = settings.loss(cohort.classes), effect_names(settings, cohort)
    kept = [name != INTERCEPT or not loss.bare for name in cohort.names]
    parts = [X[:, kept], np.zeros((len(X), len(loss.extras)))]
    if effects:
        parts.insert(1, effect_columns(cohort.sites, code, len(effects)))
    return np.hstack(parts)


def effect_columns(sites: Sequence, code: np.ndarray, effects: int) -> np.ndarray:
    return np.eye(len(sites))[code][:, len(sites) - effects :]


def penalties(l2: Any, names: Sequence[str], effects: int) -> np.ndarray:
    """P_k for every column: l2 for all but the intercept and the last `effects`, which stand for
    the sites; or by name; or one for each."""
    free = np.array([name != INTERCEPT for name in names])
    free[len(names) - effects :] = False
    if isinstance(l2, Mapping):
        return _by_name(l2, names)
    try:
        P = np.asarray(l2, float)
    except (TypeError, ValueError):
        raise SpecError(f"l2 must be a number, a dict or an array, got {l2!r}") from None
    if P.shape == (free.sum(),):
        full = np.zeros(len(free))
        full[free] = P
        P = full
    elif P.ndim:
        raise SpecError(
            f"l2 has shape {P.shape}, but it must have one value for each of the "
            f"{free.sum()} coefficients (without the intercept)"
        )
    return _check_penalties(np.where(free, P, 0.0), names)


def _by_name(l2: Mapping, names: Sequence[str]) -> np.ndarray:
    unknown = [name for name in l2 if name not in names]
    if unknown:
        raise SpecError(
            f"l2: there is no coefficient {unknown[0]!r}; the coefficients are "
            f"{', '.join(names[:30])}"
        )
    if INTERCEPT in l2 and l2[INTERCEPT] != 0:
        raise SpecError("the intercept is never penalised; leave it out of l2")
    wrong = [name for name, value in l2.items() if not is_real(value)]
    if wrong:
        raise SpecError(
            f"l2 of the coefficient {wrong[0]!r} must be a number, got {l2[wrong[0]]!r}"
        )
    return _check_penalties(np.array([float(l2.get(name, 0.0)) for name in names]), names)


def _check_penalties(P: np.ndarray, names: Sequence[str]) -> np.ndarray:
    bad = np.flatnonzero(~(np.isfinite(P) & (P >= 0)))
    if len(bad):
        raise SpecError(
            f"l2 of the coefficient {names[bad[0]]!r} must be finite and >= 0, got {P[bad[0]]:g}"
        )
    return P


def check_rows(model: Model, sums: Moments) -> None:
    """Refuses models without a row to spare for their dispersion."""
    n, p = int(sums.n), model.p
    if n <= p and model.loss.dispersed:
        raise DataError(
            f"a model with {plural(p, 'coefficient')} needs more than {plural(p, 'row')}, got {n}"
        )


def check_outcome(model: Model, sums: Moments) -> None:
    """Refuses an outcome that is the same in every row of every site."""
    share = np.atleast_1d(sums.y) / float(sums.weight)
    like = model.loss.like
    if like == "binomial" and share[0] in (0.0, 1.0):
        told = f"the outcome is {share[0]:g} in every row"
        raise DataError(f"{told}, but binomial needs both 0 and 1")
    if like in ("poisson", "negative_binomial") and share[0] == 0:
        raise DataError("the outcome is 0 in every row, so no finite model fits the data")
    if like == "multinomial" and not model.loss.bare and (np.any(share == 0) or share.sum() == 1):
        number = 1 if share.sum() == 1 else 2 + int(np.argmin(share))
        raise DataError(
            f"no row of any site belongs to class number {number} in the list of classes; remove "
            "this class from the list"
        )


def not_finite(why: object) -> DataError:
    """The error for sums with which linear algebra cannot go on."""
    return DataError(
        "feddcd cannot compute this model, because some of its sums are too large or not finite. "
        f"What feddcd found: {why}. Look for columns with very large values, and divide them by a "
        "large constant"
    )


def check_sums(model: Model, sums: Moments) -> None:
    """Refuses columns without a finite sum of squares, by name."""
    finite = np.isfinite(sums.x) & np.isfinite(sums.xx)
    if not finite.all():
        names = [name for name, fits in zip(model.names, finite, strict=True) if not fits]
        told = f"the column{'s' * (len(names) > 1)} {', '.join(map(repr, names[:8]))}"
        raise not_finite(f"the sum of squares of {told} is not finite")
