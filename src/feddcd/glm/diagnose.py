"""Models that have no unique finite estimate, found and named by column."""

from collections.abc import Sequence

import numpy as np

from .sites import column_scale

DEPENDENT = 1e-11  # what is left of a column's square when the earlier ones are taken out


def check_collinear(X, s, penalty, names: Sequence[str]) -> None:
    """Refuses a column that is a combination of earlier ones and is not penalised.

    X'SX has the null space of the Hessian at w = 0, which the first exchange brings."""
    D = column_scale(X, s)
    G = (X / D).T @ (s[:, None] * (X / D)) / s.sum() + np.diag(penalty / D**2 / s.sum())
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
    heavy = [int(j) for j in np.argsort(-size) if size[j] > 0.1 * size.max()]
    what = "counts of 0" if family == "poisson" else "outcomes"
    return (
        f"separation: {', '.join(names[j] for j in heavy[:8])} "
        f"predict{'s' if len(heavy) == 1 else ''} some {what} perfectly, "
        f"so that the estimate runs to infinity; leave out, merge levels, or give l2 > 0"
    )
