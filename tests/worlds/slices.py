"""A slice of a long list of cases stays in the usual suite; `make chaos` runs all of them."""

from collections.abc import Container, Iterable

import pytest

PARAM = type(pytest.param())


def sliced(cases: Iterable, usual: Container) -> list:
    """The cases, all but the `usual` ones for `make chaos` alone."""
    made = lambda case: case if isinstance(case, tuple) else (case,)
    return [
        pytest.param(*made(case), marks=[pytest.mark.chaos] * (case not in usual)) for case in cases
    ]


def thinned(cases: Iterable, step: int) -> list:
    """The cases, each `step`-th of the usual ones in the suite, and all for `make chaos`."""
    made = lambda case: case if isinstance(case, tuple) else (case,)
    given = [case if isinstance(case, PARAM) else pytest.param(*made(case)) for case in cases]
    usual = [case for case in given if all(mark.name != "chaos" for mark in case.marks)]
    stay = {id(case) for case in usual[::step]}
    chaos = lambda case: [pytest.mark.chaos] * (id(case) not in stay)
    return [pytest.param(*c.values, marks=[*c.marks, *chaos(c)], id=c.id) for c in given]
