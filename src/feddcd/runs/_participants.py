"""Who takes part in the rounds of a run, from its spec."""

import math

from .._errors import SpecError
from ..data.federate import Federated
from ..participation import (
    AbstractParticipation,
    Available,
    Everyone,
    ImportanceSubset,
    Lossy,
    UniformSubset,
    check_tau,
)
from .spec import PART, Spec


def make_participation(spec: Spec, N: int, federated: Federated) -> AbstractParticipation:
    tau = max(2, math.ceil(N / PART)) if spec.tau is None else spec.tau
    kind, _, argument = spec.participation.partition(":")
    if N < 2:
        raise SpecError(f"a training needs at least 2 clients, got {N}")
    check_tau(tau, N)
    if kind == "everyone" and spec.tau is not None and tau != N:
        raise SpecError(
            f"with <participation>, all {N} clients take part in every round, so <tau> cannot be "
            "used: leave out one of these two settings",
            settings={"participation": "everyone", "tau": tau},
        )
    if kind == "uniform":
        chosen: AbstractParticipation = UniformSubset(N, tau)
    elif kind == "everyone":
        chosen = Everyone(N)
    elif kind == "importance":
        chosen = ImportanceSubset(federated.problem.alpha, tau)
    else:
        chosen = Available(N, _probability(argument, tau / N))
    return Lossy(chosen, spec.loss) if spec.loss > 0 else chosen


def has_everyone(spec: Spec, N: int, tau: int) -> bool:
    """Whether all clients answer in every round."""
    return not _some_away(spec, N, tau) and spec.loss == 0


def _some_away(spec: Spec, N: int, tau: int) -> bool:
    return tau < N or spec.participation.startswith("available")


def check_everyone(spec: Spec, N: int, tau: int) -> None:
    if has_everyone(spec, N, tau):
        return
    away = _some_away(spec, N, tau)
    now, todo, rest = [], [], ", and leave out <tau>" if away and spec.tau is not None else ""
    if away:
        now.append(f"{tau} of {N} clients take part (participation {spec.participation})")
        todo.append("<participation>")
    if spec.loss > 0:
        now.append(f"uploads get lost (loss {spec.loss:g})")
        todo.append("<loss>")
    raise SpecError(
        f"the method {spec.algorithm} needs all clients in every round, but "
        f"{' and '.join(now)}: set {' and '.join(todo)}{rest}",
        settings={"participation": "everyone", "loss": 0, "tau": None},
    )


def _probability(text: str, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        raise SpecError(
            f"the participation 'available:{text}' is not valid; write the probability as a "
            "number, for example available:0.5"
        ) from None
