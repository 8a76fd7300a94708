"""Training in sums over a network: the model of training in the clear, whatever gets lost."""

import copy
import io
import json
import os
import random
import re
import shutil

import numpy as np
import pytest

from disks import in_memory
from feddcd._errors import Refused, SpecError
from feddcd.durable.codec import pack, unpack
from feddcd.durable.ledger import Ledger
from feddcd.federation.config import Config
from feddcd.federation.coordinator.inspect import inspect, verify
from feddcd.federation.roster import keep_earlier
from feddcd.federation.site import _masked_training
from feddcd.federation.site.answer import answer
from feddcd.federation.site.approval import approve, waiting, words_of
from feddcd.federation.site.memory import Memory
from feddcd.federation.site.policy import FILE
from feddcd.federation.site.template import loose_text
from feddcd.federation.site.told import RULED, WAITS
from feddcd.federation.wire import Envelope, pack_message, read_refusal, unpack_message
from feddcd.runs.spec import Spec
from feddcd.sums._canonical import canonical
from local_network import (
    LocalNetwork,
    make,
    model,
    places,
    pooled,
    quick,
    reasons,
    sums,
    train,
    wine,
)
from masked_world import roster

MUTANTS = int(os.environ.get("MUTANTS", "2000"))
FIVE = ["feddcd", "accfeddcd", "pointsaga", "fedavg", "scaffold"]


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with quick():
        yield


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def ridge(folder, answers, **how):
    return make(folder, answers=answers, **{"model": "ridge", "l2": 20.0, "data": wine(), **how})


class Killed(BaseException):
    """The coordinator's process is gone."""


def rough(seed: int, dies: tuple[int, ...] = ()):
    """A fifth of all messages is lost, and the coordinator dies at some of them."""
    draw, count = random.Random(seed), iter(range(10**6))

    def fault(site, kind):
        if next(count) in dies:
            raise Killed
        return draw.choice(("request", "answer")) if draw.random() < 0.2 else None

    return fault


def go_on(home, network) -> int:
    """Started again each time that it dies; how often."""
    for deaths in range(20):
        try:
            train(home, network)
            return deaths
        except Killed:
            continue
    raise AssertionError("it never ends")


def optimum(data) -> tuple[np.ndarray, float]:
    """(X'X/n + l2) w = X'y/n, with 20 for l2, and F/N there."""
    n, d = data.X.shape
    w = np.linalg.solve(data.X.T @ data.X / n + 20 * np.eye(d), data.X.T @ data.y / n)
    return w, objective(data, w)


def objective(data, w) -> float:
    return np.mean((data.X @ w - data.y) ** 2) / 2 + 10 * np.sum(w**2)


def test_lost_messages_and_a_killed_coordinator_change_nothing(tmp_path):
    """And nobody joins or leaves on the way."""
    home = ridge(tmp_path / "sum", "sum", rounds=3)
    network = LocalNetwork(places(home), rough(0, dies=(7, 15, 30)))
    home.request(("site-2",), False)
    home.save(home.key("late"), b"")
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / FILE).write_text(loose_text())  # else a person is asked for its greeting
    late = network.places[1]._replace(client="late", folder=tmp_path / "late", read=None)
    network.places[9] = late
    assert go_on(home, network) == 3
    cohort = tuple(f"site-{i}" for i in range(1, 5))
    assert [record.members for record in sums(home)] == [cohort] * 3
    data, (w, best) = pooled(places(home))[0], optimum(pooled(places(home))[0])
    summary = inspect(home).summary
    assert abs(summary["objective"] - objective(data, model(home)[:, 0])) < 1e-12
    assert summary["objective"] - best <= summary["certified_gap"] < 1e-2
    assert np.abs(model(home)[:, 0] - w).max() < 0.1
    assert summary["rounding"] > 0
    assert summary["dual_residual"] < 1e-12
    assert verify(home).records > 4
    assert verify(home).signed == cohort
    assert "site-2 cannot leave, because no site can leave a training in mode sum" in reasons(home)
    assert "the site 'late' is not in the roster" in reasons(home)
    late = "late cannot join, because this training in mode sum has already begun"
    assert f"{late}; make a new federation" in reasons(home)
    heard: dict[str, set[bytes]] = {}
    for site, data in network.heard:
        kind, _, arrays = unpack_message(data)
        if kind == "masked":
            heard.setdefault(site, set()).add(arrays["masked"].tobytes())
    assert {site: len(texts) for site, texts in heard.items()} == dict.fromkeys(cohort, 4)
    with pytest.raises(
        SpecError, match="agreed on 3 rounds, so 9 rounds are not possible; make a new federation"
    ):
        train(home, network, 9)
    no_lie_beside_a_ledger_is_passed_over(home, summary)


def no_lie_beside_a_ledger_is_passed_over(home, summary):
    """Of a coordinator, which writes all of these files: the sites' signatures decide."""
    named = [home.server / "summary.json", home.server / "model.npz", *written(home)]
    kept, w = {path: path.read_bytes() for path in named}, model(home)

    def lie(match, said=None, records=None, text=None, npz=None, **arrays):
        for path in written(home):
            path.unlink()
        for path, data in kept.items():
            path.write_bytes(data)
        if said is not None:
            (home.server / "summary.json").write_text(text or json.dumps(said))
        if npz is not None:
            (home.server / "model.npz").write_bytes(npz)
        if arrays:
            np.savez(home.server / "model.npz", **arrays)
        if records is not None:
            forge(home, records)
        with pytest.raises(Refused, match=match):
            verify(home)

    best = {"certified_gap": summary["certified_gap"] / 2}
    signed = "in summary.json disagrees with what the sites signed"
    lie(f"'certified_gap' {signed}", summary | best)
    lie(f"'accuracy' {signed}", summary | {"accuracy": 0.99})
    for wrong in ({"members": {"site-1": 900}}, {"test_accuracy": 0.99}, {"uploads": 1}):
        name = repr(next(iter(wrong)))
        lie(f"{name} in summary.json disagrees with the ledger", summary | wrong)
    lie(f"'certified_gap' {signed}", summary | {"certified_gap": 10**400})
    twice = json.dumps(best)[:-1] + ", " + json.dumps(summary)[1:]
    lie("one name is in this file twice", {}, text=twice)
    other = io.BytesIO()
    np.savez(other, w=w + 1)  # a zip is read from its end, by some programs from its beginning
    model_file = kept[home.server / "model.npz"]
    for data in (other.getvalue() + model_file, model_file + b"more"):
        lie("the file has content that its own list of contents does not name", npz=data)
    for rounds in (4, None):  # then neither model nor certificate were looked at
        told = (
            "the number of rounds in summary.json is missing, or is not a whole number from 0 to "
        )
        lie(f"{told}3", summary | best | {"rounds": rounds}, w=w + 1)
    lie("is not the model that follows from the ledger", summary | {"rounds": 2})
    with np.load(home.server / "model.npz") as file:
        names = file["features"]
    lie("is not the model that follows from the ledger", w=w, features=names[::-1])
    lie("is not the model that follows from the ledger", w=w)
    lie("disagrees with what the sites signed", records={"vouched": lambda meta: None})
    lie("settings in the ledger", records={"founded": lambda meta: meta["terms"].update(l2=2000.0)})
    lie(
        "weights or the numbers of rows",
        records={"sealed": lambda meta: meta["members"][1].__setitem__(2, 9)},
    )
    lie("no site has signed the job", records={"sealed": joined})
    path, other = home.server / "roster.json", roster(("a", "b", "c")).to_json()
    own = path.read_bytes()
    path.write_bytes(other)
    lie("that is not in this folder: it is neither the current roster nor an earlier one")
    path.write_bytes(own)
    assert verify(home).earlier is None
    keep_earlier(home.server)
    path.write_bytes(other)
    before = verify(home).earlier
    assert before is not None
    assert before.roster.to_json() == own


def written(home):
    return list(home.ledger.parent.glob(f"{home.ledger.name}*"))


def joined(meta):
    return [
        ("joined", dict(zip(("client", "weight", "rows"), m, strict=True))) for m in meta["members"]
    ]


def forge(home, changes):
    """The whole ledger anew, with other records: a chain of hashes keeps nobody from it."""
    with Ledger(home.ledger, readonly=True) as old:
        name, entries = old.federation, list(old.entries())
        kept = [old.uploads(entry.epoch, entry.round) for entry in entries]
    for path in written(home):
        path.unlink()
    with Ledger(home.ledger, name) as new:
        for entry, uploads in zip(entries, kept, strict=True):
            meta, arrays = unpack(entry.body)
            held = [(entry.kind, meta)]
            if change := changes.get(entry.kind):
                held = change(meta) or (held if entry.kind != "vouched" else [])
            for kind, values in held:
                own = uploads if kind == "summed" else None
                new.append(kind, entry.epoch, entry.round, pack(values, arrays), own)


@pytest.mark.chaos
@pytest.mark.parametrize("algorithm", FIVE)
def test_all_methods_in_sums_as_in_the_clear(algorithm, tmp_path):
    made = {}
    for answers in ("each", "sum"):
        home = ridge(tmp_path / answers, answers, algorithm=algorithm, rounds=6)
        train(home, LocalNetwork(places(home)))
        made[answers] = model(home), inspect(home).summary
    (clear, plain), (summed, masked) = made["each"], made["sum"]
    np.testing.assert_allclose(summed, clear, rtol=0, atol=1e-10)
    for name in ("objective", "lower_bound", "certified_gap"):
        np.testing.assert_allclose(masked[name], plain[name], rtol=0, atol=1e-8)


def test_a_sum_that_proves_too_much_proves_nothing(tmp_path, monkeypatch):
    """A site that lies cannot be named in sums, and its lie is not taken for a proof."""
    home, honest = ridge(tmp_path / "f", "sum", rounds=1), _masked_training.certificate_part

    def bent(f, w, point):
        part = honest(f, w, point)
        return part._replace(at_own=part.at_own._replace(constant=part.at_own.constant + 10.0))

    monkeypatch.setattr(_masked_training, "certificate_part", bent)
    train(home, LocalNetwork(places(home)))
    assert (
        "all sites: the numbers for the certificate cannot be right, because a tangent of the "
        "objective is above the objective"
    ) in reasons(home)
    assert "certified_gap" not in inspect(home).summary


class Captured(BaseException):
    """With a request that was about to be answered."""


def captured(home, wanted: str, after: int = 0) -> bytes:
    """The first question of a kind for the first site, once so many rounds are over."""

    class Watching(LocalNetwork):
        def ask(self, requests, seconds, work, stop):
            due = 1 in requests and unpack_message(requests[1]).kind == wanted
            if due and (after == 0 or len(sums(home)) == after):
                raise Captured(requests[1])
            yield from super().ask(requests, seconds, work, stop)

    with pytest.raises(Captured) as caught:
        train(home, Watching(places(home)))
    return caught.value.args[0]


def test_a_person_agrees_to_a_job_once(tmp_path):
    """By the careful policy, which judges the rows of the smallest cohort."""
    home = ridge(tmp_path / "f", "sum", rounds=3)
    request, site = captured(home, "training"), places(home)[0]
    said = lambda data: unpack_message(answer(data, site))
    rules = lambda text, trains="training = true": (site.folder / FILE).write_text(
        f"{text}\n{trains}\ncomplete = true\n"
    )
    refused = lambda: read_refusal(said(request)).reason
    rules("", trains="")
    assert "its policy does not allow trainings (training = false in policy.toml)" in refused()
    rules("")
    assert (
        "13 parameters from a sum over 112 rows (max_parameters_per_row = 0.1 in policy.toml)"
        in refused()
    )
    rules("max_parameters_per_row = 0.2\nmax_exchanges = 2")
    assert "3 rounds (max_exchanges = 2 in policy.toml)" in refused()
    rules("max_parameters_per_row = 0.2\nmin_sites = 5")
    assert "a sum over only 4 sites (min_sites = 5 in policy.toml)" in refused()
    rules("max_parameters_per_row = 0.2")
    assert WAITS in refused()
    (id,) = waiting(site.folder)
    told = "\n".join(words_of(site.folder, id))
    assert "rounds: at most 3" in told
    counts = re.search(
        r"numbers that leave in all rounds: (\d+); numbers in the data of this site: (\d+)", told
    )
    rows = re.search(r"rows: (\d+), parameters: 13", told)
    assert counts is not None
    assert rows is not None
    assert int(counts[2]) == int(rows[1]) * 14  # 13 columns and the outcome
    certificate = 13 + 2 + 2 * (13 + 3)  # the dual, two numbers, two tangents
    assert int(counts[1]) == 3 * 13 + certificate
    assert "NOTE: no rule checks the answers of a training" in told
    assert "Approve only if you trust all sites and the coordinator" in told
    assert "l2 = 20.0, seed = 0" in told
    assert "who takes part: 'site-1', 'site-2', 'site-3', 'site-4'" in told
    approve(site.folder, id)
    assert RULED in refused()  # 14 columns of few rows
    rules("max_parameters_per_row = 0.2\nmax_leverage = 1")
    first = said(request)
    assert first.kind == "nonce"
    assert said(request).meta == first.meta, "the same nonce again"
    job = json.loads(unpack_message(request).meta["job"])
    for name, wrong, why in (
        ("version", "0", "the job is for feddcd 0, and this site has"),
        ("mode", "each", "not in the cohort of the job, or the mode of the job is not 'sum'"),
        (
            "cohort",
            job["cohort"][:3],
            "the settings of the training are not for sums over the 3 sites of the job",
        ),
        ("roster", "00", "the job is for another roster"),
    ):
        text = canonical(job | {name: wrong}).decode()
        lie = pack_message(Envelope("training", {"job": text}, {}))
        assert why in read_refusal(said(lie)).reason, name


def test_every_certificate_and_every_entry_of_an_upload_counts(tmp_path):
    """A certificate after each of two rounds: two values, two scores and tangents of 13 numbers."""
    home = ridge(tmp_path / "f", "sum", rounds=2, certify_every=1, target_gap=1e-30)
    own = "approve = 'none'\nmax_parameters_per_row = 0.2\nmax_leverage = 1\ntraining = true\n"
    for place in places(home):
        (place.folder / FILE).write_text(own + "complete = true\n")
    train(home, LocalNetwork(places(home)))
    site = places(home)[0]
    (job,) = Memory(site.folder, site.data).jobs().values()
    certificates = [name for name in job["questions"] if name.startswith("certificate")]
    assert len(certificates) == 2
    told = Memory(site.folder, site.data).told()
    assert told >= 2 * 13 + 2 * (2 * 13 + 2), told


def mutants(request: bytes, count: int, seed: int):
    """Questions that differ from this one in one field: a byte of an array, a number or a text, a
    part left out or twice."""
    draw = random.Random(seed)
    kind, meta, arrays = unpack_message(request)
    for _ in range(count):
        said, held = copy.deepcopy(meta), dict(arrays)
        name, way = draw.choice(sorted(held)), draw.randrange(6)
        if way < 2:
            held[name] = held[name].copy()
            held[name][draw.randrange(len(held[name]))] ^= 1 << draw.randrange(8)
        elif way == 2:
            held[name] = held[draw.choice(sorted(held))]
        elif way == 3:
            held[name] = held[name][: draw.randrange(len(held[name]))]
        elif way == 4:
            site = draw.choice(sorted(said["nonces"]))
            text = said["nonces"][site]
            at = draw.randrange(len(text))
            said["nonces"][site] = text[:at] + draw.choice("0123456789abcdef") + text[at + 1 :]
        else:
            entry = draw.choice(said["told"])
            odd = draw.choice([0, -1, 99, "1", None, [], ["site-1"], {}, 1.5, True])
            entry[draw.randrange(2)] = odd
        yield Envelope(draw.choice([kind] * 20 + ["certificate", "round"]), said, held)


@pytest.mark.chaos
def test_no_mutant_of_a_question_gets_another_answer(tmp_path):
    home = ridge(tmp_path / "f", "sum", rounds=4, settings={"start": "model"})
    request, site = captured(home, "round", after=2), places(home)[0]
    kept = tmp_path / "kept"
    shutil.copytree(site.folder, kept)
    honest = answer(request, site)
    assert unpack_message(honest).kind == "masked"
    same = others = 0
    for mutant in mutants(request, MUTANTS, 0):
        shutil.rmtree(site.folder)
        shutil.copytree(kept, site.folder)
        said = answer(pack_message(mutant), site)
        same += said == honest
        others += unpack_message(said).kind == "refusal"
        assert said == honest or unpack_message(said).kind == "refusal"
    assert others > 0.7 * MUTANTS, (same, others)


def test_what_cannot_be_summed_is_refused_by_name(tmp_path):
    with pytest.raises(
        SpecError, match="a round needs at least 3 sites, so tau must be at least 3; got tau=2"
    ):
        Config("f", Spec(tau=2), answers="sum")
    with pytest.raises(SpecError, match="fednewton is not possible with answers = 'sum'"):
        Config("f", Spec(algorithm="fednewton"), answers="sum")
    with pytest.raises(SpecError, match="with answers = 'sum', fedqn needs every site in every"):
        Config("f", Spec(algorithm="fedqn", tau=3), answers="sum")
    Config("f", Spec(algorithm="fedqn"), answers="sum")
    with pytest.raises(
        SpecError, match="the setting `answers` must be 'sum' or 'each', not 'some'"
    ):
        Config("f", answers="some")
