"""What Python gives in place of a name: data, a problem, a model, an algorithm."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from .._errors import FolderError, SpecError
from .._text import plural
from .._types import Params
from ..algorithms import AbstractAlgorithm
from ..data import Dataset
from ..data.federate import model_name
from ..data.given import pool
from ..measure import is_convex
from ..problems import (
    AbstractFamily,
    AbstractProblem,
    Architecture,
    Linear,
    Quadratic,
    Regression,
    Targets,
)
from .spec import Setting, Spec

BITS_SETTING = "bits"  # of every method that sends plain vectors
WITH_PROBLEM = ("tau", "participation", "rounds", "target_gap", "certify_every", "seed")


class Inputs(NamedTuple):
    """None where the name in the spec counts."""

    data: Dataset | None = None
    parts: list[np.ndarray] | None = None
    model: AbstractFamily | Architecture | None = None
    problem: AbstractProblem | None = None
    algorithm: AbstractAlgorithm | None = None
    w: Params | None = None
    names: tuple[str, ...] | None = None

    @property
    def own_model(self) -> bool:
        return self.model is not None or self.problem is not None

    def check(self, spec: Spec) -> None:
        """All that the spec can only name is here."""
        missing = [name for name in spec.given if getattr(self, name) is None]
        if missing:
            raise FolderError(
                f"this run used objects from Python ({' and '.join(missing)}), but the folder of "
                "the run has only the names of these objects. Give the same objects again: "
                f"feddcd.resume(folder, {', '.join(f'{name}=...' for name in missing)})"
            )

    def named(self, spec: Spec) -> Spec:
        """The spec with names that are known in place of the given ones: checks and defaults are
        by name, and those of a perceptron suit whatever is not convex."""
        names: dict[str, Any] = {}
        if self.parts is not None or self.problem is not None:
            names["partition"] = Spec.partition
        if self.algorithm is not None:
            names |= {"algorithm": "mbsgd", "settings": {}}
        if self.model is not None:
            names["model"] = "mlp" if isinstance(self.model, Architecture) else "softmax"
        if self.problem is not None:
            names["model"] = "softmax" if is_convex(self.problem) else "mlp"
            names["l2"] = float(np.min(self.problem.alpha))
        return dataclasses.replace(spec, given=(), **names)


def collect(
    data: Any,
    *,
    problem: AbstractProblem | None,
    model: Any,
    loss: Any,
    score: Callable | None,
    parts: Sequence[np.ndarray] | None,
    w: Params | None,
    names: Sequence[str] | None,
    options: Mapping[str, Any],
) -> tuple[Spec, Inputs]:
    """The spec, with names alone, and the objects; the method is still to be chosen."""
    own = {
        "data": problem is None and not isinstance(data, str | os.PathLike | Dataset),
        "problem": problem is not None,
        "model": problem is None and not isinstance(model, str),
        "parts": parts is not None,
    }
    fields, given = dict(options), Inputs(w=w)
    if problem is not None:
        _check_beside(problem, data, model, score, parts, options)
        fields |= _of_problem(problem)
        given = given._replace(problem=problem)
    else:
        model, loss = _model(model, loss, score)
        more, given = _of_data(data, model, parts, given, fields)
        fields |= more
    if loss is not None:
        fields["loss"] = loss
    given = given._replace(names=_names(names, given))
    return Spec(**fields, given=tuple(name for name, there in own.items() if there)), given


def choose(
    spec: Spec, given: Inputs, algorithm: Any, settings: Mapping[str, Setting] | None
) -> tuple[Spec, Inputs]:
    """The same with this method, by name or as an object."""
    settings = dict(settings or {})
    if isinstance(algorithm, str):
        return dataclasses.replace(spec, algorithm=algorithm, settings=settings), given
    check_method(algorithm)
    name, odd = type(algorithm).__name__, [key for key in settings if key != BITS_SETTING]
    if odd:
        raise SpecError(
            f"{name} is an algorithm object and already has its settings, so leave out "
            f"{', '.join(map(repr, odd))}. You can give only the setting {BITS_SETTING!r}"
        )
    spec = dataclasses.replace(
        spec, algorithm=name, settings=settings, given=(*spec.given, "algorithm")
    )
    return spec, given._replace(algorithm=algorithm)


def with_bits(settings: Mapping[str, Setting] | None, bits: int | None) -> dict[str, Setting]:
    """The settings of a method, with the argument `bits` of `run` and `compare`."""
    return ({} if bits is None else {BITS_SETTING: bits}) | dict(settings or {})


def check_method(algorithm: Any) -> None:
    """Whether it is a name or an object; a class or a function makes objects."""
    if isinstance(algorithm, str | AbstractAlgorithm):
        return
    if isinstance(algorithm, type | FunctionType):
        kind = "class" if isinstance(algorithm, type) else "function"
        name = algorithm.__name__
        raise SpecError(
            f"algorithm is the {kind} {name}, but must be an object: write {name}(...), or "
            f"{name}() if it needs no arguments"
        )
    raise SpecError(
        f"algorithm must be the name of an algorithm or an algorithm object, not {algorithm!r}"
    )


def _model(model: Any, loss: Any, score: Callable | None) -> tuple[Any, float | None]:
    """The model as `federate` takes it, and the share of uploads that are lost."""
    if isinstance(model, type):
        name = model.__name__
        raise SpecError(
            f"model is the class {name}, but model must be an object of this class: write "
            f"{name}(...)"
        )
    if isinstance(model, AbstractFamily):
        _check_family(model)
    if isinstance(model, str | AbstractFamily | Architecture):
        if not callable(loss) and score is None:
            return model, loss
        raise SpecError(
            "leave out the arguments 'loss' and 'score': the model "
            f"{model if isinstance(model, str) else type(model).__name__!r} has its own. You can "
            "give a loss and a score only for a model that is a module of the library equinox. "
            "Both are functions of (model, x, y)"
        )
    if not callable(loss):
        raise SpecError(
            f"model={type(model).__name__}(...) needs a loss: give loss=fn, where fn(model, "
            "x, y) returns the loss of one example as one number"
        )
    return Architecture(model, loss, score), None


def _check_family(family: AbstractFamily) -> None:
    if family.targets not in get_args(Targets):
        told = f"one of the words {', '.join(map(repr, get_args(Targets)))}, not {family.targets!r}"
        raise SpecError(f"{type(family).__name__}.targets must be {told}")
    k = 2 if family.targets == "classes" else 1
    z = jax.ShapeDtypeStruct((3, k), jnp.float32)
    shape = jax.eval_shape(family.value, z, z).shape
    if shape != (3,):
        raise SpecError(
            f"{type(family).__name__}.value(z, y) must return one number for each row: for z "
            f"of shape {(3, k)} the result must have shape (3,), but it has {shape}. Sum "
            "over the last axis"
        )


def _of_data(
    data: Any, model: Any, parts: Sequence[np.ndarray] | None, given: Inputs, fields: Mapping
) -> tuple[dict[str, Any], Inputs]:
    more: dict[str, Any] = {"model": model if isinstance(model, str) else model_name(model)}
    if not isinstance(model, str):
        given = given._replace(model=model)
    if isinstance(data, str | os.PathLike):
        more["data"] = os.fspath(data)
    else:
        frames = {name: fields.get(name) for name in ("label", "group")}
        pooled = pool(data, any_shape=isinstance(model, Architecture), **frames)
        if isinstance(model, Architecture) and pooled.shape is not None:
            given = given._replace(model=model.reshape(pooled.shape))
        if pooled.parts is not None and (parts is not None or "partition" in fields):
            raise SpecError("each client has its own table: leave out 'parts' and 'partition'")
        parts = pooled.parts if parts is None else parts
        given = given._replace(data=pooled.data, names=pooled.names)
        more["data"] = pooled.data.name
    if parts is not None:
        given = given._replace(parts=[np.asarray(part) for part in parts])
        more |= {"clients": len(parts), "partition": "parts"}
    return more, given


def _names(names: Sequence[str] | None, given: Inputs) -> tuple[str, ...] | None:
    if names is None:
        return given.names
    if given.problem is None and given.parts is None:
        told = "you can give names only with a problem, with parts or with a list of tables"
        raise SpecError(f"leave out the argument 'names' (of the clients): {told}")
    N = len(given.parts or ()) if given.problem is None else len(given.problem.mu)
    if len(names) != N:
        raise SpecError(
            f"the argument 'names' has {plural(len(names), 'name')}, but the number of clients is "
            f"{N}: give one name for each client"
        )
    return tuple(map(str, names))


def _check_beside(problem, data, model, score, parts, options: Mapping[str, Any]) -> None:
    """A problem is all of it: data, model, penalty and clients."""
    if not isinstance(problem, AbstractProblem):
        raise SpecError(f"problem must be an AbstractProblem, not {type(problem).__name__}")
    beside = {"data": data != "digits" if isinstance(data, str) else True}
    beside |= {"model": model != "softmax" if isinstance(model, str) else True}
    beside |= {"score": score is not None, "parts": parts is not None}
    odd = [name for name, there in beside.items() if there]
    odd += [name for name in options if name not in WITH_PROBLEM]
    if odd:
        raise SpecError(
            f"{type(problem).__name__} already has its data, clients, model and penalty: "
            f"leave out {', '.join(odd)}"
        )
    shapes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(problem)}
    first = sorted(shape[0] for shape in shapes if shape)
    if np.ndim(problem.mu) != 1 or len(shapes) != 1:
        raise SpecError(
            f"{type(problem).__name__} must contain all N clients: the first axis of each "
            "array must have length N, and mu must have shape (N,). Here, mu has shape "
            f"{np.shape(problem.mu)}, and the first axes have the lengths {first}"
            f"{'. Some arrays are single numbers and have no axis' * (() in shapes)}"
        )


def _of_problem(problem: AbstractProblem) -> dict[str, Any]:
    name, mu = type(problem).__name__, np.asarray(problem.mu)
    return {"data": name, "model": name, "partition": "problem", "clients": len(mu),
            "l2": float(mu.min())}  # fmt: skip


def start_of(problem: AbstractProblem, w: Params | None) -> Params:
    """Where a run of a given problem starts: w, or zeros where their shape is known."""
    dtype = problem.mu.dtype
    if w is not None:
        w = jax.tree.map(lambda x: jnp.asarray(x, dtype), w)
    elif problem.q is not None:
        w = tree.zeros(tree.take(problem.q, 0))
    elif isinstance(problem, Linear | Regression):
        w = jnp.zeros((problem.X.shape[1], problem.Y.shape[-1]), dtype)
    elif isinstance(problem, Quadratic):
        w = jnp.zeros(problem.b.shape[-1], dtype)
    else:
        raise SpecError(
            f"feddcd does not know the shape of the model w in {type(problem).__name__}: give the "
            "model with which the run starts, as w=..."
        )
    value = jax.eval_shape(lambda f, w: tree.take(f, 0)(w), problem, w)
    if value.shape != ():
        raise SpecError(
            f"{type(problem).__name__}.loss(w) must return one number for one client, not an "
            f"array of shape {value.shape}"
        )
    return w
