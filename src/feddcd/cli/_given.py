"""What the options of `run` and `compare` and their settings file say together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._errors import SpecError
from ..runs.spec import load_spec, parse_settings


def check_apart(algorithms: Sequence[str]) -> None:
    """One option for each method."""
    for name in algorithms:
        if "," in name:
            raise SpecError(f"repeat --algorithm for each method: {_each(name)}; got {name!r}")


def check_alone(algorithm: str) -> None:
    """A run has one method."""
    if "," in algorithm:
        raise SpecError(
            "feddcd run takes only one method; for several methods, use feddcd compare and "
            f"{_each(algorithm)}; got {algorithm!r}"
        )


def _each(names: str) -> str:
    return " ".join(f"--algorithm {one.strip()}" for one in names.split(",") if one.strip())


def merge(options: dict[str, Any], config: Path | None, settings: dict) -> dict[str, Any]:
    """Options over the config file."""
    values = {} if config is None else load_spec(config)
    given = {k: v for k, v in options.items() if v is not None}
    if "test_data" in given:
        given["test_data"] = str(given["test_data"])
    values |= given
    if settings:
        values["settings"] = values.get("settings", {}) | settings
    return values


def by_algorithm(settings: list[str], algorithms: list[str]) -> dict[str, dict[str, Any]]:
    chosen: dict[str, dict[str, Any]] = {}
    for text, value in parse_settings(settings).items():
        name, dot, key = text.partition(".")
        if not dot or name not in algorithms:
            example = f"{algorithms[0]}.{key or name}={value}"
            raise SpecError(
                f"in compare, write a setting as algorithm.key=value, for example {example}; "
                f"the algorithm must be one of these: {', '.join(algorithms)}; "
                f"got {f'{text}={value}'!r}"
            )
        chosen.setdefault(name, {})[key] = value
    return chosen


def changes_of(
    options: dict[str, Any], config: Path | None, settings: list[str], out: Path | None
) -> dict[str, Any]:
    """What may change when a run goes on; anything else is refused."""
    given = {k: v for k, v in options.items() if v is not None}
    changes = {k: given.pop(k) for k in ("rounds", "target_gap") if k in given}
    others = [f"--{name.replace('_', '-')}" for name in given]
    others += ([f"the config file {config}"] if config is not None else []) + [
        "--set and --bits"
    ] * bool(settings)
    others += ["--out"] * (out is not None)
    if others:
        raise SpecError(
            f"--resume uses the settings of the earlier run, so leave out {', '.join(others)}"
        )
    return changes
