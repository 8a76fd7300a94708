"""The families of a regression table, each with its links: one `Family` for a pair.

A further distribution is a `Distribution`, a further link a `MeanLink`; a pair that has a row in
`_proofs` is proven.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from .._errors import SpecError
from .._text import closest
from ..losses import LOSSES, Loss
from . import _distributions as distributions
from ._distributions import Distribution, Likelihood
from ._first_guess import first_guess, shares_start
from ._geometry import Geometry, Shared
from ._links import LINKS, LOG_OF_SHARE, MeanLink
from ._proofs import LOSSES_OF_SHARES, PROOFS, Proof, Share

Array = np.ndarray
THETA = "ln(theta)"  # the name of a parameter that no table shows
OUTSIDE = 1e290  # the loss of a row without a mean for its z: finite, because it is sent
PENALISED = "no bound is known for Firth's penalty"
SEVERAL = "with this link the likelihood can have more than one maximum"
CHOICES: dict[str, tuple[str, ...]] = {  # the first link is the one taken unless said otherwise
    "gaussian": ("identity", "log", "inverse"),
    "binomial": ("logit", "probit", "cloglog", "log", "cauchit"),
    "poisson": ("log", "identity", "sqrt"),
    "multinomial": ("logit",),
    "quasibinomial": ("logit", "probit", "cloglog", "log", "cauchit"),
    "quasipoisson": ("log", "identity", "sqrt"),
    "gamma": ("inverse", "log", "identity"),
    "inverse_gaussian": ("1/mu^2", "inverse", "log", "identity"),
    "negative_binomial": ("log",),
    "ordinal": ("logit",),
}
OTHER_NAMES = {"negbin": "negative_binomial", "normal": "gaussian", "polr": "ordinal"}
MODELS = {"logistic": "binomial", "logit": "binomial", "linear": "gaussian"}
COUNTS = ("poisson", "quasipoisson", "negative_binomial")
SHARES = ("binomial", "quasibinomial")
CLASSED = ("multinomial", "ordinal")
POSITIVE = ("gamma", "inverse_gaussian")
QUASI = {"quasibinomial": "binomial", "quasipoisson": "poisson"}
DISTRIBUTIONS = {each.name: each for each in distributions.KNOWN}


class RowTerms(NamedTuple):
    """Of every row at its z."""

    value: Array
    slope: Array  # n by k
    curvature: Array  # the observed one, n by k by k
    size: Array  # of what cancels in the slope


class Family(NamedTuple):
    """`expected` is Fisher's information by row, None where it is the curvature: standard errors
    come from it. `start` gives a site's part of the normal equations of a first guess."""

    name: str
    link: str
    like: str  # the family with the same outcomes
    terms: Callable[[Array, Array], RowTerms]  # of z, Y
    mean: Callable[[Array], Array]
    inverse: Callable[[Array], Array]  # of the mean, for one row
    variance: Callable[[Array], Array]  # at the means, n by k by k
    least: Callable[[Array], Array]
    constant: Callable[[Array, Array], Array]
    likelihood: Likelihood
    expected: Callable[[Array], Array] | None = None
    bend: Callable[[Array, Array], Array] | None = None  # c of `_proofs`; None where it is 1
    unproven: str = ""  # why no error is certified
    start: Callable[[Any], Array] = lambda rows: np.zeros(0)
    # by row, what `start` multiplies with products and with columns; with a second argument, of
    # other rows, if the first ones had started
    starts: Callable[..., tuple[Array, Array]] | None = None
    fits: bool = False  # the start is a fit of the site's own rows
    # parameters beside the columns of X, where those of them begin being the `place`: their names,
    # their values in the pilot, and what then depends on them
    extras: tuple[str, ...] = ()
    origin: tuple[float, ...] = ()
    geometry: Callable[[Any, int], Geometry] = lambda rows, place: Shared(rows.X, rows.offset)
    at: Callable[[Array, int], "Family"] | None = None  # the family at known parameters
    floor: Callable[[Array, Array, int], Array] | None = None  # as `least`, at w
    bare: bool = False  # there is no mean, so that neither X² nor a null deviance is given
    quadratic: bool = False
    dispersed: bool = False  # by Pearson's X²
    nuisance: int = 0  # parameters beside the coefficients that the AIC counts
    theta: float | None = None  # of a negative binomial, where it is known
    firth: bool = False  # with Firth's penalty: half the log-determinant of Fisher's information

    @property
    def canonical(self) -> bool:
        """Plain, with its usual link."""
        return self.name in LOSSES and self.link == CHOICES[self.name][0] and not self.firth

    def penalised(self) -> "Family":
        return self._replace(firth=True, unproven=PENALISED)


def known(name: str) -> str:
    """The family's name, as R or we spell it."""
    plain = str(name).lower().replace(".", "_").replace("-", "_").replace(" ", "_")
    if "~" in plain:
        told = f"the family comes before the formula; got the formula {name!r} as the family. Write"
        raise SpecError(f"{told} FederatedGLM('binomial', {name!r})")
    plain = OTHER_NAMES.get(plain, plain)
    before, bracket, link = str(name).partition("(")
    if bracket and known(before) in CHOICES:  # as in R
        link = link.rstrip(") ").split("=")[-1].strip("\"' ")
        told = f"family {name!r} also names a link. Give both separately: the family"
        raise SpecError(f"{told} {known(before)!r} and <link>", settings={"link": link or None})
    if plain not in CHOICES:
        told = f"family must be one of {', '.join(CHOICES)}; got {name!r}"
        if meant := MODELS.get(plain.removesuffix("_regression")):
            raise SpecError(f"{told}; did you mean {meant!r}?")
        raise SpecError(told + closest(plain, [*CHOICES, *OTHER_NAMES]))
    return plain


def known_link(family: str, link: str | None) -> str:
    links = CHOICES[family]
    if link is None:
        return links[0]
    if link not in links:
        told = f"for family {family}, <link> must be one of {', '.join(links)}; got {link!r}"
        raise SpecError(told, settings={"link": None})
    return link


def ratio_of(family: str, link: str) -> str | None:
    """What e^coefficient is called, where it means anything."""
    if link == "logit":
        return "odds ratio"
    if link == "log":
        return {"binomial": "risk ratio", "quasibinomial": "risk ratio"}.get(
            family, "rate ratio" if family in COUNTS else "ratio of means"
        )
    return None


def family_of(
    name: str, link: str | None = None, theta: float | None = None, classes: Sequence[Any] = ()
) -> Family:
    """`theta` is that of a negative binomial, None where it is estimated; `classes` are those of an
    ordinal outcome, in their order."""
    link = known_link(name, link)
    if name == "ordinal":
        from ._ordinal import ordered

        return ordered(classes)
    if name == "negative_binomial":
        from ._theta import estimated

        return estimated() if theta is None else _counts(theta)
    if name in QUASI:
        base = family_of(QUASI[name], link)
        return base._replace(
            name=name, dispersed=True, likelihood=distributions.none_known, nuisance=0
        )
    if name in LOSSES and link == CHOICES[name][0]:
        return _canonical(name, link, LOSSES[name])
    if name == "binomial" and link in LOSSES_OF_SHARES:
        return _share(link, LOSSES_OF_SHARES[link])
    return _of(DISTRIBUTIONS[name], LINKS[link], PROOFS.get((name, link)))


def _counts(theta: float) -> Family:
    """(y + θ) times the logistic loss of a share y/(y + θ), at z - ln θ: |f'''| <= f'' as there."""

    def curvature(z: Array, y: Array) -> Array:
        return (y + theta) * expit(z - np.log(theta)) * expit(np.log(theta) - z)

    found = _of(distributions.overdispersed_counts(theta), LINKS["log"], Proof(curvature))
    return found._replace(theta=theta)


def _canonical(name: str, link: str, loss: Loss) -> Family:
    def terms(z: Array, Y: Array) -> RowTerms:
        mean = loss.mean(z)
        return RowTerms(loss.value(z, Y), mean - Y, loss.curvature(mean), abs(mean) + abs(Y))

    outcome = DISTRIBUTIONS.get(name, distributions.BINOMIAL)
    return Family(
        name, link, name, terms, loss.mean, loss.inverse, loss.curvature, loss.least,
        loss.constant, outcome.likelihood,
        start=STARTS.get(name, lambda rows: np.zeros(0)), starts=BY_ROW.get(name),
        fits=name == "binomial",
        quadratic=loss.quadratic, dispersed=outcome.dispersed, nuisance=outcome.nuisance,
    )  # fmt: skip


def _of(outcome: Distribution, link: MeanLink, proof: Proof | None) -> Family:
    """The loss as a function of the mean; beyond what the link allows it is enormous."""

    def inside(z: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            ok = link.valid(z) & outcome.valid(link.mean(z))
        return np.where(ok, z, link.inside), ok

    def terms(z: Array, Y: Array) -> RowTerms:
        (t, ok), y = inside(z[:, 0]), Y[:, 0]
        m, d = link.mean(t), link.slope(t)
        V = outcome.variance(m)
        C = _observed(outcome, link, t, y) if proof is None else proof.curvature(t, y)
        by_row = (outcome.loss(m, y), d * (m - y) / V, C, abs(d) * (abs(m) + abs(y)) / V)
        value, slope, C, size = (np.where(ok, x, o) for x, o in zip(by_row, _BEYOND, strict=True))
        return RowTerms(value, slope[:, None], C[:, None, None], size[:, None])

    def expected(z: Array) -> Array:
        t, ok = inside(z[:, 0])
        F = link.slope(t) ** 2 / outcome.variance(link.mean(t))
        return np.where(ok, F, 1.0)[:, None, None]

    own = None if proof is None else proof.bend
    bend = own and (lambda z, Y: own(inside(z[:, 0])[0], Y[:, 0])[:, None])
    return Family(
        outcome.name, link.name, outcome.name, terms, link.mean, link.inverse,
        variance=lambda mean: outcome.variance(mean)[:, :, None],
        least=lambda Y: outcome.least(Y[:, 0]),
        constant=lambda Y, s: outcome.constant(Y[:, 0], s),
        likelihood=outcome.likelihood,
        expected=expected,
        bend=bend,
        unproven=SEVERAL if proof is None else "",
        start=lambda rows: normal_equations(rows.X, *_reweighted(outcome, link, rows)),
        starts=lambda rows, of=None: _reweighted(outcome, link, rows if of is None else of),
        dispersed=outcome.dispersed, nuisance=outcome.nuisance,
    )  # fmt: skip


_BEYOND = (OUTSIDE, 0.0, 1.0, 0.0)  # value, slope, curvature and size where z has no mean


def _observed(outcome: Distribution, link: MeanLink, z: Array, y: Array) -> Array:
    m, d, V = link.mean(z), link.slope(z), outcome.variance(link.mean(z))
    return d**2 / V + (m - y) * (link.bend(z) / V - d**2 * outcome.slope(m) / V**2)


def _share(name: str, share: Share) -> Family:
    """A binomial family from the losses of 0 and 1, which keep their digits far from z = 0."""
    link = LOG_OF_SHARE if name == "log" else LINKS[name]
    whole = _of(distributions.BINOMIAL, link, None)

    def terms(z: Array, Y: Array) -> RowTerms:
        ok, y = link.valid(z[:, 0]), Y[:, 0]
        t = np.where(ok, z[:, 0], link.inside)
        one, zero = share.one(t), share.zero(t)
        value, slope, C = (y * a + (1 - y) * b for a, b in zip(one, zero, strict=True))
        size = y * abs(one.slope) + (1 - y) * abs(zero.slope)
        by_row = zip((value, slope, C, size), _BEYOND, strict=True)
        value, slope, C, size = (np.where(ok, x, o) for x, o in by_row)
        return RowTerms(value, slope[:, None], C[:, None, None], size[:, None])

    def expected(z: Array) -> Array:
        ok = link.valid(z[:, 0])
        t = np.where(ok, z[:, 0], link.inside)
        return np.where(ok, -share.one(t).slope * share.zero(t).slope, 1.0)[:, None, None]

    def bend(z: Array, Y: Array) -> Array:
        t = np.where(link.valid(z[:, 0]), z[:, 0], link.inside)
        return share.bend(t, Y[:, 0])[:, None]

    return whole._replace(terms=terms, expected=expected, bend=bend, unproven="")


def _reweighted(outcome: Distribution, link: MeanLink, rows: Any) -> tuple[Array, Array]:
    """The first step of R's glm, from means guessed by row."""
    _, Y, s, o = rows
    y = Y[:, 0]
    mean = outcome.guess(y, s)
    z = link.inverse(mean)
    d = link.slope(z)
    weight = s * d**2 / outcome.variance(mean)
    return weight, weight * (z - o + (y - mean) / d)


def _counts_start(rows: Any, of: Any = None) -> tuple[Array, Array]:
    """Of a poisson model: each mean is guessed as half the row's count and half its site's."""
    _, Y, s, o = rows
    each = max(s @ Y[:, 0], 0.5) / (s @ np.exp(o))
    _, Y, s, o = rows if of is None else of
    mean = (Y[:, 0] + np.exp(o) * each) / 2
    return s * mean, s * (mean * (np.log(mean) - o) + Y[:, 0] - mean)


def normal_equations(X: Array, weight: Array, target: Array) -> Array:
    """The upper triangle of A, and b."""
    A = X.T @ (weight[:, None] * X)
    return np.concatenate([A[np.triu_indices(len(A))], X.T @ target])


STARTS = {
    "poisson": lambda rows: normal_equations(rows.X, *_counts_start(rows)),
    "binomial": shares_start,
}
BY_ROW = {"poisson": _counts_start, "binomial": first_guess}
