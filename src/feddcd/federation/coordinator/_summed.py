"""The certificate of training in sums: nobody's part can be looked at, only their sum."""

import math

import jax
import numpy as np

from ..._types import Params
from ...measure import Tangent
from ...sums import ring
from ..terms import Learner, Terms
from ..training_wire import CertificatePart
from ._proof_checks import check_proof, check_score
from ._rounds import NOT_BELOW_ZERO, certified_measures


def summed_measures(
    learner: Learner, terms: Terms, total: CertificatePart, model: Params, rows: list[int]
) -> dict[str, float]:
    """As in the clear, from sums alone; a gap holds what rounding to the ring's grid can hide."""
    N = len(rows)
    if learner.f.convex:
        alpha = N * float(np.asarray(learner.f.alpha).ravel()[0])
        check_proof("all sites", total, model, alpha, terms.model in NOT_BELOW_ZERO)
    if terms.classes is not None:
        check_score("all sites", float(total.score) / sum(rows))
    measures = certified_measures(learner, total, N)
    if "certified_gap" in measures:
        off = max(map(_hidden, (total.at_model, total.at_own), (N, N))) + ring.rounding(N) / N
        measures |= {"certified_gap": measures["certified_gap"] + off, "rounding": off}
    if terms.classes is not None:
        measures["accuracy"] = float(total.score) / sum(rows)
    return measures


def _hidden(total: Tangent, N: int) -> float:
    """How much a lower bound may be too high: each entry of the sums is off by at most δ, so that
    constant - |slope|²/(2α) changes by at most δ + (|slope| √d δ + d δ²/2)/(α - δ) + drop δ/α."""
    off, alpha = ring.rounding(N), float(total.alpha)
    if not alpha > off:
        return math.inf
    slope = np.concatenate([np.ravel(np.asarray(x, float)) for x in jax.tree.leaves(total.slope)])
    size, d = float(np.linalg.norm(slope)), slope.size
    drop = size**2 / (2 * alpha)
    moved = (size * math.sqrt(d) * off + d * off**2 / 2 + drop * off) / (alpha - off)
    return (off + moved) / N
