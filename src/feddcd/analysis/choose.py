"""Which method is quickest over a given link: seconds = exchanges x latency + bytes / bandwidth.

Newton sends p²/2 numbers a site and exchange and needs about six exchanges, more when sites are
missing; Point-SAGA sends p numbers and needs about (N + sqrt(N κ)) ln(1/ε) uploads, κ being the
ratio of the largest curvature and the smallest at the pilot's point. Both send two Hessians a site
in any case: for the pilot, and for the standard errors.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import SpecError
from .points import Model

BYTES = 8
EXCHANGES = 6
ACCURACY = 1e-8  # of the objective, for a hundredth of a standard error


class Link(NamedTuple):
    latency: float = 0.1  # seconds an exchange
    bandwidth: float = 1e7  # bytes a second, of the server's line

    def seconds(self, exchanges: Any, moved: Any) -> Any:
        return exchanges * self.latency + moved / self.bandwidth


class Choice(NamedTuple):
    method: str
    reason: str
    predictions: pd.DataFrame


SHOWN = {
    "newton": "each point waits for all sites, and the Hessian is small",
    "newton, remembered": "sites come and go, and their last curvature stands for them",
    "pointsaga": "sending Hessians would cost more than many short rounds",
}


def choose(
    model: Model, H: np.ndarray, link: Link, absent: float, asked: str, saga: bool
) -> Choice:
    """The quickest by its prediction, or the one that is asked for; H is the pilot's Hessian, in
    units of D."""
    table = predictions(model, H, link, absent)
    if asked == "pointsaga" and not saga:
        raise SpecError("algorithm='pointsaga' makes no regression table over a real federation")
    if asked == "pointsaga":
        return Choice(asked, "asked for", table)
    kept = [name for name in table.index if name != "pointsaga" or (asked == "auto" and saga)]
    best = str(table.loc[kept, "seconds"].idxmin())
    row = table.loc[best]
    words = "everyone answers and the Hessian is small" if absent == 0 else SHOWN["newton"]
    words = words if best == "newton" else SHOWN[best]
    reason = f"{words}: {row.exchanges:.0f} exchanges and {row.seconds:.1f} s foretold"
    return Choice(best, reason, table)


def predictions(model: Model, H: np.ndarray, link: Link, absent: float) -> pd.DataFrame:
    N, p = len(model.sites), model.p
    hessian, points = p * (p + 1) / 2, 2 if model.quadratic else EXCHANGES
    again = 1.0 if absent == 0 else 1 + np.log(N) / -np.log(absent)  # until all have answered
    each = N * 2 * (hessian + 4 * p)
    rows = {"newton": (points * again, points * each)}
    if absent > 0:
        moved = points / (1 - absent)
        rows["newton, remembered"] = (moved + 2 * again, (moved + 2) * each)
    values = np.linalg.eigvalsh(H)
    kappa = float(values[-1] / max(values[0], 1e-9 * values[-1]))
    uploads = (N + np.sqrt(N * kappa)) * np.log(1 / ACCURACY)
    rounds = uploads / max(N * (1 - absent), 1.0)
    rows["pointsaga"] = (1 + rounds + again, 2 * each + uploads * 2 * p)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["exchanges", "bytes"])
    table["bytes"] *= BYTES
    table["seconds"] = link.seconds(table["exchanges"], table["bytes"])
    return table.rename_axis("method")
