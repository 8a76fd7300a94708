"""Models that have no unique finite estimate, found and named by column."""

from collections.abc import Sequence

import numpy as np

from .frame import INTERCEPT
from .points import Model
from .site import Moments

DEPENDENT = 1e-11  # what is left of a column's square when the earlier ones are taken out


def check_collinear(H: np.ndarray, model: Model) -> None:
    """Refuses a column that is a combination of earlier ones and is not penalised.

    The Hessian at w = 0 has the null space of sum s x x', be there an offset or not."""
    G, names = H[:: model.k, :: model.k], model.names
    kept: list[int] = []
    L = np.zeros_like(G)
    for k in range(len(G)):
        if G[k, k] == 0:
            raise ValueError(f"the column {names[k]} is 0 in every row")
        r = np.linalg.solve(L[np.ix_(kept, kept)], G[kept, k]) if kept else np.zeros(0)
        left = G[k, k] - r @ r
        if left <= DEPENDENT * G[k, k]:
            b = np.linalg.solve(L[np.ix_(kept, kept)].T, r)
            raise ValueError(_dependent(names[k], [names[j] for j in kept], b))
        L[k, kept], L[k, k] = r, np.sqrt(left)
        kept.append(k)


def check_rows(model: Model, sums: Moments) -> None:
    """Refuses least squares without a row to spare for the dispersion."""
    n, p = int(sums.n), model.p
    if n <= p and model.quadratic:
        raise ValueError(f"{p} coefficients need more than {p} rows, got {n}")


def check_outcome(model: Model, sums: Moments) -> None:
    """Refuses an outcome that is the same in every row of every site."""
    share = np.atleast_1d(sums.y) / float(sums.weight)
    if model.family == "binomial" and share[0] in (0.0, 1.0):
        raise ValueError(f"y is {share[0]:g} in every row: binomial needs both 0 and 1")
    if model.family == "poisson" and share[0] == 0:
        raise ValueError("y is 0 in every row: no finite model fits it")
    if model.family == "multinomial" and (np.any(share == 0) or share.sum() == 1):
        raise ValueError("a class that was declared is at no site")


def _dependent(name: str, earlier: Sequence[str], b: np.ndarray) -> str:
    heavy = np.flatnonzero(np.abs(b) > 1e-4 * np.abs(b).max())
    on = ", ".join(earlier[int(j)] for j in heavy[:12]) + (", ..." if len(heavy) > 12 else "")
    return (
        f"the column {name} is a combination of {on}: the data cannot tell their effects apart; "
        f"leave one out, or give it l2 > 0"
    )


def separation(direction: np.ndarray, names: Sequence[str], family: str) -> str:
    """The message for a likelihood that keeps rising along a direction (d by k, scaled)."""
    size = np.abs(direction).max(1)
    if len(size) > 1:  # a constant tells no outcomes apart
        size = np.where([name == INTERCEPT for name in names], 0.0, size)
    heavy = [int(j) for j in np.argsort(-size) if size[j] > 0.1 * size.max()]
    what = "counts of 0" if family == "poisson" else "outcomes"
    return (
        f"separation: {', '.join(names[j] for j in heavy[:8])} "
        f"predict{'s' if len(heavy) == 1 else ''} some {what} perfectly, "
        f"so that the estimate runs to infinity; leave out, merge levels, or give l2 > 0"
    )
