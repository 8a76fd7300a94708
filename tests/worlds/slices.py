"""A slice of a long list of cases stays in the usual suite; `make chaos` runs all of them."""

from collections.abc import Container, Iterable

import pytest


def sliced(cases: Iterable, usual: Container) -> list:
    """The cases, all but the `usual` ones for `make chaos` alone."""
    made = lambda case: case if isinstance(case, tuple) else (case,)
    return [
        pytest.param(*made(case), marks=[pytest.mark.chaos] * (case not in usual)) for case in cases
    ]
