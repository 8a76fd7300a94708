"""From a spec to the objects that run."""

import math
from typing import NamedTuple

import numpy as np

from ..algorithms import AbstractAlgorithm
from ..data import Dataset, load, partition
from ..data.federate import Federated, federate
from ..participation import (AbstractParticipation, Available, Everyone, ImportanceSubset, Lossy, UniformSubset, check_tau)
from ..simulator.simulate import Federation, federation
from .methods import check_names, make_algorithm
from .spec import (Spec)
from .._errors import SpecError


class Built(NamedTuple):
    federation: Federation
    federated: Federated
    N: int
    tau: int


def build(
    spec: Spec,
    data: Dataset | None = None,
    parts: list[np.ndarray] | None = None,
    algorithm: AbstractAlgorithm | None = None,
) -> Built:
    """Everything a run needs; data, parts and algorithm override what the spec names."""
    check_names(spec)
    if data is None:
        data = load_data(spec)
    if parts is None:
        parts = partition(
            data.y, spec.partition, spec.clients, seed=spec.seed, groups=data.groups, X=data.X
        )
    else:
        check_parts(parts, len(data.y))
    dtype = {"float32": np.float32, "float64": np.float64}.get(spec.dtype, default_dtype(spec))
    federated = federate(
        data, parts, model=spec.model, l2=spec.l2, weighting=spec.weighting, dtype=dtype,
        seed=spec.seed,
    )  # fmt: skip
    N = len(parts)
    participation = make_participation(spec, N, federated)
    if algorithm is None:
        algorithm = make_algorithm(spec, N, participation.tau, federated)
    fed = federation(
        algorithm, federated.problem, participation, seed=spec.seed, test=federated.test
    )
    return Built(fed, federated, N, participation.tau)


def load_data(spec: Spec) -> Dataset:
    """The data that the spec names."""
    return load(spec.data, test=spec.test_data, seed=spec.seed, label=spec.label, group=spec.group)


def check_parts(parts: list[np.ndarray], rows: int) -> None:
    """Every row is with exactly one client, and no client is empty."""
    for i, part in enumerate(parts):
        if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu":
            raise SpecError(
                f"parts[{i}] should be a list of row numbers, at least one; got "
                f"{part.dtype} of shape {part.shape}"
            )
        if not 0 <= part.min() <= part.max() < rows:
            odd = part[(part < 0) | (part >= rows)][0]
            raise SpecError(f"parts[{i}] has row {odd}, the data have rows 0 to {rows - 1}")
    held = np.bincount(np.concatenate([np.zeros(0, int), *parts]), minlength=rows)
    if held.max() > 1:
        raise SpecError(f"row {held.argmax()} is in parts {held.max()} times, need once")
    if held.min() < 1:
        raise SpecError(f"row {held.argmin()} is in no part ({np.sum(held == 0)} such rows)")


def default_dtype(spec: Spec) -> type:
    return np.float32 if spec.model.startswith("mlp") else np.float64


def make_participation(spec: Spec, N: int, federated: Federated) -> AbstractParticipation:
    tau = max(2, math.ceil(N / 4)) if spec.tau is None else spec.tau
    kind, _, argument = spec.participation.partition(":")
    if N < 2:
        raise SpecError(f"need at least 2 clients, got N={N}")
    check_tau(tau, N)
    if kind == "uniform":
        chosen: AbstractParticipation = UniformSubset(N, tau)
    elif kind == "everyone":
        chosen = Everyone(N)
    elif kind == "importance":
        chosen = ImportanceSubset(federated.problem.alpha, tau)
    else:
        chosen = Available(N, _probability(argument, tau / N))
    return Lossy(chosen, spec.loss) if spec.loss > 0 else chosen


def _probability(text: str, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        raise SpecError(f"participation looks like available:0.5, not available:{text}") from None
