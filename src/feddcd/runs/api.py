"""`feddcd.run` and `resume`; with `compare` and `repeat`, the whole library in four functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from .._errors import SpecError
from .._types import Params
from ..algorithms import AbstractAlgorithm
from ..problems import AbstractProblem
from . import folder as disk
from ._comparing import compare as compare
from ._comparing import labelled
from ._comparing import repeat as repeat
from ._comparing import usual as usual
from ._diverged import warn_if_diverged
from ._inputs import choose, collect, with_bits
from ._options import check_options
from .auto import unnamed
from .comparison import Repeats
from .result import Result
from .run import Watcher, execute
from .spec import Setting


@overload
def run(data: Any = ..., *, seeds: int, **options: Any) -> Repeats: ...
@overload
def run(
    data: Any = ...,
    *,
    algorithm: str | AbstractAlgorithm | None = ...,
    settings: Mapping[str, Setting] | None = ...,
    bits: int | None = ...,
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
    bits: int | None = None,
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
        data: A name or a path (see `load`), a `Dataset`, a pair (X, y), a data frame with
            `label=...`, or a list or dict with such a pair or frame for each client.
        algorithm: A name from `feddcd list`, or an object. Without an algorithm and without
            settings, feddcd chooses the method, and `summary` says why. With settings other than
            `bits`, the method is FedDCD.
        settings: Settings of the algorithm, by name, as `{"lr": 0.1}`. A setting that is not
            named keeps its default.
        bits: The bits of each number that a client sends: 8, 16, 32 or 64. It is a setting, too,
            but an algorithm object can also have it. If not given: 8 for "fedqn", else 64.
        model: A name ("softmax", "logistic", "ridge", "poisson", "mlp"), a family of losses, or an
            equinox module together with `loss`.
        loss: A function of (model, x, y) that gives the loss of one example; or a number from 0 to
            below 1, the share of uploads that are lost (0).
        score: A function of (model, x, y) that gives the score of one example, larger for a better
            model. Reports show its mean. If not given: the accuracy.
        problem: The objectives of all clients in one object, instead of data and model.
        w: The parameters with which the run starts, in the shape of the model. If not given:
            zeros; a perceptron and your own module start with their own numbers.
        parts: For each client an array with the numbers of its rows, counted from 0, instead of a
            partition.
        names: One name for each client. If not given: the values of the column `group`, or the
            clients have only numbers.
        out: The folder to write; with `resume`, the folder of the run to continue. Without it,
            nothing is written.
        resume: Continue the run in the folder `out`, with the same arguments and perhaps more
            `rounds` or a smaller `target_gap`.
        seeds: The number of runs with different seeds, 1 to 1,000 (see `repeat`). If not given:
            one run.
        watch: A function that gets the new rows after each certificate; if it returns True, the
            run stops.
        options: The fields of `Spec`: partition, clients, tau, l2, weighting, rounds, ...

    Returns:
        A `Result`, with the model, its certificate and one row for each round. With `seeds`, a
            `Repeats`, with medians. If the objective is larger at the end than at the start, Python
            also warns (`DivergedWarning`).

    Raises:
        SpecError: A setting has a wrong name or value; the message says which.
        DataError: The data cannot be read, or contain a value that is not finite.
        FolderError: The folder `out` has another run, or no run to resume.
        Diverged: The model is not finite any more; the message says what can help.

    Examples:
        >>> result = feddcd.run("wine", algorithm="pointsaga", clients=6, rounds=5)
        >>> result.history.rounds, result.certificate.gap >= 0
        (5, True)
    """
    shared: dict[str, Any] = {
        "model": model, "loss": loss, "score": score, "problem": problem, "w": w,
        "parts": parts, "names": names,
    }  # fmt: skip
    check_options(options, run)
    settings = with_bits(settings, bits)
    if algorithm is None:
        algorithm = unnamed(settings)
    if seeds is not None:
        (label,) = labelled([algorithm])
        told = lambda _, progress: watch(progress)
        return repeat(
            data, seeds=seeds, algorithms=[algorithm], settings={label: settings},
            out=out, resume=resume, watch=told, **shared, **options,
        )  # fmt: skip
    spec, given = collect(data, **shared, options=options)
    spec, given = choose(spec, given, algorithm, settings)
    if resume and out is None:
        raise SpecError("resume=True needs the folder of the run: give it with out=...")
    folder = None if out is None else Path(out)
    result = execute(spec, folder=folder, resume=resume, watch=watch, given=given)
    warn_if_diverged(result)
    return result


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
        folder: The folder of the run, which `run` got as `out`.
        data: The same data again, if they were a Python object and not a name or a path.
        rounds: The new largest number of rounds, counted from the start of the run. If not given:
            the number that the run had.
        target_gap: The new gap at which to stop, in the unit of the objective. If not given: the
            gap that the run had.
        algorithm: The same object again, if the method was an object.
        model: The same family or module again, if the model was an object.
        loss: The same function again, if the run had one.
        score: The same function again, if the run had one.
        problem: The same object again, if the run had one.
        w: The same start again, if the run had one.
        parts: The same arrays again, if the run had them.
        names: The same names again, if the run had them.
        watch: As in `run`.

    Returns:
        The `Result` of the whole run, as if it had never stopped.

    Raises:
        FolderError: The folder has no run, its files are damaged, or an object is another one.
        SpecError: `rounds` or `target_gap` has a wrong value.

    Examples:
        >>> wine = dict(algorithm="pointsaga", clients=6, out="runs/wine")
        >>> feddcd.run("wine", rounds=5, **wine).history.rounds
        5
        >>> feddcd.resume("runs/wine", rounds=10).history.rounds
        10
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
    result = execute(spec, folder=folder, resume=True, watch=watch, given=given)
    warn_if_diverged(result)
    return result
