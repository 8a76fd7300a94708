"""What Python hears of a run that diverged: a warning, with advice in the words of Python."""

import os
import re
import sys
import warnings
from pathlib import Path

from .._errors import DivergedWarning
from .result import Result

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"  # no folder that only begins like it
OPTIONS = (  # as the command line has them, and as Python does
    (r"--set ([^\s=]+)\.(\w+)=\.\.\.", r'settings={"\1": {"\2": ...}}'),
    (r"--set (\w+)=\.\.\.", r'settings={"\1": ...}'),
    (r"--algorithm (\w+)", r'algorithm="\1"'),
    (r"--l2 (\S*\d)", r"l2=\1"),
    (r"--(\w+)", r"\1"),
)


def warn_if_diverged(result: Result) -> None:
    if result.summary.get("diverged"):
        told = f"{result.summary['algorithm']}: {in_python(result.summary['advice'])}"
        warnings.warn(told, DivergedWarning, stacklevel=_outside())


def in_python(advice: str) -> str:
    for option, argument in OPTIONS:
        advice = re.sub(option, argument, advice)
    return advice


def _outside() -> int:
    """How far up the code is that called this package: the warning names its line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
