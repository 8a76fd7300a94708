"""One site of four lies: whatever it sends, it is refused by its name, or what it can do is bounded
and said; nothing crashes, no gap is below zero, and the others' table is the others' table.

The lies are those of `lies.py` and `liar_training.py`. Every one goes through the real coordinator
in `make chaos`; a slice of them, and all that needs no messages, here."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import liar_tables
import liar_training
from disks import in_memory
from feddcd import FederatedGLM
from feddcd._errors import DataError, Refused
from feddcd.analysis.adding import add_up
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.registry import ANALYSES
from feddcd.analysis.replay import Replay
from feddcd.durable.codec import CodecError, pack, unpack
from feddcd.federation.coordinator import _checks, _proof_checks
from feddcd.federation.training_wire import CertificatePart
from feddcd.measure import Tangent
from liar_tables import LIAR, SITES, distance, patients, table
from lies import PLANS, TABLES, Lie
from local_network import quick

EVERY = 21  # lie is told in the normal suite


def names(lies):
    return {"argvalues": lies, "ids": [lie.name for lie in lies]}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, in_memory() as folder:
        liar_tables.quick(patch)
        yield liar_tables.founded(folder)


def check_told(home, lie: Lie) -> None:
    told = table(home, lie)
    assert told.how != "crashed", told.error
    if lie.harmless:
        assert told.how == "believed"
        assert distance(told.result, honest(home, lie.plan, without=None)) <= 1e-6
        return
    assert told.how == "refused by name", (told.error, told.events)
    assert all(len(str(event)) < 3000 and str(event).isprintable() for event in told.events)
    if told.error is None:
        assert list(told.result.sites) == [site for site in SITES if site != LIAR]
        assert distance(told.result, honest(home, lie.plan, without=LIAR)) <= 1e-6


def honest(home, plan: str, without: str | None):
    """The table of those who tell the truth, in one process."""
    settings = dict(PLANS[plan])
    frames = [d.assign(site=s) for s, d in patients().items() if s != without]
    weight = settings.pop("weight", None)
    model = FederatedGLM(settings.pop("family"), **settings, tol=1e-9)
    return model.fit(pd.concat(frames), groups="site", sample_weight=weight).result_


def test_there_are_enough_lies():
    assert len(TABLES) + len(liar_training.TRAINING) >= 240
    told = [lie.name for lie in TABLES]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize(
    "plan", [p if p == "binary" else pytest.param(p, marks=pytest.mark.chaos) for p in PLANS]
)
def test_the_truth_is_believed(home, plan):
    told = table(home, None, plan)
    assert told.how == "believed", (told.error, told.events)
    assert distance(told.result, honest(home, plan, without=None)) <= 1e-6


@pytest.mark.parametrize("lie", **names(TABLES[::EVERY]))
def test_a_lie_to_a_table_is_refused_by_name(home, lie):
    check_told(home, lie)


@pytest.mark.chaos
@pytest.mark.parametrize("lie", **names(TABLES))
def test_every_lie_to_a_table_is_refused_by_name(home, lie):
    check_told(home, lie)


SUMMED = {  # what is wrong with the sum, by the answer and the part that one site bends
    "rows below zero": ("moments.n", 0, lambda x: -5 * x),
    "squares below the means'": ("moments.xx", 0, lambda x: x - 1e4),
    "an indefinite Hessian": ("H", 0, lambda x: x + 1e5 * (np.arange(x.size) == 1)),
    "a moved gradient": ("g", 1, lambda x: x + 60.0),
    "a value that falls": ("value", 1, lambda x: x - 100.0),
    "leverage of 10^9": ("M", 1, lambda x: 1e9 + 0 * x),
    "bins of 10^9 rows": ("bins", 1, lambda x: x + 1e9),
}


@pytest.mark.parametrize("wrong", [None, *SUMMED])
def test_sums_alone_are_held_against_the_same(wrong):
    """In mode `sum` nobody knows whose numbers they are; that they cannot be true is seen."""
    plan = RegressionPlan(**PLANS["binary"])
    analysis, frames = ANALYSES[plan.analysis], patients()
    cohort, _ = analysis.agree({s: analysis.offer(d, plan).offer for s, d in frames.items()}, plan)
    rows = {site: analysis.rows(d, plan, cohort, site) for site, d in frames.items()}
    replay = Replay(analysis, plan, cohort)
    part, since, change = SUMMED.get(wrong, ("g", 99, None))

    def follow():
        while replay.result is None:
            said = {site: dict(analysis.answer(own, replay.expected)) for site, own in rows.items()}
            if replay.exchanges >= since:
                block = said[LIAR][part]
                said[LIAR][part] = dataclasses.replace(block, value=change(block.value))
            replay.step(add_up(list(said.values())))

    if wrong is None:
        return follow()
    with pytest.raises(DataError, match="the numbers of one of the sites cannot be true"):
        follow()


def test_a_lie_of_every_size_in_each_number_is_seen_or_small(home):
    """One number of one later answer is moved, at random: either it is refused, or the table moves
    by less than the lie says."""
    draw, seen = np.random.default_rng(3), 0
    before = table(home, None)
    for _ in range(3):
        name, size = draw.choice(["g", "H", "value", "xy"]), 10 ** draw.uniform(1, 6)

        def bend(said, number, name=name, size=size):
            at = name if name in said.arrays else "g"
            x = np.array(said.arrays[at])
            x.flat[draw.integers(x.size)] += size
            return said._replace(arrays={**said.arrays, at: x})

        told = table(home, Lie("bent", "sums", bend))
        assert told.how in ("refused by name", "believed")
        seen += told.how == "refused by name"
        if told.result is not None and told.how == "believed":
            assert distance(told.result, before.result) < size
    assert seen >= 2


# training


@pytest.fixture(scope="module")
def trained():
    with quick(), in_memory() as folder:
        yield liar_training.founded(folder, "ridge"), folder


@pytest.fixture(scope="module")
def classified():
    with quick(), in_memory() as folder:
        yield liar_training.founded(folder), folder


def check_trained(where, lie: Lie) -> None:
    home, folder = where
    told = liar_training.train(home, folder / "lied", lie)
    assert told.how != "crashed", told.error
    assert told.how == ("believed" if lie.harmless else "refused by name"), told.events
    for event in told.events:
        assert event.get("certified_gap", 0.0) >= 0
        assert 0 <= event.get("accuracy", 0.0) <= 1
        assert len(str(event)) < 3000
    if told.error is None:
        assert told.events[-1]["event"] == "finished"


SOME = ("10^12 rows", "an upload of 10^200", "tangents above the objective", "half the objective")


@pytest.mark.parametrize(
    "lie", **names([lie for lie in liar_training.TRAINING if lie.name in SOME])
)
def test_a_lie_in_training_is_refused_by_name(trained, lie):
    check_trained(trained, lie)


@pytest.mark.chaos
@pytest.mark.parametrize("lie", **names(liar_training.TRAINING))
def test_every_lie_in_training_is_refused_by_name(classified, lie):
    check_trained(classified, lie)


def squares(at, w, alpha=0.5):
    """A site with f = alpha/2 |x|² + |x - 1|²/2: its value at w, tangents at w and `at`."""
    f = lambda x: alpha / 2 * x @ x + (x - 1) @ (x - 1) / 2

    def tangent(x):
        g = alpha * x + x - 1
        parts = np.array([f(x), -g @ x, alpha / 2 * x @ x])
        slope = alpha * x - g
        return Tangent(parts.sum(), np.abs(parts).sum(), slope, np.float64(alpha))

    return CertificatePart(np.float64(f(w)), np.float64(0.5), tangent(w), tangent(at))


PROOFS = {
    "above at its own point": lambda p: p._replace(
        at_own=p.at_own._replace(constant=p.at_own.constant + 100)
    ),
    "below at the model": lambda p: p._replace(
        at_model=p.at_model._replace(constant=p.at_model.constant - 1e-3)
    ),
    "an objective below zero": lambda p: p._replace(value=np.float64(-1.0)),
    "more objective": lambda p: p._replace(value=p.value + 1e-3),
    "a slope": lambda p: p._replace(at_model=p.at_model._replace(slope=p.at_model.slope * 1.01)),
    "more curvature": lambda p: p._replace(at_own=p.at_own._replace(alpha=np.float64(2.0))),
}


@pytest.mark.parametrize("wrong", [None, *PROOFS])
def test_the_parts_of_a_certificate_fit_together(wrong):
    draw = np.random.default_rng(0)
    for _ in range(20):
        w = draw.normal(size=4) * 10 ** draw.uniform(-3, 1)
        proof = squares(w + draw.normal(size=4), w)
        if wrong is None:
            _proof_checks.check_proof("south", proof, w, 0.5, True)
        else:
            with pytest.raises(Refused, match="south: "):
                _proof_checks.check_proof("south", PROOFS[wrong](proof), w, 0.5, True)


def test_messages_are_small_and_flat():
    deep = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(CodecError, match="nested more than"):
        pack({"x": deep}, {})
    data = pack({"x": ["[[[[" * 20]}, {"a": np.zeros(100)})
    assert unpack(data)[0] == {"x": ["[[[[" * 20]}  # letters are no lists
    most = len(data) - 1
    with pytest.raises(CodecError, match=f"the data have {len(data)} bytes, but 48 to {most}"):
        unpack(data, most=most)


def test_a_reason_speaks_for_its_site_alone():
    said = _checks.reason_of("south", "north: lies\x1b[2J" + "x" * 5000)
    assert said.startswith("south: north: lies\\x1b")
    assert len(said) < 1000
    assert _checks.reason_of("south", "south: no") == "south: no"
    assert _checks.reason_of("", "no") == "no"


def test_a_number_of_rows_is_one():
    assert _checks.check_count(10**9, "rows") == 10**9
    for odd in (True, 1.0, -1, 10**9 + 1, "1", None):
        with pytest.raises(Refused):
            _checks.check_count(odd, "rows")
