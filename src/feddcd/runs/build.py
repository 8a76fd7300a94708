"""From a spec to the objects that run."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._errors import SpecError
from .._types import Params
from ..algorithms import AbstractAlgorithm, MinibatchSGD
from ..data import Dataset, load, partition
from ..data.federate import Federated, federate
from ..participation import (
    AbstractParticipation,
    Available,
    Everyone,
    ImportanceSubset,
    Lossy,
    UniformSubset,
    check_tau,
)
from ..problems import MLP, Architecture, Linear
from ..simulator.simulate import Federation, federation
from .given import Given, start_of
from .methods import check_names, make_algorithm
from .spec import Spec


class Built(NamedTuple):
    federation: Federation
    federated: Federated
    N: int
    tau: int


NOTHING = Given()


def build(spec: Spec, given: Given = NOTHING) -> Built:
    """Everything a run needs; what is given counts in place of what the spec names."""
    given.check(spec)
    named = given.named(spec)
    check_names(named)
    federated = _federate(spec, given)
    N = len(federated.problem.mu)
    participation = make_participation(spec, N, federated)
    algorithm = given.algorithm
    if algorithm is None:
        _check_saga(spec, federated)
        algorithm = make_algorithm(named, N, participation.tau, _bounded(federated, given))
    _check_rate(algorithm, federated)
    fed = federation(
        algorithm, federated.problem, participation, seed=spec.seed, test=federated.test
    )
    _check_weights(fed)
    return Built(fed, federated, N, participation.tau)


def _federate(spec: Spec, given: Given) -> Federated:
    if given.problem is not None:
        problem = jax.tree.map(jnp.asarray, given.problem)
        return Federated(problem, None, start_of(problem, given.w), None)
    data, parts = given.data, given.parts
    if data is None:
        data = load_data(spec)
    if parts is None:
        parts = partition(
            data.y, spec.partition, spec.clients, seed=spec.seed, groups=data.groups, X=data.X
        )
    else:
        check_parts(parts, len(data.y))
    federated = federate(
        data, parts, model=given.model or spec.model, l2=spec.l2, weighting=spec.weighting,
        dtype=choose_dtype(spec, given), seed=spec.seed,
    )  # fmt: skip
    return federated if given.w is None else federated._replace(w=_start(given.w, federated.w))


def _start(w: Params, like: Params) -> Params:
    shapes = lambda w: (jax.tree.structure(w), [np.shape(x) for x in jax.tree.leaves(w)])
    if shapes(w) != shapes(like):
        raise SpecError(f"w should look like {jax.tree.map(np.shape, like)}, the model's start")
    return jax.tree.map(lambda x, y: jnp.asarray(x, y.dtype), w, like)


def _bounded(federated: Federated, given: Given) -> Federated:
    """With a bound on the curvature where a given model has none: the solvers ask for a rate in
    that model's name."""
    if not given.own_model:
        return federated
    beta = jnp.nan_to_num(federated.problem.loss_beta, posinf=0.0)
    problem = eqx.tree_at(lambda f: f.loss_beta, federated.problem, beta)
    return federated._replace(problem=problem)


def _check_saga(spec: Spec, federated: Federated) -> None:
    kind = type(federated.problem)
    if spec.settings.get("solver") == "saga" and kind not in (Linear, MLP):
        raise SpecError(f"saga works with linear models, not {kind.__name__}: use svrg or adam")


def _check_rate(algorithm: AbstractAlgorithm, federated: Federated) -> None:
    """1/β would be a step of no length."""
    asks = isinstance(algorithm, MinibatchSGD) and algorithm.lr is None
    if asks and not np.isfinite(federated.problem.loss_beta).all():
        raise SpecError(
            f"{type(federated.problem).__name__} has no bound on its curvature here: give lr"
        )


def _check_weights(fed: Federation) -> None:
    weights = np.asarray(fed.weights)
    odd = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(odd):
        raise SpecError(
            f"{type(fed.algorithm).__name__} weighs client {odd[0]} with {weights[odd[0]]:g}, and "
            "needs a finite weight > 0: a dual method weighs clients with their strong convexity, "
            "so it needs l2 > 0 or loss_alpha > 0"
        )


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


def choose_dtype(spec: Spec, given: Given) -> type:
    """What the run computes in: as the spec says, or else as a given problem has it."""
    if given.problem is not None:
        return np.float64 if np.asarray(given.problem.mu).dtype == np.float64 else np.float32
    if spec.dtype != "auto":
        return np.float64 if spec.dtype == "float64" else np.float32
    return np.float32 if isinstance(given.model, Architecture) else default_dtype(spec)


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
