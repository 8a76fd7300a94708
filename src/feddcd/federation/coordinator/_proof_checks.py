"""A site's part of training's certificate: do its numbers fit together? If not, it is refused."""

import math

import numpy as np

from ... import tree
from ..._errors import Refused
from ..._types import Params
from ...measure import Tangent
from ..training_wire import CertificatePart

ROUNDING = 4096  # units in the last place of what was added up


def check_proof(
    client: str, proof: CertificatePart, w: Params, alpha: float, at_least_zero: bool
) -> None:
    """A site's part of the certificate. With α known, value and slope at the model w give the
    tangent there, and no tangent of a convex f is above f at w. `at_least_zero` is the loss."""
    flat = np.concatenate([np.ravel(x) for x in tree.flatten(w).values()]).astype(float)
    unit = float(np.finfo(np.asarray(proof.value).dtype).eps)
    value, square = float(proof.value), alpha * float(flat @ flat) / 2
    if at_least_zero and value < square - ROUNDING * unit * (abs(value) + square):
        raise Refused(
            f"{client}: the numbers for the certificate cannot be right, because the objective "
            "is below its lowest possible value"
        )
    for tangent in (proof.at_model, proof.at_own):
        if not math.isclose(float(tangent.alpha), alpha, rel_tol=64 * unit):
            raise Refused(
                f"{client}: the curvature in the certificate is not the curvature that all "
                "sites agreed on"
            )
        height, size = _height(tangent, flat)
        slack = ROUNDING * unit * (size + abs(value) + 2 * square)
        if height + square > value + slack:
            raise Refused(
                f"{client}: the numbers for the certificate cannot be right, because a tangent "
                "of the objective is above the objective"
            )
        if tangent is proof.at_model and height + square < value - slack:
            raise Refused(
                f"{client}: the numbers for the certificate cannot be right, because the "
                "objective and its tangent differ at the model"
            )


def _height(tangent: Tangent, w: np.ndarray) -> tuple[float, float]:
    """constant - <slope, w>, and what was added up for it."""
    slope = np.concatenate([np.ravel(x) for x in tree.flatten(tangent.slope).values()])
    slope, constant = slope.astype(float), float(tangent.constant)
    size = abs(constant) + float(np.abs(slope) @ np.abs(w))
    said = float(tangent.size)
    return constant - float(slope @ w), size + min(max(said, 0.0), 1e3 * size)


def check_score(client: str, score: float) -> None:
    if not 0 <= score <= 1 + 1e-5:
        raise Refused(f"{client}: the accuracy is not between 0 and 1")
