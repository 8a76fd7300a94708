"""What the commands do: options in, files and tables out."""

import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, TimeElapsedColumn

from .._errors import DivergedWarning, FolderError
from .._files import fresh_folder
from .._text import plural, upper
from ..runs.api import compare, resume, usual
from ..runs.auto import AUTO, OF_SETTINGS, unnamed
from ..runs.comparison import Comparison
from ..runs.folder import check_longer, load_race, read_history, read_spec, read_summary, save_race
from ..runs.result import Result
from ..runs.run import Progress as Step
from ..runs.run import execute
from ..runs.spec import Spec, parse_settings
from ._ending import UNPROVEN
from ._given import by_algorithm, changes_of, check_alone, check_apart, merge
from ._habits import found
from ._stopping import (
    complete,
    exit_stopped,
    nothing_to_do,
    seeds_told,
    stoppable,
    stopped_at,
)
from ._terminal import bars, console, say

DEMO = (
    "feddcd", "accfeddcd", "pointsaga", "fedqn", "fednewton", "fedavg", "fedprox", "scaffold",
)  # fmt: skip


def run_command(
    options: dict[str, Any],
    config: Path | None,
    settings: list[str],
    seeds: int | None,
    out: Path | None,
    folder: Path | None,
    quiet: bool,
) -> None:
    if seeds is not None or (folder is not None and (folder / "compare.toml").exists()):
        named = options.pop("algorithm")
        if folder is None:
            named = named or _with_method(merge(options, config, {}))["algorithm"]
            own = f"{named}."  # as the advice of a comparison has it
            settings = [own + text.removeprefix(own) for text in settings]
        methods = [] if named is None else [named]
        return compare_command(options, config, methods, settings, seeds, out, folder, quiet)
    if folder is not None:
        changes = changes_of(options, config, settings, out)
        with _unwarned(), stoppable(folder, "run"), _bars(quiet) as watch:
            name, before = read_spec(folder).algorithm, _rounds_so_far(folder)
            result = resume(folder, watch=lambda step: watch(name, step), **changes)
        if result.history.rounds == before and result.summary["status"] == "finished":
            say(nothing_to_do(result.spec, before))
    else:
        values = merge(options, config, parse_settings(settings))
        check_alone(values.get("algorithm", ""))
        spec = Spec(**_with_method(values))
        if "algorithm" not in values and spec.algorithm != AUTO and not quiet:
            say(OF_SETTINGS)
        folder = fresh_folder(f"{spec.algorithm}-{Path(spec.data).name}") if out is None else out
        told = lambda method, why: None if quiet else say(f"method: {method}, because {why}")
        with stoppable(folder, "run"), _bars(quiet) as watch:
            show = lambda step: watch(spec.algorithm, step)
            result = execute(spec, folder=folder, watch=show, chosen=told)
    found(folder=folder, report=folder / "report.html", summary=result.summary)
    if not quiet:
        _show([result.entry()])
        if result.classes is not None:
            say(f"model: {result.spec.model}, {plural(len(result.classes), 'class', 'classes')}")
        _advise([result])
        say(f"report: {folder / 'report.html'}")
    if result.summary["status"] == "stopped":
        exit_stopped(f"after round {result.summary['rounds']}", folder, "run")
    if result.summary.get("diverged"):
        sys.exit(UNPROVEN)


def _rounds_so_far(folder: Path) -> int:
    return read_history(folder).rounds if (folder / "history.csv").exists() else 0


def _with_method(values: dict[str, Any]) -> dict[str, Any]:
    """Without a name it is chosen when the data are known, or is the one of the settings."""
    return {"algorithm": unnamed(values.get("settings", {}))} | values


def compare_command(
    options: dict[str, Any],
    config: Path | None,
    algorithms: list[str],
    settings: list[str],
    seeds: int | None,
    out: Path | None,
    folder: Path | None,
    quiet: bool,
) -> None:
    if folder is not None:
        given = options | {"algorithm": algorithms or None, "seeds": seeds}
        changes = changes_of(given, config, settings, out)
        base, algorithms, chosen = load_race(folder)
        base |= changes
        check_longer(folder, base.get("rounds", Spec.rounds))
    else:
        base = merge(options, config, {})
        if seeds is not None:
            base["seeds"] = seeds
        check_apart(algorithms)
        algorithms = algorithms or usual()
        chosen = by_algorithm(settings, algorithms)
        owner, given = base.pop("algorithm", Spec.algorithm), base.pop("settings", {})
        if given and owner in algorithms:
            chosen[owner] = given | chosen.get(owner, {})
        folder = (
            fresh_folder(f"compare-{Path(base.get('data', 'digits')).name}") if out is None else out
        )
        if any(folder.glob("**/checkpoint.npz")):
            raise FolderError(
                f"the folder {folder} already contains a comparison. Continue this "
                f"comparison with --resume {shlex.quote(str(folder))}, or choose another --out"
            )
    save_race(folder, base, algorithms, chosen)
    race(base, algorithms, chosen, folder, quiet)


def race(
    base: dict[str, Any],
    algorithms: list[str],
    settings: dict[str, dict[str, Any]],
    folder: Path,
    quiet: bool,
) -> None:
    several = "seeds" in base
    bars_shown = _bars(quiet, "gap to its own bound")
    with _unwarned(), stoppable(folder, "compare"), bars_shown as watch:
        made = compare(
            **base, algorithms=algorithms, settings=settings, out=folder, resume=True, watch=watch
        )
    table = made.to_pandas().reset_index(names="method" if not several else None)
    runs = table.to_dict("records")
    found(folder=folder, report=folder / "report.html", runs=runs)
    if not quiet:
        _show(made.entries())
        if isinstance(made, Comparison):
            _advise(made.results.values())
        else:
            say(seeds_told(complete(made, algorithms), base["seeds"]))
        one = made if isinstance(made, Comparison) else made[next(iter(made))]
        for run in one.results.values():
            if why := run.summary.get("why"):
                say(f"method: {run.spec.algorithm}, because {why}")
        say(f"in {folder}: {', '.join(made.files)}")
        say(f"report: {folder / 'report.html'}")
    if where := stopped_at(made, algorithms, base.get("seeds")):
        exit_stopped(where, folder, "compare")


def demo_command(out: Path, quiet: bool) -> None:
    import shutil

    base: dict[str, Any] = {
        "data": "digits", "partition": "dirichlet:0.3", "clients": 20, "tau": 8, "l2": 1e-2,
        "rounds": 60, "weighting": "clients", "certify_every": 1,
    }  # fmt: skip
    settings: dict[str, dict[str, Any]] = {name: {"bits": 8} for name in DEMO}
    if out.exists():
        ours = (out / "compare.toml").exists() and load_race(out) == (base, list(DEMO), settings)
        if not ours:  # a comparison of the user's has a compare.toml, too
            raise FolderError(
                f"{out} exists, but feddcd demo did not make it: choose another folder with --out"
            )
        shutil.rmtree(out)
    if not quiet:
        console.print(
            "Eight methods learn to read handwritten digits. The images are divided among 20 "
            "clients. Each client has its own mix of digits. In each round, 8 of the 20 clients "
            "take part. All methods send 8 bits for each number.\n"
        )
    save_race(out, base, list(DEMO), settings)
    race(base, list(DEMO), settings, out, quiet)


def report_command(folders: list[Path], out: Path | None) -> None:
    from ..report import RunEntry, write

    runs = [run for folder in folders for run in _run_folders(folder)]
    entries = [
        RunEntry(read_spec(f).algorithm, read_history(f), read_summary(f), read_spec(f).to_dict())
        for f in runs
    ]
    if len(entries) == 1:
        path = runs[0] / "report.html" if out is None else out
        title = f"{entries[0].label} on {entries[0].config['data']}"
        write(entries, path, title=title)
    else:
        path = folders[0] / "report.html" if len(folders) == 1 else Path("report.html")
        path = path if out is None else out
        labels = [e.label for e in entries]
        if len(set(labels)) < len(labels):
            entries = [e._replace(label=str(f)) for e, f in zip(entries, runs, strict=True)]
        write(entries, path, title=f"{len(entries)} runs", kind="compare")
    found(report=path, runs=[entry.label for entry in entries])
    say(f"report: {path}")


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such run folder")
    if (folder / "config.toml").exists():
        return [folder]
    runs = sorted(path.parent for path in folder.glob("*/config.toml"))
    if not runs:
        raise FolderError(
            f"the folder {folder} contains no run: feddcd found no config.toml in this folder, or "
            "in the folders inside it"
        )
    return runs


@contextmanager
def _bars(quiet: bool, gap: str = "certified gap") -> Iterator[Callable[[str, Step], None]]:
    """One progress bar per method, with its objective and its `gap` to the bound that it proved."""
    columns = (
        "{task.description:<11}",
        BarColumn(bar_width=24),
        "{task.completed:>4.0f}/{task.total:.0f} rounds",
        "objective {task.fields[objective]:.6f}",
        f"{gap} {{task.fields[gap]}}",
        TimeElapsedColumn(),
    )
    tasks: dict[str, Any] = {}
    with bars(*columns, quiet=quiet) as progress:

        def watch(name: str, step: Step) -> None:
            shown = {
                "objective": step.objective,
                "gap": f"≤ {upper(step.certified_gap)}" if step.certified_gap >= 0 else "unknown",
            }
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=step.rounds, **shown)
            progress.update(tasks[name], completed=step.round, **shown)

        yield watch


@contextmanager
def _unwarned() -> Iterator[None]:
    """The command itself prints the advice for a run that diverged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        yield


def _show(entries) -> None:
    from ..report import rich_table

    console.print(rich_table(entries))


def _advise(results: Iterable[Result]) -> None:
    for result in results:
        if advice := result.summary.get("advice"):
            say(f"{result.summary['algorithm']}: {advice}")
