"""A study that was stopped and goes on: what its coordinator heard before."""

import json
from contextlib import suppress

import numpy as np
import pytest

from disks import in_memory
from feddcd._errors import Stalled
from feddcd.analysis.plan import RegressionPlan
from feddcd.federation.coordinator._masked import JobFolder
from feddcd.federation.site.approval import approve, deny, waiting
from feddcd.federation.site.told import REFUSED
from test_masked import _quick, events, made, parts, patients, run  # noqa: F401

SITES = ("east", "north", "south", "west")


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def asking(folder, sites=SITES, asks=SITES, formula="y ~ age"):
    """A person decides at each of these sites."""
    d = patients(200)
    data = parts(d.assign(site=np.array(sites)[np.arange(200) % len(sites)]))
    home = made(folder, RegressionPlan(formula, "gaussian"), data, patience=0.05, fewest=3)
    for site in asks:
        (home.site(site) / "policy.toml").write_text('approve = "job"\ncomplete = true\n')
    return home


def decide(home, how, *sites):
    for site in sites:
        (id,) = waiting(home.site(site))
        how(home.site(site), id)


def told(home):
    """Of a finished table: in its model.json, its text and its events."""
    held = json.loads((home.server / "glm" / "model.json").read_text())["sites_refused"]
    [ended] = events(home, "finished")
    text = " ".join((home.server / "glm" / "summary.txt").read_text().split())
    assert sorted(held) == sorted(set(SITES) - set(ended["sites"]))
    for reason in held.values():
        assert reason in text
    return held, ended["refused"]


def stopped_after_a_denial(folder, sites=SITES):
    """West denies, and the others have not decided about the job without it."""
    home, others = asking(folder, sites, sites), sorted({*sites} - {"west"})
    with pytest.raises(Stalled):
        run(home)
    decide(home, deny, "west")
    decide(home, approve, *others)
    with pytest.raises(Stalled):
        run(home)
    return home


def test_who_denied_is_known_after_a_study_was_stopped(tmp_path):
    home = stopped_after_a_denial(tmp_path)
    decide(home, approve, "east", "north", "south")
    run(home)
    assert events(home, "goes on")
    assert told(home) == ({"west": f"west: {REFUSED}"}, ["west"])
    assert events(home, "refused")[-1]["site"] == "west", "also `status` tells it"


def test_who_did_not_decide_in_time_is_not_called_silent(tmp_path):
    home = asking(tmp_path, asks=("east", "west"), formula="y ~ age + sex")  # first the levels
    while not (home.server / "proof").exists():
        with suppress(Stalled):
            run(home)
        for id in waiting(home.site("east")):
            approve(home.site("east"), id)
    assert events(home, "goes on")
    assert told(home)[0] == {"west": "west: nobody at the site decided in time"}
    job = events(home, "job")[-1]
    assert [job[name] for name in ("without", "late", "silent")] == [[], ["west"], []]


def test_who_denied_and_then_approved_is_asked_for_the_next_job(tmp_path):
    """Not for the one that goes on without it."""
    home = stopped_after_a_denial(tmp_path, (*SITES, "wold"))
    (denied,) = [path.stem for path in (home.site("west") / "outgoing").glob("*.denied")]
    approve(home.site("west"), denied)
    decide(home, deny, "south")
    decide(home, approve, "east", "north", "wold")
    with pytest.raises(Stalled):
        run(home)
    assert events(home, "job")[-1]["sites"] == ["east", "north", "west", "wold"]


def test_a_job_of_an_earlier_version_goes_on(tmp_path):
    home = stopped_after_a_denial(tmp_path)
    (JobFolder.current(home).path / "without").unlink()
    decide(home, approve, "east", "north", "south")
    run(home)
    assert told(home)[1] == []
