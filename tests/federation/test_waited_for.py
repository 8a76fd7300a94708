"""For whom the coordinator waits, and until when: people have days, what is broken has a minute."""

import re
import time
from datetime import UTC, datetime

import pytest

from feddcd.federation.config import Config
from feddcd.federation.coordinator._hearing import Hearing
from feddcd.federation.machine.init import create
from feddcd.federation.machine.studies import note_state, want
from feddcd.federation.site.missing import LOOK_S
from feddcd.federation.site.told import LOOKS, READS, waits
from feddcd.federation.status import study_status, waits_in_words
from feddcd.federation.wire import Envelope

JOB = '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n'
NAMES = ("east", "north", "south")


class Said:
    """A network whose sites say what they are given."""

    def __init__(self, **said):
        self.said = said

    def ask(self, requests, *, work, most):
        for site in requests:
            yield (
                site,
                Envelope("refusal", {"client": site, "reason": f"{site}: {self.said[site]}"}, {}),
            )

    def lost(self, site):
        pass


@pytest.fixture
def study(tmp_path):
    study = want(create(tmp_path / "fed", list(NAMES), Config("demo")), "first", JOB)
    note_state(study, "running")
    return study


def ends(words):
    """By what is waited for: in how many seconds that ends, to a minute."""
    found = re.findall(r"(.+?); the coordinator waits until (\S+ \S+) UTC(?:; | \(as)", words)
    moment = lambda text: datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    return {what: moment(until).timestamp() - time.time() for what, until in found}


@pytest.mark.parametrize(
    ("reason", "told"),
    [(LOOKS, "the data file is missing at south"), (READS, "policy.toml has a mistake at south")],
)
def test_what_is_broken_is_waited_for_a_minute_and_people_for_days(study, reason, told):
    network = Said(**dict.fromkeys(NAMES, waits("this job")))
    hearing = Hearing(study, network, study.config())  # pyright: ignore
    ask = lambda: list(hearing.replies(dict.fromkeys(NAMES, b""), "job", 10))
    words = lambda: waits_in_words(study_status(study)["waits"])
    assert ask() == []
    assert "people at east (this job), north (this job) and south (this job) have" in words()
    network.said["south"] = reason  # whether a person approved there before, nobody knows
    assert ask() == []
    people = "people at east (this job) and north (this job) have to decide"
    found = ends(words())
    assert list(found) == [people, told]
    assert -60 <= found[told] <= LOOK_S
    assert found[people] == pytest.approx(7 * 86400, abs=120)
    network.said["south"] = waits("this job")
    assert ask() == []
    assert list(ends(words())) == [
        "people at east (this job), north (this job) and south (this job) have to decide"
    ]
