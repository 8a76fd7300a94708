"""From a spec to the objects that run; names and settings are checked by the catalogue's rows."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._errors import SpecError
from .._text import nearest
from .._types import Params
from ..algorithms import AbstractAlgorithm, Given, Method, MinibatchSGD, in_bits
from ..algorithms.catalogue import get_method
from ..data import PARTITIONS, Dataset, load
from ..data.federate import MODELS, WEIGHTINGS, Federated, federate
from ..data.frames import Reading
from ..measure import is_convex
from ..participation import PARTICIPATIONS, AbstractParticipation
from ..problems import MLP, Architecture, Linear, stacks_of, with_stacks
from ..simulator.simulate import Federation, federation
from ..solvers import SOLVERS, Solver
from ._inputs import BITS_SETTING, Inputs, start_of
from ._participants import check_everyone, has_everyone, make_participation
from ._parts import divide
from .auto import AUTO, STAND_IN, choose_method
from .spec import Spec, errors_of

NAMES: dict[str, set[str]] = {
    "model": set(MODELS),
    "weighting": set(WEIGHTINGS),
    "partition": set(PARTITIONS),
    "participation": {name.partition(":")[0] for name in PARTICIPATIONS},
}
WITH_PARAMETER = ("mlp", "dirichlet", "group", "available")


class Built(NamedTuple):
    federation: Federation
    federated: Federated
    N: int
    tau: int
    spec: Spec  # with the method that was chosen, where it was left open
    why: str = ""  # that method
    names: tuple[str, ...] | None = None  # of the clients, where Python or a column has them


NOTHING = Inputs()


def build(spec: Spec, given: Inputs = NOTHING) -> Built:
    """Everything a run needs; what is given counts in place of what the spec names."""
    given.check(spec)
    check_names(given.named(spec))
    federated, names = _federate(spec, given)
    N = len(federated.problem.mu)
    participation = make_participation(spec, N, federated)
    spec, why, algorithm = _method(spec, given, federated, participation)
    fed = federation(
        algorithm, federated.problem, participation, seed=spec.seed, test=federated.test,
        every=spec.eval_every,
    )  # fmt: skip
    _check_weights(fed)
    if fed.mesh is not None:  # no second copy of the data on the first device
        federated = federated._replace(problem=fed.measure.problem)  # pyright: ignore
    return Built(fed, federated, N, participation.tau, spec, why, names)


def check_methods(runs: Mapping[str, tuple[Spec, Inputs]]) -> None:
    """Whether all methods of a comparison can run, before the first one does; all else is equal."""
    spec, given = next(iter(runs.values()))
    with jax.enable_x64(choose_dtype(spec, given) is np.float64):
        federated, _ = _federate(spec, given)
        participation = make_participation(spec, len(federated.problem.mu), federated)
        for label, (spec, given) in runs.items():
            given.check(spec)
            with errors_of(label):
                _method(spec, given, federated, participation)


def _method(
    spec: Spec, given: Inputs, federated: Federated, participation: AbstractParticipation
) -> tuple[Spec, str, AbstractAlgorithm]:
    """As `_settled`, with the method itself."""
    spec, why = _settled(spec, given, federated, participation)
    algorithm, N = given.algorithm, len(federated.problem.mu)
    if algorithm is None:
        algorithm = make_algorithm(
            given.named(spec), N, participation.tau, _bounded(federated, given),
            own=given.problem is not None,
        )  # fmt: skip
    elif (bits := spec.settings.get(BITS_SETTING)) is not None:
        algorithm = in_bits(algorithm, bits, stacks_of(federated.problem)[0], federated.w)
    _check_step(algorithm, federated)
    return spec, why, algorithm


def _settled(
    spec: Spec, given: Inputs, federated: Federated, participation: AbstractParticipation
) -> tuple[Spec, str]:
    """With a method, where `auto` stands for one, and why it was taken."""
    if spec.algorithm != AUTO or given.algorithm is not None:
        return spec, ""
    size = sum(np.size(x) for x in jax.tree.leaves(federated.w))
    choice = choose_method(
        convex=is_convex(federated.problem), l2=spec.l2, size=size,
        everyone=has_everyone(spec, participation.N, participation.tau),
    )  # fmt: skip
    spec = dataclasses.replace(spec, algorithm=choice.algorithm)
    check_names(given.named(spec))
    return spec, choice.why


def _federate(spec: Spec, given: Inputs) -> tuple[Federated, tuple[str, ...] | None]:
    """The clients' problems, and the names of the clients."""
    if given.problem is not None:
        problem = jax.tree.map(jnp.asarray, given.problem)
        return Federated(problem, None, start_of(problem, given.w), None), given.names
    data = load_data(spec) if given.data is None else given.data
    parts, names = divide(spec, data, given)
    federated = federate(
        data, parts, model=given.model or spec.model, l2=spec.l2, weighting=spec.weighting,
        dtype=choose_dtype(spec, given), seed=spec.seed,
    )  # fmt: skip
    if given.w is not None:
        federated = federated._replace(w=_start(given.w, federated.w))
    return federated, names


def _start(w: Params, like: Params) -> Params:
    shapes = lambda w: (jax.tree.structure(w), [np.shape(x) for x in jax.tree.leaves(w)])
    if shapes(w) != shapes(like):
        raise SpecError(
            f"the start w must have the same shapes as the model: {jax.tree.map(np.shape, like)}"
        )
    return jax.tree.map(lambda x, y: jnp.asarray(x, y.dtype), w, like)


def _bounded(federated: Federated, given: Inputs) -> Federated:
    """With a bound on the curvature where a given model has none: the solvers ask for a rate in
    that model's name."""
    if not given.own_model:
        return federated
    bound = lambda f: eqx.tree_at(lambda f: f.loss_beta, f, jnp.nan_to_num(f.loss_beta, posinf=0.0))
    return federated._replace(problem=with_stacks(federated.problem, bound))


def _check_step(algorithm: AbstractAlgorithm, federated: Federated) -> None:
    """1/β would be a step of no length."""
    asks = isinstance(algorithm, MinibatchSGD) and algorithm.lr is None
    if asks and not np.isfinite(federated.problem.loss_beta).all():
        kind = type(stacks_of(federated.problem)[0])
        raise SpecError(
            f"feddcd cannot compute a step size here, because the curvature of {kind.__name__} "
            "has no known bound: give lr"
        )


def _check_weights(fed: Federation) -> None:
    weights = np.asarray(fed.weights)
    odd = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(odd):
        raise SpecError(
            f"{type(fed.algorithm).__name__} gives client {odd[0]} the weight "
            f"{weights[odd[0]]:g}, but a weight must be finite and above 0. A dual method "
            "weights clients by their strong convexity, so set l2 > 0 or loss_alpha > 0"
        )


def load_data(spec: Spec) -> Dataset:
    """The data that the spec names."""
    how = Reading(spec.sep, spec.decimal, spec.encoding, spec.na, spec.sheet)
    return load(
        spec.data, test=spec.test_data, seed=spec.sharing, label=spec.label, group=spec.group,
        how=how,
    )  # fmt: skip


def default_dtype(spec: Spec) -> type:
    return np.float32 if spec.model.startswith("mlp") else np.float64


def choose_dtype(spec: Spec, given: Inputs) -> type:
    """What the run computes in: as the spec says, or else as a given problem has it."""
    if given.problem is not None:
        return np.float64 if np.asarray(given.problem.mu).dtype == np.float64 else np.float32
    if spec.dtype != "auto":
        return np.float64 if spec.dtype == "float64" else np.float32
    return np.float32 if isinstance(given.model, Architecture) else default_dtype(spec)


def check_names(spec: Spec, *, absences: bool = False) -> None:
    """Names, and the settings that each algorithm takes, before any data is read; `absences`
    says that clients may be away."""
    if spec.algorithm == AUTO and absences:
        raise SpecError(
            "a federation needs the name of a method: algorithm = 'auto' works only on one machine"
        )
    if spec.algorithm == AUTO:  # looked at again when the method is chosen
        spec = dataclasses.replace(spec, algorithm=STAND_IN, settings={})
    row = get_method(spec.algorithm.partition(":")[0])
    for kind, known in {"algorithm": {row.name}, **NAMES}.items():
        name, colon, _ = getattr(spec, kind).partition(":")
        if name not in known:
            stem, equals, value = name.partition("=")
            form = f"; write {kind} {stem}:{value}" if equals and stem in WITH_PARAMETER else ""
            raise SpecError(f"unknown {kind} {name!r}{form or nearest(name, known)}")
        if colon and name not in WITH_PARAMETER:
            raise SpecError(f"the {kind} {name!r} has no parameter, got {getattr(spec, kind)!r}")
    if spec.l2 < 0 and row.needs_l2:
        raise SpecError(f"l2 must be a finite number >= 0, got l2={spec.l2:g}")
    if spec.l2 == 0 and row.needs_l2:
        raise SpecError(
            f"the method {spec.algorithm} needs a penalty, because the loss of each client must be "
            "strongly convex: set l2 > 0, got l2=0 (the methods fedqn, fednewton and fedlbfgs also "
            "work with l2=0)"
        )
    if absences and row.needs_everyone:
        raise SpecError(
            f"the method {row.name} needs all sites in every round, but in a federation a site can "
            "be absent: choose another method"
        )
    known = known_settings(spec, row)
    for key in spec.settings:
        if key not in known:
            raise SpecError(
                f"the method {spec.algorithm} has no setting {key!r}{nearest(key, known)}"
            )


def known_settings(spec: Spec, row: Method) -> set[str]:
    """What --set can change of this method, with the local solver that it uses."""
    solver = () if row.solver is None else ("solver", *_solver(spec, row).settings)
    return {BITS_SETTING, *row.settings, *solver}


def make_algorithm(
    spec: Spec, N: int, tau: int, federated: Federated, *, own: bool = False
) -> AbstractAlgorithm:
    """`own` says that the problem was given, and not made with the spec's l2."""
    row = get_method(spec.algorithm)
    settings = {k: row.settings[k](k, v) for k, v in spec.settings.items() if k in row.settings}
    if row.needs_everyone:
        check_everyone(spec, N, tau)
    if row.matrix_up_to is not None:
        _check_size(row, row.matrix_up_to, federated)
    if row.needs_rate:
        _check_rate(spec, federated, settings)
    solver = None if row.solver is None else _make_solver(spec, _solver(spec, row), federated)
    l2 = None if own else spec.l2
    made = row.make(Given(settings, solver, tau, N, federated.w, _is_mlp(spec), l2))
    if BITS_SETTING in row.settings:
        return made
    bits = spec.settings.get(BITS_SETTING, 64)
    return in_bits(made, bits, stacks_of(federated.problem)[0], federated.w)


def _solver(spec: Spec, row: Method) -> Solver:
    usual = row.solver_mlp if row.solver_mlp and _is_mlp(spec) else row.solver
    name = str(spec.settings.get("solver", usual))
    if name not in SOLVERS:
        raise SpecError(f"unknown solver {name!r}{nearest(name, SOLVERS)}")
    return SOLVERS[name]


def _make_solver(spec: Spec, solver: Solver, federated: Federated) -> Any:
    limits = solver.settings
    own = {k: limits[k](k, v) for k, v in spec.settings.items() if k in limits}
    kind = type(stacks_of(federated.problem)[0])
    if solver.linear and not issubclass(kind, Linear):
        model = spec.model if kind is MLP else kind.__name__
        raise SpecError(
            f"the solver saga works only with linear models, not with {model}: use svrg or adam"
        )
    if solver.needs_rate:
        _check_rate(spec, federated, own)
    return solver.make(own)


def _is_mlp(spec: Spec) -> bool:
    return spec.model.startswith("mlp")


def _check_size(row: Method, most: int, federated: Federated) -> None:
    p = sum(x.size for x in jax.tree.leaves(federated.w))
    if p > most:
        raise SpecError(
            f"the method {row.name} keeps a {p} x {p} matrix for each client, and works only with "
            f"at most {most} parameters: use the method pointsaga"
        )


def _check_rate(spec: Spec, federated: Federated, settings: dict[str, Any]) -> None:
    if "lr" not in settings and not np.isfinite(federated.problem.loss_beta).all():
        raise SpecError(
            f"the method {spec.algorithm} cannot choose a step size, because the curvature of the "
            f"model {spec.model} has no known bound: set the step size, for example --set lr=0.01"
        )
