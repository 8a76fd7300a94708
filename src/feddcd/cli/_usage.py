"""What a line that the parser refuses was meant to say."""

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

UsageError: Any = typer.BadParameter.__base__  # of the click that typer uses
COUNTED = (
    "--tau is the number of clients in a round, not their share. For 30 % of 20 clients, give "
    "--tau 6"
)
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
            if told := told or advice(given, str(error.message), {p.name for p in self.params}):
                error.message = f"{str(error.message).rstrip('.')}. {told}"
                if hasattr(error, "possibilities"):
                    error.possibilities = []
            raise


def advice(given: Sequence[str], message: str, takes: set[str | None]) -> str:
    """`takes` are the names of what the command has."""
    if message.startswith("No such option") and "--data" in message and "file" in takes:
        return "The data file has no option before it, for example: feddcd glm patients.csv"
    if "unexpected extra argument" not in message:
        return ""
    extra = message.rpartition("(")[2].rstrip(") ")
    if extra.casefold() in FLAG:
        return f"An option that is only switched on takes no value: leave {extra} out"
    if "formula" not in takes:
        return ""
    if any(word.startswith("--formula") for word in given):
        return "Put the formula into quotes, for example --formula 'death ~ age'"
    return "Give the formula after --formula, for example: --formula 'death ~ age'"
