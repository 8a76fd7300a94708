"""A point that nobody was asked at, and how far it can be from the optimum.

Sites have answered at points w_i that are near each other. The sum of their quadratic models there
has the Hessian H = ΣH_i + P, and its minimum at w. With d_i = w - w_i, S_i² at least the largest
leverage x'H⁻¹x of a row of site i, and ρ_i = S_i|d_i|_H, no Hessian of site i between w_i and w
differs from H_i by more than e^{±ρ_i}. So its gradient at w differs from its model's by at most

    ψ(ρ_i) |d_i|_{H_i},  ψ(ρ) = (e^ρ - 1 - ρ)/ρ,  in the metric H_i⁻¹,

and as the sum of the models' gradients is 0 at w, the true gradient there has

    g'H⁻¹g <= Σ ψ(ρ_i)² |d_i|²_{H_i}.

The Hessian at w differs from H by e^{±ρ} at most, ρ being the largest ρ_i, or -ln(1 - c) with c
the largest eigenvalue of H⁻¹Σ(e^{ρ_i} - 1)H_i. With that the bound of `_points` holds at w. If all
sites have answered at one point, w is Newton's next, and its distance is proven without an
exchange: about half of S times the square of the last decrement.

S_i comes from the site's M_i, with the V that it was asked with: x'H⁻¹x <= κ x'Vx, where κ is the
largest eigenvalue of H⁻¹V⁻¹. The server knows both.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from scipy.linalg import eigh

from ._latest import Latest, Past
from ._model import Model
from ._points import Bound, Point, bound, inverse, penalties, point, solve
from ._sums import Answer, square
from .families import Family

MOST = 1.0  # of a ρ_i: beyond, nothing is proven that is of use
SLACK = 1e-6  # of κ, for the rounding of an inverse
SHARP = 10  # times the tolerance: how exact standard errors have to be, as shares of themselves


def is_provable(loss: Family) -> bool:
    """Whether the above holds: c is 1 for all z, and H is both Hessian and information."""
    other = loss.unproven or loss.bend or loss.expected or loss.extras or loss.firth
    return not (other or loss.quadratic)


def is_sharp(found: Bound, tol: float) -> bool:
    """Whether standard errors from the remembered Hessians are exact enough, too."""
    return found.turn / 2 <= SHARP * tol


def together(
    model: Model, D: np.ndarray, past: Past, near: np.ndarray, null: bool = True
) -> tuple[Point, dict[str, Answer]] | None:
    """The point, and the sites' models there; `near` is where w is counted from. None where some
    were never asked with a V, or the latest questions differ in what is added up as it is: bins
    and, where it still counts, the `null` model."""
    latest = {site: past[site][0] for site in model.sites}
    if not (is_provable(model.loss) and _is_alike(latest.values(), null)):
        return None
    p, E, P = model.p, np.repeat(D, model.k), penalties(model, D)
    own = {site: square(each.answer.H, p) / np.outer(E, E) for site, each in latest.items()}
    H = np.sum(list(own.values()), 0) + np.diag(P)
    way = {site: (near - each.w).reshape(-1) for site, each in latest.items()}
    g = [each.answer.g / E + own[site] @ way[site] for site, each in latest.items()]
    try:
        step = -solve(H, np.sum(g, 0) + P * near.reshape(-1))
    except np.linalg.LinAlgError:
        return None
    d = {site: each + step for site, each in way.items()}
    squares = {site: max(float(x @ own[site] @ x), 0.0) for site, x in d.items()}
    S = widest(model, D, H, latest)
    rho = {site: S[site] * np.sqrt(max(float(x @ H @ x), 0.0)) for site, x in d.items()}
    if not max(rho.values()) < MOST:
        return None
    most, change = max(rho.values()), _change(H, own, rho)
    moved = {site: _moved(each.answer, own[site] @ d[site], d[site], E)
             for site, each in latest.items()}  # fmt: skip
    found = point(model, D, near + step.reshape(near.shape), moved)
    size = np.sqrt(sum(psi(rho[site]) ** 2 * x for site, x in squares.items()))
    above = sum(chi(rho[site]) * x for site, x in squares.items())
    return found._replace(
        value=found.value + above, objective=found.objective + above, slack=2 * above, m=most,
        rounded=False,
        bound=turned(float(size) + found.bound.decrement, max(S.values()), change, most),
    ), moved  # fmt: skip


def expected(decrement: float, S: float) -> Bound:
    """What `together` will prove once all have answered at a point with that decrement."""
    rho = decrement * S
    if not rho < MOST:
        return Bound(decrement, S, np.inf)
    return turned(psi(rho) * decrement, S, rho, rho)


def turned(decrement: float, S: float, change: float, moved: float) -> Bound:
    """From λ and S in the metric of a Hessian that differs by e^{±change} from that of the point;
    r is in that metric, too."""
    more = float(np.exp(change / 2))
    found = bound(more * decrement, more * S)
    return found._replace(r=more * found.r, turned=change, moved=moved)


def widest(
    model: Model, D: np.ndarray, H: np.ndarray, latest: Mapping[str, Latest]
) -> dict[str, float]:
    """S_i, in the metric H."""
    try:
        trace = np.trace(inverse(H)) * np.sum(np.repeat(D, model.k) ** -2.0)
    except np.linalg.LinAlgError:
        return dict.fromkeys(latest, np.inf)
    slack = 1 + SLACK + model.rounding * float(trace)
    metrics = {id(each.metric): each.metric for each in latest.values()}
    kappa = {key: np.inf if A is None else slack * _largest(A, H) for key, A in metrics.items()}
    return {
        site: float(np.sqrt(kappa[id(each.metric)] * each.answer.M))
        for site, each in latest.items()
    }


def _change(H: np.ndarray, own: Mapping[str, np.ndarray], rho: Mapping[str, float]) -> float:
    """The log of how far the Hessian at w can be from H."""
    c = _largest(np.sum([np.expm1(rho[site]) * A for site, A in own.items()], 0), H)
    return min(max(rho.values()), -float(np.log1p(-c)) if c < 1 else np.inf)


def psi(rho: float) -> float:
    return rho / 2 * float(np.exp(rho / 2)) if rho < 1e-4 else float((np.expm1(rho) - rho) / rho)


def chi(rho: float) -> float:
    """Likewise of values: (e^ρ - 1 - ρ - ρ²/2)/ρ²."""
    return rho / 6 * float(np.exp(rho / 2)) if rho < 1e-3 else float((psi(rho) - rho / 2) / rho)


def _largest(A: np.ndarray, H: np.ndarray) -> float:
    """The largest eigenvalue of H⁻¹A."""
    unit = np.sqrt(np.diag(H))
    both, last = (A / np.outer(unit, unit), H / np.outer(unit, unit)), len(H) - 1
    try:
        return float(eigh(*both, eigvals_only=True, subset_by_index=(last, last))[0])
    except (np.linalg.LinAlgError, ValueError):
        return np.inf


def _moved(answer: Answer, bend: np.ndarray, d: np.ndarray, E: np.ndarray) -> Answer:
    value = float(answer.value) + float(answer.g / E @ d) + float(bend @ d) / 2
    return answer._replace(value=np.asarray(value), g=answer.g + bend * E)


def _is_alike(latest: Iterable[Latest], null: bool) -> bool:
    asked = [each.asked for each in latest]
    first = asked[0]
    if first is None:
        return False
    return all(
        each is not None
        and np.array_equal(each.edges, first.edges)
        and (not null or np.array_equal(each.null, first.null))
        for each in asked
    )
