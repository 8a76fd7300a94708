"""What `feddcd glm` is asked for beside the table: tests, contrasts, VIFs, predictions."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import SpecError
from .._text import closest
from ..analysis import FederatedGLM
from ..analysis.table import CompleteRows, Roles

TESTS = ("wald", "lr")


class Wishes(NamedTuple):
    tests: tuple[str, ...] = ()
    contrasts: tuple[str, ...] = ()
    vif: bool = False
    predict: Path | None = None

    def check(self, covariance: str) -> None:
        """Before anything is fitted."""
        for test in self.tests:
            if test not in TESTS:
                told = f"<test> must be one of {', '.join(TESTS)}; got {test!r}"
                raise SpecError(told + closest(test, TESTS), settings={"test": None})
        for name, wanted in {"test": "lr" in self.tests, "vif": self.vif}.items():
            if wanted and covariance != "model":
                value = "lr" if name == "test" else None
                told = f"<{name}> needs the usual standard errors of the model: give <covariance>"
                raise SpecError(told, settings={name: value, "covariance": "model"})


def extend(model: FederatedGLM, rows: CompleteRows, wishes: Wishes) -> None:
    """Puts the tables that were asked for into the model's result."""
    more: dict[str, Any] = {}
    if "wald" in wishes.tests:
        more["wald_tests"] = model.test()
    if "lr" in wishes.tests:
        more["lr_tests"] = model.test_rows(rows)
    if wishes.contrasts:
        more["contrasts"] = model.contrast(list(wishes.contrasts))
    if wishes.vif:
        more["vif"] = model.vif()
    model.result_ = dataclasses.replace(model.result_, more=more)


def predictions(model: FederatedGLM, frame: Any, roles: Roles) -> Any:
    """A row for each of the file, counted from 1; as in R, empty where a value is missing."""
    import pandas

    result = model.result_
    known = result.classes is None
    groups = roles.group if result.site_effects != "none" else None
    found = model.predict(frame, roles.offset, groups, result.level if known else None)
    if not known:
        found = pandas.DataFrame(found, columns=[str(c) for c in result.classes])  # pyright: ignore
    return found.set_axis(range(1, len(found) + 1)).rename_axis("row").reset_index()
