"""One site of four lies to a description: it is refused by its name, or all hear that the sums
cannot be true."""

import dataclasses

import numpy as np
import pytest

import liar_tables
from disks import in_memory
from feddcd._errors import DataError
from feddcd.analysis._description import DescribeResult
from feddcd.analysis.adding import add_up
from feddcd.analysis.registry import ANALYSES
from feddcd.analysis.replay import Replay
from liar_descriptions import DESCRIPTIONS, PLAN
from liar_tables import LIAR, SITES, analysed, patients

EVERY = 9  # lie is told in the normal suite


def names(lies):
    return {"argvalues": lies, "ids": [lie.name for lie in lies]}


def frames():
    """Some lack a value."""
    made = patients()
    for d in made.values():
        d.loc[:5, "bmi"] = np.nan
        d.loc[3:9, "z"] = np.nan
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, in_memory() as folder:
        liar_tables.quick(patch)
        patch.setattr(DescribeResult, "write", lambda self, folder: iter(()))
        patch.setattr(liar_tables, "patients", frames)
        yield liar_tables.founded(folder)


def check_told(home, lie):
    told = analysed(home, lie, PLAN)
    assert told.how == "refused by name", (told.error, told.events)
    assert all(len(str(event)) < 3000 and str(event).isprintable() for event in told.events)
    if told.error is None:
        n = told.result.numbers().query("cell == 'all' and statistic == 'rows'").value.iloc[0]
        assert n == 70 * (len(SITES) - 1)


def test_the_truth_is_believed(home):
    told = analysed(home, None, PLAN)
    assert told.how == "believed", (told.error, told.events)


@pytest.mark.parametrize("lie", **names(DESCRIPTIONS[::EVERY]))
def test_a_lie_to_a_description_is_refused_by_name(home, lie):
    check_told(home, lie)


@pytest.mark.chaos
@pytest.mark.parametrize("lie", **names(DESCRIPTIONS))
def test_every_lie_to_a_description_is_refused_by_name(home, lie):
    check_told(home, lie)


SUMMED = {
    "more values than rows": ("present", 0, lambda x: x + 1000),
    "levels that do not add up": ("levels", 0, lambda x: x + 1),
    "squares below zero": ("s2", 1, lambda x: x - 1e9),
    "parts that do not add up": ("parts", 1, lambda x: x + 1),
    "sums that change": ("s1", 2, lambda x: x + 500.0),
}


@pytest.mark.parametrize("wrong", [None, *SUMMED])
def test_sums_alone_are_held_against_the_same(wrong):
    analysis, data = ANALYSES["describe"], frames()
    cohort, _ = analysis.agree({s: analysis.offer(d, PLAN).offer for s, d in data.items()}, PLAN)
    rows = {site: analysis.rows(d, PLAN, cohort, site) for site, d in data.items()}
    replay = Replay(analysis, PLAN, cohort)
    part, since, change = SUMMED.get(wrong, ("s1", 99, None))

    def follow():
        while replay.result is None:
            said = {site: dict(analysis.answer(own, replay.expected)) for site, own in rows.items()}
            if replay.exchanges >= since and part in said[LIAR]:
                block = said[LIAR][part]
                said[LIAR][part] = dataclasses.replace(block, value=change(block.value))
            replay.step(add_up(list(said.values())))

    if wrong is None:
        return follow()
    with pytest.raises(DataError, match="the numbers of one of the sites cannot be true"):
        follow()
