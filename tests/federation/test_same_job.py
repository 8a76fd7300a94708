"""The same job for a second study: what a person reads before the first decision about it."""

import dataclasses
import shutil

import pandas as pd
import pytest
import tomli_w

from feddcd import _files as files
from feddcd._errors import Stalled
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.cli import _federation, _simulate, _tables
from feddcd.cli._simulate import Trial, simulate_command
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.machine.init import create
from feddcd.federation.site import approval
from feddcd.federation.site._job_file import FOLDER
from feddcd.federation.site.approval import approve, mark_read, waiting, words_of

SITES = ("east", "north", "south")
BEFORE = "this site answered the same job before"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    monkeypatch.setattr(approval, "FIRST_S", 0.001)
    monkeypatch.setattr(files, "_flush", lambda handle: None)
    for module in (_simulate, _federation, _tables):
        monkeypatch.setattr(module, "say", lambda line, **how: None)
    d = pd.DataFrame({"age": [float(20 + i % 40) for i in range(120)]})
    config = Config("t", plan=DescribePlan(["age"]), patience=0.05)
    return create(tmp_path / "fed", list(SITES), config, data=dict.fromkeys(SITES, d), careful=True)


def texts_of(home, study, job):
    """What the people at north read for a study, in their order."""
    read = []
    for _ in range(5):
        try:
            simulate_command(home.path, Trial(), job, study)
            return read
        except Stalled:
            for site in SITES:
                for id in waiting(at := home.site(site)):
                    read += [words_of(at, id)] if site == "north" else []
                    mark_read(at, id)
                    approve(at, id)
    raise AssertionError("no end")


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.toml"
    plan = dataclasses.replace(DescribePlan(["age"]), answers="sum").to_dict()
    path.write_text(tomli_w.dumps({"describe": plan, "patience": 0.05}))
    return path


def test_the_first_text_of_a_second_study_says_that_the_job_was_answered(home, job):
    first = texts_of(home, "first", job)
    assert len(first) == 1
    assert not any(BEFORE in line for line in first[0])
    again, once = texts_of(home, "second", job)
    (line,) = [line for line in again if BEFORE in line]
    assert "this site asks you once more" in line
    assert once[0].startswith("This site answered the same job before")


def test_without_the_file_of_the_job_the_text_promises_no_second_decision(home, job):
    texts_of(home, "first", job)
    shutil.rmtree(home.site("north") / FOLDER)
    (again,) = texts_of(home, "second", job)
    (line,) = [line for line in again if BEFORE in line]
    assert line.strip() == f"{BEFORE}."
