"""What FedQN's server and sites keep, and what travels between them."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Int

from .._types import Scalar
from ._coding import Brief, Extra
from ._guard import Caution
from ._metric import Flat, MetricState


class QNDown(NamedTuple):
    x: Flat
    scale: Int[Array, " d"]  # in which changes are coded, as powers of the root of 2
    alone: Bool[Array, ""]  # each site is to find its own minimiser
    opening: Bool[Array, ""]  # nothing is known of the metric yet
    asks: Bool[Array, ""]  # Hessians are asked for,
    start: Bool[Array, ""]  # of this site, if it is new


class QNClient(NamedTuple):
    w: Flat
    g: Flat  # as the server has it
    seen: Bool[Array, ""]
    weight: Scalar


class QNNote(NamedTuple):
    w: Flat
    seen: Bool[Array, ""]


class QNUpload(NamedTuple):
    # b_i; 0 of a site that is new; before there is a scale, φ_i(x); of a minimiser |w - x|²
    bend: Array | Brief
    change: Extra  # D_i of a site that was seen before
    fresh: Extra  # ∇φ_i of a new one
    # the same before there is a scale, each entry as exactly as any other; or a minimiser, less x
    first: Extra
    start: Extra  # the Hessian at x, or its products with random vectors


class QNReminder(NamedTuple):
    """All of it zero for a site that is new."""

    seen: Scalar
    moved: Flat  # x - w_i
    guess: Scalar  # |x - w_i|²_M / 2
    square: Scalar  # |x - w_i|² / 2


class QNServer(NamedTuple):
    x: Flat
    alone: Bool[Array, ""]  # the first round of a large model is still to come
    w: Flat  # sum of w_i over the sites seen, over the weight of all
    g: Flat
    seen: Scalar  # their part of that weight
    started: Bool[Array, ""]
    scale: Int[Array, " d"]
    guard: Caution
    learned: MetricState
    shown: Extra | None  # sum of the Hessians that were sent, where new sites may send theirs later
    differ: Scalar  # how much sites do, as their Hessians say: from 0 to 1
