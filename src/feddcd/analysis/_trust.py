"""Whether a site's answers can be true: beside each other, and beside what any rows would give.

Nobody can see from sums whether the rows behind them exist. But sums over rows obey inequalities,
and a site that breaks one is wrong, whatever its rows are: a Hessian is positive, a gradient is no
longer than curvature and residuals allow, bins hold no more rows than there are, and a loss with a
curvature that changes by at most e^m has values and gradients that fit together at two points. All
of it holds for a sum over sites, too, so the same is asked of sums where nothing else is known.
A liar can still invent rows with numbers that fit together. `_influence` says what they move.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError
from . import _schema
from ._binning import RESIDUALS
from ._model import Model, model_for
from ._sums import Answer, DesignRows, Moments, PointQuestion, read_answer, square
from ._trust_curves import check_point
from ._trust_moments import Known, check_again, check_moments, check_offer
from ._trust_pairs import check_pair
from .plan import RegressionPlan
from .protocol import Agreement, Blocks, ColumnsOffer

LARGEST = 1e120  # of a moment: beyond it squares overflow
TOO_LARGE = (
    "a sum of the site is too large, or is not a number. Look for columns with very large values. "
    "A common reason is an offset that is not a logarithm: with the link 'log', write "
    "offset(log(days)) instead of offset(days)"
)
KEPT = 3  # points of a site beside its pilot


class Said(NamedTuple):
    """A site's answer at a point."""

    asked: PointQuestion
    answer: Answer
    H: np.ndarray  # p by p


class TableTrust:
    """All that sites said in one talk; `hear` refuses what cannot be true."""

    def __init__(
        self,
        plan: RegressionPlan,
        cohort: Agreement,
        offers: Mapping[str, ColumnsOffer] | None = None,
    ):
        self.model, self.plan, self.cohort = model_for(plan, cohort), plan, cohort
        self.design = _schema.design(plan, cohort)
        self.offers = dict(offers or {})
        self._known: dict[str, Known] = {}
        self._said: dict[str, list[Said]] = {}
        self._start = _start_size(self.model)

    def hear(self, site: str, asked: PointQuestion, blocks: Blocks) -> None:
        """DataError where the answer of a site, or of all together, cannot be true."""
        said = read_answer(blocks)
        self._check_shapes(asked, said)
        H = square(said.H, self.model.p)
        if said.moments is not None:
            self._hear_pilot(site, asked, said, H)
        elif site not in self._known:
            raise DataError("the site did not send its moments (sums over its rows)")
        now, known = Said(asked, said, H), self._known[site]
        with np.errstate(all="ignore"):  # far from any optimum numbers may be of any size
            check_point(known, asked, said, H, self.plan.covariance)
            for then in self._said[site]:
                check_pair(known, then, now)
        self._said[site] = [*self._said[site][:1], *self._said[site][1:][1 - KEPT :], now]

    def _hear_pilot(self, site: str, asked: PointQuestion, said: Answer, H: np.ndarray) -> None:
        moments = given(said.moments)
        raw = not asked.basis.size
        late = not self.model.loss.extras and asked.w.any()  # asked where the others were then
        at_first = None if late else H
        known = Known.of(self.model, self.plan, self.design, moments, at_first, raw)
        own = None
        if self.model.effects and raw and site in self.cohort.sites:
            names = self.model.names
            own = np.array([n == f"site[{site}]" for n in names], float)
        check_moments(known, said, H, own)
        if raw and site in self.offers:
            check_offer(known, self.offers[site], self.plan, self.cohort)
        if site in self._known and not raw:
            check_again(self._known[site].moments, moments, asked.basis)
        self._known[site], self._said[site] = known, []

    def _check_shapes(self, asked: PointQuestion, said: Answer) -> None:
        wanted = self._shapes(asked)
        parts: dict[str, Any] = {k: v for k, v in said._asdict().items() if k != "moments"}
        if said.moments is not None:
            parts |= {f"moments.{k}": v for k, v in said.moments._asdict().items()}
        for name, part in parts.items():
            if name == "own" or (part is None and name not in wanted):
                continue
            if part is None or name not in wanted or part.shape != wanted[name]:
                raise DataError(f"{name} has a wrong shape")
            if name.startswith("moments.") and np.isnan(part).any():
                raise DataError(TOO_LARGE)
            if name.startswith("moments.") and not (np.abs(part) <= LARGEST).all():
                raise DataError(f"{name} contains a number that is larger than {LARGEST:g}")
        missing = [name for name in wanted if name not in parts]
        if missing:
            raise DataError(f"{missing[0]} is missing")
        self._check_own(asked, said.own)

    def _check_own(self, asked: PointQuestion, own: np.ndarray) -> None:
        """It is shown beside the table and enters nothing."""
        sizes = {(0,), (1,), (2 * self.model.p,)} if asked.own.size else {(0,)}
        if own.shape not in sizes or not (np.abs(own) <= LARGEST).all():
            raise DataError("own has a wrong shape")
        if own.size > 1 and np.any(own[self.model.p :] < 0):
            raise DataError("the site's own estimate has a standard error below zero")

    def _shapes(self, asked: PointQuestion) -> dict[str, tuple[int, ...]]:
        model, cells = self.model, len(asked.edges) + 1 if asked.edges.size else 0
        d, k, p, loss = len(model.names), model.k, model.p, model.loss
        triangle = (p * (p + 1) // 2,)
        shapes: dict[str, tuple[int, ...]] = {
            "value": (), "g": (p,), "H": triangle, "F": triangle if loss.expected else (0,),
            "floor": () if loss.floor else (0,), "firth": (p if loss.firth else 0,), "size": (p,),
            "M": (), "m": (), "null": (1 + k + k * k,), "bins": (3, cells),
            "residuals": (len(RESIDUALS) + 1 if cells else 0,), "pearson": (),
        }  # fmt: skip
        if asked.pilot:
            moments = {
                "n": (), "weight": (), "x": (d,), "xx": (d,), "y": (k,), "xy": (d, k), "o": (2,),
                "floor": (), "constant": (2,), "start": (self._start,),
            }  # fmt: skip
            shapes |= {f"moments.{name}": shape for name, shape in moments.items()}
        if asked.closing:
            shapes |= {"meat": triangle, "clusters": ()}
        return shapes


def _start_size(model: Model) -> int:
    """As a site with one row would have it."""
    d = len(model.names)
    row = DesignRows(np.zeros((1, d)), np.ones((1, model.k)), np.ones(1), np.zeros(1))
    return len(model.loss.start(row))


def given(moments: Moments | None) -> Moments:
    if moments is None:
        raise DataError("the moments are missing")
    return moments
