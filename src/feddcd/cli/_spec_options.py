"""The options of `run` and `compare`: one for each setting of a run."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..runs.spec import PART, Spec
from ._terminal import READING, Quiet, option

USUAL = "feddcd, accfeddcd, pointsaga, fedavg, fedprox and scaffold"
# what each setting of a run is; its default, if Spec has one, is put behind it. Objects (`given`)
# are for Python alone
HELP = {
    "data": "A data set from `feddcd list data`, or a LIBSVM, CSV or Parquet file.",
    "test_data": "A file like --data, but with test rows: feddcd tests the model on these rows.",
    "label": "The column to predict, in a CSV or Parquet file.",
    "group": "The column that names the client of each row.",
    **READING,
    "model": "The model: softmax, logistic, ridge, poisson or mlp.",
    "partition": "How to divide the rows among clients. `feddcd list partitions` shows all ways.",
    "clients": "The number of clients, N.",
    "tau": f"The number of clients in each round: at least 2, at most N. Default: N/{PART}.",
    "algorithm": "A method from `feddcd list algorithms`, or auto: feddcd chooses one.",
    "settings": "Change a setting of the algorithm: write key=value.",
    "l2": "The strength of the penalty (l2/2)|w|².",
    "weighting": "clients: all clients count equally; samples: all rows count equally.",
    "participation": "How feddcd chooses the clients of a round: see `feddcd list participation`.",
    "loss": "The share of the uploads to lose at random: from 0 to below 1.",
    "rounds": "Stop after this number of rounds.",
    "target_gap": "Stop when the certified gap is at most this number.",
    "certify_every": "The number of rounds from one certificate to the next. 1: every round.",
    "eval_every": "The number of rounds from one measurement of the objective to the next. 1: "
    "every round.",
    "seed": "The seed of all random numbers.",
    "split_seed": "A separate seed with which feddcd divides the rows among clients.",
    "dtype": "The type of the numbers: auto, float64 or float32.",
}
KINDS = {"test_data": Path, "settings": list[str], "na": list[str]}  # where they are not as in Spec
Config = Annotated[
    Path | None,
    typer.Argument(
        help="Read the settings from this TOML file. The options below can change these settings.",
        show_default=False,
    ),
]
Seeds = Annotated[
    int | None,
    option("Repeat the run with this number of random seeds, and show medians and quartiles."),
]
Out = Annotated[
    Path | None, option("Write the results into this folder. Default: a new folder in runs/.")
]
Bits = Annotated[
    int | None,
    option("Send each number with 8, 16, 32 or 64 bits. Default: 8 for fedqn, 64 otherwise."),
]
Resume = Annotated[
    Path | None,
    option("Continue the run or comparison of this folder. Use --rounds to allow more rounds."),
]


def takes_a_spec(**other: Any) -> Callable[[Any], Any]:
    """The options of a run: one for every field of Spec, so that none can be forgotten, or an
    `other` one instead."""
    fields = {f.name: _field_option(f) for f in dataclasses.fields(Spec) if f.name != "given"}
    own = {"bits": Bits, "seeds": Seeds, "out": Out, "resume": Resume, "quiet": Quiet}
    kinds = {"config": Config} | fields | other | own

    def decorate(command: Any) -> Any:
        command.__annotations__ = kinds
        command.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, annotation=kind,
                    default=False if name == "quiet" else None,
                )
                for name, kind in kinds.items()
            ]
        )  # fmt: skip
        return command

    return decorate


def _field_option(field: dataclasses.Field) -> Any:
    default = f"{field.default:g}" if type(field.default) in (int, float) else field.default
    default = "auto" if field.name == "algorithm" else default  # a run without a name chooses
    tail = f" Default: {default}." if isinstance(default, str) else ""
    names = {"settings": ["--set"], "l2": ["--l2"]}.get(field.name, [])
    kind = KINDS.get(field.name, field.type)
    return Annotated[kind | None, option(HELP[field.name] + tail, *names)]
