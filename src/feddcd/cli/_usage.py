"""What a line that the parser refuses was meant to say."""

from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from .._errors import SpecError

UsageError: Any = typer.BadParameter.__base__  # of the click that typer uses
COUNTED = (
    "--tau is the number of clients in a round, not a share of the clients. For 30 % of 20 "
    "clients, give --tau 6"
)
NUMBERS = {"integer": (int, "a whole number", "10"), "float": (float, "a number", "0.5")}
EXAMPLES = {
    "bits": "8", "clients": "20", "l2": "0.001", "loss": "0.1", "port": "9093", "rounds": "100",
    "seeds": "3", "target_gap": "0.01", "tau": "6",
}  # fmt: skip
FLAG = ("true", "false", "yes", "no", "1", "0")


class Command(TyperCommand):
    """A command whose errors of usage end with what to do, where that can be seen."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            param = getattr(error, "param", None)
            told = COUNTED if param is not None and param.name == "tau" else ""
            if param is not None and (wrong := no_number(given, param)):
                raise SpecError(f"{wrong}. {told}" if told else wrong) from None
            if told := told or advice(given, str(error.message), {p.name for p in self.params}):
                error.message = f"{str(error.message).rstrip('.')}. {told}"
                if hasattr(error, "possibilities"):
                    error.possibilities = []
            raise


def no_number(given: Sequence[str], param: Any) -> str:
    """What is wrong with the value of a numeric option, with an example; nothing where the value is
    a number."""
    read, kind, usual = NUMBERS.get(param.type.name.split()[0], (str, "", ""))
    for name, value in zip(given, [*given[1:], None], strict=False):
        name, given_with, own = name.partition("=")
        text = own if given_with else value
        if name in param.opts and text is not None and not _can(read, text):
            example = EXAMPLES.get(param.name) or f"{param.default or usual}"
            return f"{name} must be {kind}, got {text!r}; for example {name} {example}"
    return ""


def _can(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def advice(given: Sequence[str], message: str, takes: set[str | None]) -> str:
    """`takes` are the names of what the command has."""
    if message.startswith("No such option") and "--data" in message and "file" in takes:
        return "Write no option before the data file, for example: feddcd glm patients.csv"
    if "unexpected extra argument" not in message:
        return ""
    extra = message.rpartition("(")[2].rstrip(") ")
    if extra.casefold() in FLAG:
        return f"An option that switches something on takes no value: remove {extra!r}"
    if "formula" not in takes:
        return ""
    if any(word.startswith("--formula") for word in given):
        return "Put the formula into quotes, for example --formula 'death ~ age'"
    return "Give the formula after --formula, for example: --formula 'death ~ age'"
