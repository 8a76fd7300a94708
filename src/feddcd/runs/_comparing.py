"""`feddcd.compare` and `repeat`: several methods on the same clients, once or for each seed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from .._errors import SpecError
from .._text import listed
from .._types import Params
from ..algorithms import ALGORITHMS, AbstractAlgorithm
from ..problems import AbstractProblem
from ._diverged import warn_if_diverged
from ._inputs import check_method, choose, collect, with_bits
from ._options import check_options
from .build import check_methods, check_names, load_data
from .comparison import Comparison, Repeats
from .folder import check_longer
from .interrupt import patient_interrupt
from .run import Progress, execute
from .spec import Setting, Spec

Watch = Callable[[str, Progress], object]
MOST = 1000  # seeds
Algorithm = str | AbstractAlgorithm
Algorithms = Algorithm | Sequence[Algorithm] | Mapping[str, Algorithm]


@overload
def compare(data: Any = ..., *, seeds: int, **options: Any) -> Repeats: ...
@overload
def compare(
    data: Any = ...,
    *,
    algorithms: Algorithms | None = ...,
    settings: Mapping[str, Mapping[str, Setting]] | None = ...,
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
    watch: Watch = ...,
    **options: Any,
) -> Comparison: ...
def compare(
    data: Any = "digits",
    *,
    algorithms: Algorithms | None = None,
    settings: Mapping[str, Mapping[str, Setting]] | None = None,
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
    watch: Watch = lambda name, progress: None,
    **options: Any,
) -> Comparison | Repeats:
    """Run several methods on the same clients.

    Args:
        data: As in `run`: a name, a path or a Python object.
        algorithms: Names and objects, or a dict with a name or an object for each label, or one
            name or object alone. If not given: the six of `feddcd compare`. An object in a list
            has the name of its class.
        settings: For each label, settings of this method by name, as `{"fedavg": {"lr": 0.1}}`.
        bits: The bits of each number that a client sends, the same for all methods: 8, 16, 32 or
            64. If not given: 8 for FedQN, and 64 for all other methods.
        model: As in `run`, the same for all methods.
        loss: As in `run`: a function, or the share of uploads that are lost.
        score: As in `run`, the same for all methods.
        problem: As in `run`, instead of data and model.
        w: As in `run`: the start of every method.
        parts: As in `run`: the rows of each client.
        names: As in `run`: one name for each client.
        out: The folder to write, with one folder in it for each label. Without it, nothing is
            written.
        resume: Continue the runs in the folder `out`. A method that has no run there starts.
        seeds: The number of runs of each method, 1 to 1,000 (see `repeat`). If not given: one run.
        watch: A function that `compare` calls with the label of a method and its progress. If it
            returns True, this run stops, and the methods after it do not start.
        options: The fields of `Spec`, the same for all methods.

    Returns:
        A `Comparison`, with one `Result` for each label. With `seeds`, a `Repeats`, with medians.

    Raises:
        SpecError: A method is unknown or named twice, or a setting has a wrong name or value.
        DataError: The data cannot be read, or contain a value that is not finite.
        FolderError: The folder `out` has other runs.

    Examples:
        >>> race = feddcd.compare("wine", algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
        >>> list(race)
        ['pointsaga', 'mbsgd']
        >>> race["pointsaga"].history.rounds
        5
    """
    shared: dict[str, Any] = {
        "model": model, "loss": loss, "score": score, "problem": problem, "w": w,
        "parts": parts, "names": names,
    }  # fmt: skip
    check_options(options, compare)
    algorithms = usual() if algorithms is None else algorithms
    if seeds is not None:
        return repeat(
            data, seeds=seeds, algorithms=algorithms, settings=settings, bits=bits, out=out,
            resume=resume, watch=watch, **shared, **options,
        )  # fmt: skip
    settings, methods = settings or {}, labelled(algorithms)
    odd = [label for label in settings if label not in methods]
    if odd:
        raise SpecError(
            f"settings has an entry for {listed(odd)}, but this comparison runs only "
            f"{listed(methods)}"
        )
    spec, given = collect(data, **shared, options=options)
    if resume and out is not None:
        check_longer(Path(out), spec.rounds)
    runs = {
        label: choose(spec, given, method, with_bits(settings.get(label), bits))
        for label, method in methods.items()
    }
    for chosen, own in runs.values():
        check_names(own.named(chosen))
    if given.data is None and given.problem is None:
        loaded = load_data(spec)
        runs = {a: (chosen, own._replace(data=loaded)) for a, (chosen, own) in runs.items()}
    if len(runs) > 1:
        check_methods(runs)
    results = {}
    with patient_interrupt() as stop:
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
            warn_if_diverged(results[label])
            if results[label].summary["status"] == "stopped" or stop():
                break
        comparison = Comparison(results)
        if out is not None:
            comparison.write(Path(out))
    return comparison


def usual() -> list[str]:
    """The methods that are compared where nobody names any."""
    return [row.name for row in ALGORITHMS.values() if row.usual]


def labelled(algorithms: Algorithms) -> dict[str, str | AbstractAlgorithm]:
    """The methods by what they are called, which names their folders, too."""
    if isinstance(algorithms, str) or not isinstance(algorithms, Iterable):  # without its list
        algorithms = [algorithms]
    if isinstance(algorithms, Mapping):
        methods = dict(algorithms)
    else:
        label = lambda method: method if isinstance(method, str) else type(method).__name__
        methods = {label(method): method for method in algorithms}
    for method in methods.values():
        check_method(method)
    if isinstance(algorithms, Sequence) and (same := _two_objects(algorithms)):
        labels = ", ".join(f'"{same} {k}": {same}(...)' for k in (1, 2))
        raise SpecError(
            f"two algorithm objects are of the class {same}, so their runs would have the same "
            f"label. Give a dict with a label for each, for example {{{labels}}}"
        )
    if len(methods) != len(algorithms) or not methods:
        raise SpecError(f"name at least one algorithm, and each only once; got {list(algorithms)}")
    odd = [label for label in methods if not isinstance(label, str) or Path(label).name != label]
    if odd:
        raise SpecError(f"the label {odd[0]!r} cannot be a folder name: use letters and digits")
    return methods


def _two_objects(algorithms: Sequence[Algorithm]) -> str:
    """The name of a class of which there are two objects."""
    names = [type(one).__name__ for one in algorithms if isinstance(one, AbstractAlgorithm)]
    return next((name for name in names if names.count(name) > 1), "")


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
        data: As in `run`: a name, a path or a Python object.
        seeds: The number of seeds, 1 to 1,000.
        seed: The first seed, a whole number >= 0; the others follow it.
        split_seed: The seed of the split. If not given: the first seed.
        out: The folder to write, with one folder in it for each seed. Without it, nothing is
            written.
        watch: A function that `repeat` calls with the label, the seed and the progress. If it
            returns True, the runs end.
        options: As in `compare`.

    Returns:
        A `Repeats`, with one `Comparison` for each seed.

    Raises:
        SpecError: `seeds` is not a whole number from 1 to 1,000; or as in `compare`.

    Examples:
        >>> repeats = feddcd.repeat("wine", algorithms=["mbsgd"], seeds=2, clients=6, rounds=5)
        >>> list(repeats)
        [0, 1]
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= MOST:
        raise SpecError(f"seeds must be a whole number from 1 to {MOST}; got {seeds!r}")
    split = seed if split_seed is None else split_seed
    if options.get("resume") and out is not None:
        check_longer(Path(out), options.get("rounds", Spec.rounds))
    comparisons = {}
    with patient_interrupt() as stop:
        for one in range(seed, seed + seeds):
            told = lambda name, progress, one=one: watch(f"{name} {one}", progress)
            folder = None if out is None else Path(out) / f"seed-{one}"
            comparisons[one] = compare(
                data, seed=one, split_seed=split, out=folder, watch=told, **options
            )
            runs = comparisons[one].results.values()
            if any(run.summary["status"] == "stopped" for run in runs) or stop():
                break
        repeats = Repeats(comparisons)
        if out is not None:
            repeats.write(Path(out))
    return repeats
