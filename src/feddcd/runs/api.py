"""`feddcd.run`, `compare` and `repeat`: the whole library in three functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from .._errors import SpecError
from .._types import Params
from ..algorithms import ALGORITHMS, AbstractAlgorithm
from ..problems import AbstractProblem
from . import folder as disk
from ._inputs import choose, collect
from .auto import AUTO
from .build import check_names, load_data
from .comparison import Comparison, Repeats
from .result import Result
from .run import Progress, Watcher, execute
from .spec import Setting, Spec

Watch = Callable[[str, Progress], object]
MOST = 1000  # seeds
Algorithms = Sequence[str | AbstractAlgorithm] | Mapping[str, str | AbstractAlgorithm]


@overload
def run(data: Any = ..., *, seeds: int, **options: Any) -> Repeats: ...
@overload
def run(
    data: Any = ...,
    *,
    algorithm: str | AbstractAlgorithm | None = ...,
    settings: Mapping[str, Setting] | None = ...,
    model: Any = ...,
    loss: float | Callable | None = ...,
    score: Callable | None = ...,
    problem: AbstractProblem | None = ...,
    w: Params | None = ...,
    parts: Sequence[np.ndarray] | None = ...,
    names: Sequence[str] | None = ...,
    out: str | Path | None = ...,
    resume: bool = ...,
    seeds: None = ...,
    watch: Watcher = ...,
    **options: Any,
) -> Result: ...
def run(
    data: Any = "digits",
    *,
    algorithm: str | AbstractAlgorithm | None = None,
    settings: Mapping[str, Setting] | None = None,
    model: Any = "softmax",
    loss: float | Callable | None = None,
    score: Callable | None = None,
    problem: AbstractProblem | None = None,
    w: Params | None = None,
    parts: Sequence[np.ndarray] | None = None,
    names: Sequence[str] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    seeds: int | None = None,
    watch: Watcher = lambda progress: None,
    **options: Any,
) -> Result | Repeats:
    """Train one model over clients and, if it is convex, prove how close it is to the optimum.

    Args:
        data: A name, a path, a `Dataset`, a pair (X, y), a data frame with `label=...`, or a list
            or dict with such a pair or frame for each client.
        algorithm: A name from `feddcd list`, or an object. Without an algorithm and without
            settings, feddcd chooses the method, and `summary` says why.
        settings: Settings of the algorithm, by name.
        model: A name, a family of losses, or an equinox module together with `loss`.
        loss: A function of (model, x, y) for one example; or the share of uploads that are lost.
        score: A function of (model, x, y), larger for a better model; reports show its mean.
        problem: The objectives of all clients in one object, instead of data and model.
        w: Where the run starts.
        parts: The rows of each client, instead of a partition scheme.
        names: The names of the clients.
        out: The folder to write; with `resume`, the folder of the run to continue.
        seeds: The number of runs with different seeds (see `repeat`). The result has medians.
        watch: A function that gets the new rows after each certificate; True stops the run.
        options: The fields of `Spec`: partition, clients, tau, l2, weighting, rounds, ...

    Example: `feddcd.run("digits", algorithm="pointsaga", clients=20, rounds=100)`
    """
    shared: dict[str, Any] = {
        "model": model, "loss": loss, "score": score, "problem": problem, "w": w,
        "parts": parts, "names": names,
    }  # fmt: skip
    if algorithm is None:  # settings without a name are FedDCD's
        algorithm = Spec.algorithm if settings else AUTO
    if seeds is not None:
        (label,) = _labelled([algorithm])
        told = lambda _, progress: watch(progress)
        return repeat(
            data, seeds=seeds, algorithms=[algorithm], settings={label: settings or {}},
            out=out, resume=resume, watch=told, **shared, **options,
        )  # fmt: skip
    spec, given = collect(data, **shared, options=options)
    spec, given = choose(spec, given, algorithm, settings)
    if resume and out is None:
        raise SpecError("resume=True needs the folder of the run: give it with out=...")
    folder = None if out is None else Path(out)
    return execute(spec, folder=folder, resume=resume, watch=watch, given=given)


def resume(
    folder: str | Path,
    data: Any = None,
    *,
    rounds: int | None = None,
    target_gap: float | None = None,
    algorithm: AbstractAlgorithm | None = None,
    model: Any = None,
    loss: Callable | None = None,
    score: Callable | None = None,
    problem: AbstractProblem | None = None,
    w: Params | None = None,
    parts: Sequence[np.ndarray] | None = None,
    names: Sequence[str] | None = None,
    watch: Watcher = lambda progress: None,
) -> Result:
    """Continue a saved run, with more rounds or another target if you give them.

    If the run had Python objects, give the same objects again, with the same arguments as in `run`.
    The folder contains only their names, and a checksum that refuses other objects.

    Args:
        folder: The folder of the run.
        rounds: The new largest number of rounds.
        target_gap: The new gap at which to stop.
    """
    folder = Path(folder)
    spec = disk.read_spec(folder)
    changed = {"rounds": rounds, "target_gap": target_gap}
    spec = replace(spec, **{name: x for name, x in changed.items() if x is not None})
    columns = {name: getattr(spec, name) for name in ("label", "group") if data is not None}
    _, given = collect(
        "digits" if data is None else data, problem=problem,
        model="softmax" if model is None else model, loss=loss, score=score, parts=parts, w=w,
        names=names, options={k: v for k, v in columns.items() if v is not None},
    )  # fmt: skip
    if algorithm is not None:
        given = given._replace(algorithm=algorithm)
    return execute(spec, folder=folder, resume=True, watch=watch, given=given)


@overload
def compare(data: Any = ..., *, seeds: int, **options: Any) -> Repeats: ...
@overload
def compare(
    data: Any = ...,
    *,
    algorithms: Algorithms | None = ...,
    settings: Mapping[str, Mapping[str, Setting]] | None = ...,
    model: Any = ...,
    loss: float | Callable | None = ...,
    score: Callable | None = ...,
    problem: AbstractProblem | None = ...,
    w: Params | None = ...,
    parts: Sequence[np.ndarray] | None = ...,
    names: Sequence[str] | None = ...,
    out: str | Path | None = ...,
    resume: bool = ...,
    seeds: None = ...,
    watch: Watch = ...,
    **options: Any,
) -> Comparison: ...
def compare(
    data: Any = "digits",
    *,
    algorithms: Algorithms | None = None,
    settings: Mapping[str, Mapping[str, Setting]] | None = None,
    model: Any = "softmax",
    loss: float | Callable | None = None,
    score: Callable | None = None,
    problem: AbstractProblem | None = None,
    w: Params | None = None,
    parts: Sequence[np.ndarray] | None = None,
    names: Sequence[str] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    seeds: int | None = None,
    watch: Watch = lambda name, progress: None,
    **options: Any,
) -> Comparison | Repeats:
    """Run several methods on the same clients.

    Args:
        data: As in `run`, like all arguments that are not listed here.
        algorithms: Names and objects, or a dict with a name or an object for each label. If not
            given: the six of `feddcd compare`. An object in a list has the name of its class.
        settings: Settings by label.
        seeds: The number of runs of each method (see `repeat`). The result has medians.
        watch: A function that `compare` calls with the label of a method and its progress.

    Example: `feddcd.compare("digits", algorithms=["feddcd", "fedavg"], rounds=20)`
    """
    shared: dict[str, Any] = {
        "model": model, "loss": loss, "score": score, "problem": problem, "w": w,
        "parts": parts, "names": names,
    }  # fmt: skip
    algorithms = usual() if algorithms is None else algorithms
    if seeds is not None:
        return repeat(
            data, seeds=seeds, algorithms=algorithms, settings=settings, out=out, resume=resume,
            watch=watch, **shared, **options,
        )  # fmt: skip
    settings, methods = settings or {}, _labelled(algorithms)
    odd = [label for label in settings if label not in methods]
    if odd:
        raise SpecError(f"there are settings for {odd}, but only {list(methods)} are compared")
    spec, given = collect(data, **shared, options=options)
    runs = {
        label: choose(spec, given, method, settings.get(label)) for label, method in methods.items()
    }
    for chosen, own in runs.values():
        check_names(own.named(chosen))
    if given.data is None and given.problem is None:
        loaded = load_data(spec)
        runs = {a: (chosen, own._replace(data=loaded)) for a, (chosen, own) in runs.items()}
    results = {}
    for label, (chosen, own) in runs.items():
        folder = None if out is None else Path(out) / label
        results[label] = execute(
            chosen,
            folder=folder,
            resume=resume and folder is not None and (folder / "checkpoint.npz").exists(),
            watch=lambda progress, label=label: watch(label, progress),
            given=own,
            label=label,
        )
        if results[label].summary["status"] == "stopped":
            break
    comparison = Comparison(results)
    if out is not None:
        comparison.write(Path(out))
    return comparison


def usual() -> list[str]:
    """The methods that are compared where nobody names any."""
    return [row.name for row in ALGORITHMS.values() if row.usual]


def _labelled(algorithms: Algorithms) -> dict[str, str | AbstractAlgorithm]:
    """The methods by what they are called, which names their folders, too."""
    if isinstance(algorithms, Mapping):
        methods = dict(algorithms)
    else:
        label = lambda method: method if isinstance(method, str) else type(method).__name__
        methods = {label(method): method for method in algorithms}
    if len(methods) != len(algorithms) or not methods:
        raise SpecError(f"name at least one algorithm, and each only once; got {list(algorithms)}")
    odd = [label for label in methods if not isinstance(label, str) or Path(label).name != label]
    if odd:
        raise SpecError(f"the label {odd[0]!r} cannot be the name of a folder: use letters, digits")
    return methods


def repeat(
    data: Any = "digits",
    *,
    seeds: int = 5,
    seed: int = 0,
    split_seed: int | None = None,
    out: str | Path | None = None,
    watch: Watch = lambda name, progress: None,
    **options: Any,
) -> Repeats:
    """Compare methods over several seeds, with the same split of the rows and the same optimum.

    Args:
        data: As in `run`.
        seeds: Number of seeds, 2 to 1,000.
        seed: The first seed; the others follow it.
        split_seed: The seed of the split. If not given: the first seed.
        out: The folder to write.
        watch: A function that `repeat` calls with the label, the seed and the progress.
        options: As in `compare`.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 2 <= seeds <= MOST:
        raise SpecError(f"need 2 <= seeds <= {MOST}, got seeds={seeds!r}")
    split = seed if split_seed is None else split_seed
    comparisons = {}
    for one in range(seed, seed + seeds):
        told = lambda name, progress, one=one: watch(f"{name} {one}", progress)
        folder = None if out is None else Path(out) / f"seed-{one}"
        comparisons[one] = compare(
            data, seed=one, split_seed=split, out=folder, watch=told, **options
        )
        if any(r.summary["status"] == "stopped" for r in comparisons[one].results.values()):
            break
    repeats = Repeats(comparisons)
    if out is not None:
        repeats.write(Path(out))
    return repeats
