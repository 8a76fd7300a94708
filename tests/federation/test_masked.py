"""Jobs of masked sums: sites that believe nothing, a coordinator that is only an adder."""

import dataclasses
import json
import os
import shutil
from base64 import b64encode
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from disks import Crash, in_memory
from feddcd import FederatedGLM
from feddcd import _files as files
from feddcd._errors import DataError, FeddcdError, Refused, SpecError, Stalled
from feddcd.analysis.plan import RegressionPlan
from feddcd.cli._federation import verify_command
from feddcd.cli.app import main
from feddcd.durable.codec import pack, unpack
from feddcd.durable.mask_keys import MaskKeys
from feddcd.federation import sign_up
from feddcd.federation._next_step import start_again
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator._ending import next_step
from feddcd.federation.coordinator._masked import _one_form
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.following import FollowedJob
from feddcd.federation.machine.init import create
from feddcd.federation.machine.studies import want
from feddcd.federation.roster import load_roster
from feddcd.federation.site import _job_file, _masked
from feddcd.federation.site import _job_file as job
from feddcd.federation.site.answer import answer
from feddcd.federation.site.approval import approve, deny, over, waiting, words_of
from feddcd.federation.site.ended import ended_studies
from feddcd.federation.site.log import read_log, verify_log
from feddcd.federation.site.told import REFUSED
from feddcd.federation.verify import (
    _same_cell,
    check_own,
    check_roster,
    check_table,
    in_other_words,
    not_compared,
    verify_proof,
)
from feddcd.federation.wire import Envelope, Refusal, pack_message, read_refusal, unpack_message
from feddcd.sums import masks
from feddcd.sums.chain import new_secret
from feddcd.sums.proof import JobProof
from local_network import LocalNetwork, events
from slices import thinned

SITES = ("east", "north", "south")
FORMULA = "y ~ age + sex"


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PAUSE_S", 0.01)
        patch.setattr(files, "_flush", lambda handle: None)
        yield


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def patients(n=120):
    rng = np.random.default_rng(1)
    d = pd.DataFrame({"age": rng.normal(60, 10, n), "sex": rng.choice(["f", "m"], n)})
    d["y"] = 0.1 * d.age + (d.sex == "m") + rng.normal(size=n)
    d.loc[5, "age"] = np.nan
    return d.assign(site=np.array(SITES)[np.arange(n) % 3])


def parts(d):
    return {site: rows.drop(columns="site") for site, rows in d.groupby("site")}


def made(folder, plan=None, data=None, **options):
    plan = plan or RegressionPlan(FORMULA, "gaussian", answers="sum")
    data = parts(patients()) if data is None else data
    config = Config("test", plan=plan, **{"patience": 5.0, **options})
    return create(folder / "fed", list(data), config, data=data)


def places(home):
    return [load_place(home.site(site)) for site in home.invited()]


def run(home, network=None):
    network = network or LocalNetwork(places(home))
    coordinate(network, {"folder": str(home.path)}, lambda event: None)
    return network


def table(home):
    return pd.read_csv(home.server / "glm" / "coefficients.csv", index_col="name")


@pytest.fixture(scope="module")
def finished():
    """A job that was run, all that was said in it (site, request, answer), and each site's folder
    as it was before it was asked."""
    with in_memory() as folder:
        home, said, before = made(folder), [], {}
        network = LocalNetwork(places(home))

        def ask(requests, seconds, work, stop):
            for node, request in requests.items():
                place = network.places[node]
                kept = folder / "before" / str(len(said))
                shutil.copytree(place.folder, kept)
                before[request, place.client] = kept
                data = answer(request, place)
                said.append((place.client, request, data))
                yield node, data

        network.ask = ask
        run(home, network)
        yield home, said, before


@pytest.fixture
def home(finished, tmp_path):
    """A copy of it."""
    shutil.copytree(finished[0].path, tmp_path / "fed")
    return FederationFolder(tmp_path / "fed")


def kinds(said, kind):
    return [each for each in said if unpack_message(each[1]).kind == kind]


def reason(data):
    envelope = unpack_message(data)
    return envelope.meta["reason"] if envelope.kind == "refusal" else ""


def test_the_table_is_that_of_pooled_rows_and_the_proof_shows_it(finished):
    home, said, _ = finished
    model = FederatedGLM("gaussian", FORMULA).fit(patients(), groups="site")
    np.testing.assert_allclose(table(home), model.original_table_, rtol=1e-9)
    found = verify_proof(JobProof.read(home.server / "proof"))
    check_table(found, home.server / "glm" / "coefficients.csv")
    assert found.result.n_dropped == 1
    assert found.result.n_rows == 119
    assert [line.split(":")[0] for line in found.said()] == list(SITES)
    kinds = {unpack_message(request).kind for _, request, _ in said}
    assert kinds == {"hello", "columns", "job", "exchange", "ended"}
    ended = json.loads((home.server / "glm" / "model.json").read_text())
    assert {row["rows"] for row in ended["site_counts"].values()} == {-1}


def test_sites_may_have_the_names_of_files(tmp_path):
    """The coordinator keeps its question under 0001."""
    names = ("0001", "job", "proof")
    home = made(tmp_path, data=dict(zip(names, parts(patients()).values(), strict=True)))
    run(home)
    assert verify_proof(JobProof.read(home.server / "proof")).proof.job.cohort == names


@pytest.mark.parametrize(("part", "lie"), thinned([("n", 0.5), ("support", 9.0)], 2))
def test_a_site_that_sends_no_counts_ends_the_job_and_not_the_coordinator(
    tmp_path, monkeypatch, part, lie
):
    """Half a row is noise in all counts. The job is over, and is not taken up again."""
    home, honest = made(tmp_path), _masked._made

    def lying(values, layout, follow, me, *rest):
        if me.name == "east" and follow.number == 0:
            values = {**values, part: np.full_like(values[part], lie)}
        return honest(values, layout, follow, me, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(_masked, "_made", lying)
        with pytest.raises(
            FeddcdError, match=r"a site sent wrong counts: the sum of '\w+' has an imposs"
        ):
            run(home)
    assert not (home.server / "jobs" / "current").exists()
    run(home)
    assert table(home).shape[0] == 3


def test_who_answers_in_another_form_than_the_others_is_named():
    assert _one_form({"a": b"x", "b": b"x"}) == b"x"
    odd = "the answer of this site has another form than most answers"
    all_odd = "the answers of these sites have different forms"
    for forms, named, how in (
        ("xxy", "c", odd),
        ("xyx", "b", odd),
        ("xxyy", "a, b, c, d", all_odd),
        ("xyz", "a, b, c", all_odd),
    ):
        given = {site: form.encode() for site, form in zip("abcd", forms, strict=False)}
        with pytest.raises(
            DataError, match=f"^{named}: {how}, so feddcd cannot add up the answers$"
        ):
            _one_form(given)


def test_what_a_site_says_is_noise_without_the_others(finished):
    """No number of a site's answer in any request or reply, and no two masked texts alike."""
    _, said, _ = finished
    words = [unpack_message(data).arrays["words"].tobytes() for *_, data in kinds(said, "exchange")]
    assert len(set(words)) == len(words)
    each = np.concatenate([np.frombuffer(w, np.uint8) for w in words])
    share = np.bincount(each, minlength=256) / len(each)
    assert abs(share - 1 / 256).max() < 6 * np.sqrt(1 / 256 / len(each))


def test_asked_again_a_site_sends_the_same_bytes(home, finished):
    for site, request, data in kinds(finished[1], "exchange"):
        assert answer(request, load_place(home.site(site))) == data
    assert verify_log(home.site("east")).lines > 6


LOST = "this site lost its file of this job, or has an old copy"


def last(finished, site="east"):
    return [each[1:] for each in kinds(finished[1], "exchange") if each[0] == site][-1]


def forget(home, number=2):
    """As if exchange `number` had not been yet."""
    for path in (home.site("east") / "jobs").glob(f"*/{number:04}*"):
        path.unlink()


def cut_log(home, lines):
    path = home.site("east") / "outgoing.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))


def test_a_site_with_an_older_or_lost_file_refuses(home, finished):
    request, _ = last(finished)
    place = load_place(home.site("east"))
    forget(home)
    assert LOST in reason(answer(request, place))
    shutil.rmtree(home.site("east") / "jobs")
    assert LOST in reason(answer(request, place))
    [founding] = [r for site, r, _ in kinds(finished[1], "job") if site == "east"]
    assert LOST in reason(answer(founding, place))


CHANGED = {
    "no bins": ("policy.toml", 'kinds = ["columns", "moments", "hessian"]\n'),
    "fewer rows in a bin": ("policy.toml", "min_per_level = 40\n"),
    "a codebook": ("codebook.toml", '[columns.age]\ntype = "number"\nrange = [30, 60]\n'),
    "how missing values are written": ("site.toml", 'na = ["50"]\n'),
}


@pytest.mark.parametrize("what", CHANGED)
def test_an_old_copy_of_a_site_makes_no_other_answer(home, finished, tmp_path, what):
    """A folder from a backup, or a copy that is at work elsewhere, has the nonce and the keys:
    another answer to the same question would have the same mask, and both can be subtracted."""
    _, said, before = finished
    site, request, data = kinds(said, "exchange")[-1]
    folder = tmp_path / "copy"
    shutil.copytree(before[request, site], folder)
    place = load_place(home.site(site))._replace(folder=folder, read=None)
    assert answer(request, place) == data, "the same bytes"
    shutil.rmtree(folder)
    shutil.copytree(before[request, site], folder)
    name, text = CHANGED[what]
    path = folder / name
    held = path.read_text() if path.exists() else ""
    path.write_text(f"{text}{held}")
    if name == "site.toml":
        place = place._replace(how=place.how._replace(na=("50",)))
    told = "the feddcd version of this site changed after the job began"
    assert told in reason(answer(request, place))


def test_a_site_whose_log_is_older_than_its_file_refuses(home, finished):
    """As after a backup of the log alone."""
    place = load_place(home.site("east"))
    for path in home.site("east").glob("*outgoing.jsonl*"):
        path.unlink()
    assert LOST in reason(answer(last(finished)[0], place))


def test_what_a_crash_left_of_a_line_of_the_log_stops_no_job(home, finished):
    request, data = last(finished)
    path = home.site("east") / "outgoing.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    id = unpack_message(request).meta["id"].encode()
    path.write_bytes(b"".join(lines) + [line for line in lines if id in line][-1][:-9])
    assert answer(request, load_place(home.site("east"))) == data


def test_jobs_that_are_begun_again_and_again_fill_no_disk(home, finished, monkeypatch):
    """Each is approved with the first; one that gave way does not go on."""
    monkeypatch.setattr(_job_file, "MOST_IDLE", 3)
    place = load_place(home.site("east"))
    [founding] = [r for site, r, _ in kinds(finished[1], "job") if site == "east"]
    envelope, begun = unpack_message(founding), []
    for n in range(6):
        begun.append(f"{n:032x}")
        again = envelope._replace(meta=envelope.meta | {"id": begun[-1]})
        assert unpack_message(answer(pack_message(again), place)).kind == "job"
    there = sorted(path.name for path in (place.folder / "jobs").glob("*/"))
    assert there == sorted([*begun[-3:], envelope.meta["id"]]), "the one with answers stays"
    # nor does the first question of each, with the nonces that the other sites signed once
    [counts, *_] = [r for site, r, _ in kinds(finished[1], "exchange") if site == "east"]
    for n in range(6, 12):
        again = envelope._replace(meta=envelope.meta | {"id": f"{n:032x}"})
        said = unpack_message(answer(pack_message(again), place)).meta
        first = unpack_message(counts)
        nonces = first.meta["nonces"] | {"east": [said["nonce"], said["signature"]]}
        asked = first._replace(meta=first.meta | {"id": f"{n:032x}", "nonces": nonces})
        assert unpack_message(answer(pack_message(asked), place)).kind == "exchange"
    assert len(list((place.folder / "jobs").glob("*/"))) == 4
    old = pack_message(envelope._replace(meta=envelope.meta | {"id": begun[0]}))
    assert LOST in reason(answer(old, place))


def test_a_damaged_file_is_refused(home, finished):
    place = load_place(home.site("east"))
    [path] = (home.site("east") / "jobs").glob("*/0002")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40] + b"x" + whole[-39:])
    assert "this site's file of this job is damaged" in reason(answer(last(finished)[0], place))
    assert "0002 is damaged" in place.log.read_text()


def test_another_question_in_an_answered_exchange_is_refused(home, finished):
    request, _ = last(finished)
    envelope = unpack_message(request)
    question = envelope.arrays["question"].tobytes()
    meta, arrays = unpack(question)
    arrays["w"] = arrays["w"] + 1e-12
    other = envelope.arrays | {"question": np.frombuffer(pack(meta, arrays), np.uint8)}
    asked = pack_message(envelope._replace(arrays=other))
    said = reason(answer(asked, load_place(home.site("east"))))
    assert "already asked another question in this exchange" in said


class Network(LocalNetwork):
    """Whose coordinator is killed at the n-th message."""

    def __init__(self, places, kill=10**9, change=lambda site, request: None):
        super().__init__(places)
        self.kill, self.count, self.change, self.crashes = kill, 0, change, 0

    def ask(self, requests, seconds, work, stop):
        for node, request in requests.items():
            place = self.places[node]
            self.count += 1
            if self.count == self.kill:
                raise Crash
            self.change(place, request)
            try:
                data = answer(request, place)
                self.heard.append((place.client, data))
            except Crash:
                data, self.crashes = None, self.crashes + 1
            yield node, data


def test_a_coordinator_that_is_killed_at_any_message_goes_on(tmp_path):
    home = made(tmp_path)
    whole = FederationFolder(tmp_path / "whole")
    shutil.copytree(home.path, whole.path)
    run(whole, Network([load_place(whole.site(s)) for s in SITES]))
    kill, starts = 7, 0  # after greetings and columns
    while True:
        starts += 1
        try:
            run(home, Network(places(home), kill=kill))
            break
        except Crash:
            kill = 5  # three greetings, and one answer more; at the end all three are told
            kill = 8 if (home.server / "proof").exists() else kill
    assert starts > 5
    assert len(list((home.server / "jobs").glob("*/job"))) == 1
    pd.testing.assert_frame_equal(table(home), table(whole))
    verify_proof(JobProof.read(home.server / "proof"))
    told = [event["exchange"] for event in events(home, "exchange")]
    assert told == [*range(1, len(told) + 1)], "an exchange from disk is not told again"
    assert {event["exchange"] for event in events(home, "continues")} <= {*told}
    assert events(home, "continues")
    assert not events(whole, "continues")


STEPS = ("let_go", "found", "hold", "note", "keep_sums")
LATER = [pytest.param(step, marks=pytest.mark.chaos) for step in STEPS[1:]]


@pytest.mark.parametrize("step", [STEPS[0], *LATER])
def test_a_site_that_is_killed_at_any_step_goes_on(tmp_path, monkeypatch, step):
    """After the step, or before it: what was about to leave is what leaves."""
    home, kept, crashes = made(tmp_path), getattr(job.JobFile, step), []

    def crash(self, *args, **options):
        crashes.append(self.site.name)
        if len(crashes) % 3 == 1:
            raise Crash
        kept(self, *args, **options)
        if len(crashes) % 3 == 2:
            raise Crash

    monkeypatch.setattr(job.JobFile, step, crash)
    network = Network(places(home))
    run(home, network)
    assert crashes
    assert network.crashes > 3
    verify_proof(JobProof.read(home.server / "proof"))
    for site in SITES:
        verify_log(home.site(site))


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_a_site_that_is_killed_when_it_forgets_keys_goes_on(tmp_path, monkeypatch, after):
    home, kept, crashes = made(tmp_path), MaskKeys.forget, []

    def crash(self, label, number, start):
        if (self.base, number) in crashes:
            return kept(self, label, number, start)
        crashes.append((self.base, number))
        if after:
            kept(self, label, number, start)
        raise Crash

    monkeypatch.setattr(MaskKeys, "forget", crash)
    run(home, network := Network(places(home)))
    assert network.crashes == len(crashes) > 6
    verify_proof(JobProof.read(home.server / "proof"))


class Thief:
    """Keeps all keys that ever were, and looks for them in the files of a site."""

    def __init__(self, monkeypatch):
        self.used = {}  # (site, exchange): what opens its mask
        real = masks.masked

        def masked(words, layout, chain, me, *rest):
            self.used[me, chain.number] = set(chain.keys.values())
            return real(words, layout, chain, me, *rest)

        monkeypatch.setattr(_masked, "masked", masked)
        monkeypatch.setattr(_masked, "new_secret", self.secret)
        self.secrets = []

    def secret(self):
        self.secrets.append(new_secret())
        return self.secrets[-1]

    def found(self, folder):
        """The exchanges whose keys lie in a folder, as bytes or as letters."""
        whole = b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        there = lambda key: any(x in whole for x in (key, key.hex().encode(), b64encode(key)))
        exchanges = {n for (_, n), keys in self.used.items() if any(map(there, keys))}
        return exchanges | {-1 for secret in self.secrets if there(secret)}


def test_past_masks_are_in_no_file_of_a_site(tmp_path, monkeypatch):
    """Who steals all files of all sites, their long-term keys too, opens no answer that left: each
    key of a mask is gone before its answer leaves. Before the first one, it would be found."""
    home, thief, seen = made(tmp_path), Thief(monkeypatch), []

    def look(place, request):
        envelope = unpack_message(request)
        if envelope.kind in ("exchange", "ended"):
            found = thief.found(home.path / "sites")
            seen.append((envelope.meta.get("number"), found))

    network = Network(places(home), change=look)
    run(home, network)
    assert len(thief.used) == 3 * len({number for _, number in thief.used})
    assert all(found == {-1} for number, found in seen[:1]), "the thief looks well"
    # the two of a pair have one key: it is gone when both have answered
    assert all(min(found, default=number) >= number for number, found in seen if number)
    assert all(not found for number, found in seen if number is None)
    files = [path for site in SITES for path in (home.site(site) / "jobs").rglob("*")]
    assert {path.name for path in files if path.suffix} == {".jobs.lock", *(
        f"{n:04}.sums" for n in range(len(thief.used) // 3 - 1))}  # fmt: skip
    assert thief.found(home.path) == set(), "nor at the coordinator, nor in the proof"
    ended = ended_studies(home.site("east"))
    assert [end.words() for _, end in ended] == [
        "ended with a result; you do not have to decide anything"
    ]
    verify_proof(JobProof.read(home.server / "proof"))


def test_who_never_hears_the_end_keeps_only_keys_of_answers_that_were_not_made(
    tmp_path, monkeypatch
):
    home, thief = made(tmp_path), Thief(monkeypatch)
    run(home, LocalNetwork(places(home), lambda site, kind: "request" if kind == "ended" else None))
    left = [path for site in SITES for path in home.site(site).glob("jobs/*/mask.*")]
    assert len(left) == 3
    assert thief.found(home.path / "sites") == set()
    last = max(number for _, number in thief.used)
    own = [path.name for path in home.site("east").glob("jobs/*/*.own")]
    assert own == [f"{last:04}.own"], "which the site needs, if one more question comes"


def test_after_the_end_a_job_sends_what_it_sent_and_nothing_else(home, finished, tmp_path):
    _, said, before = finished
    *_, earlier, (site, request, _) = [
        each for each in kinds(said, "exchange") if each[0] == "east"
    ]
    shutil.copytree(before[request, site], tmp_path / "copy")
    place = load_place(home.site(site))._replace(folder=tmp_path / "copy")
    ended = Envelope("ended", {"study": "federation", "why": "done", "sites": {}}, {})
    assert unpack_message(answer(pack_message(ended), place)).kind == "ended"
    assert not list((tmp_path / "copy").glob("jobs/*/mask.*"))
    told = "this site's file of the job lacks the last answer of this site; start a new job"
    assert told in reason(answer(request, place))
    assert answer(earlier[1], place) == earlier[2]


def change(place, request):
    """The data of one site, in the midst of a job."""
    envelope = unpack_message(request)
    if envelope.kind == "exchange" and envelope.meta["number"] == 2 and place.client == "east":
        d = pd.read_csv(place.data)
        d.loc[0, "age"] += 1
        d.to_csv(place.data, index=False)


def four_sites():
    d = patients(160)
    return d.assign(site=np.array([*SITES, "west"])[np.arange(160) % 4])


def test_a_job_without_a_site_that_refused_is_founded_where_the_plan_says_so(tmp_path):
    d = four_sites()
    plan = RegressionPlan(FORMULA, "gaussian", go_on_without=True)
    home = made(tmp_path, plan, parts(d))
    run(home, Network(places(home), change=change))
    [ended] = events(home, "finished")
    assert (ended["sites"], ended["refused"]) == (["north", "south", "west"], ["east"])
    model = FederatedGLM("gaussian", FORMULA).fit(d[d.site != "east"], groups="site")
    np.testing.assert_allclose(table(home), model.original_table_, rtol=1e-9)


def test_changed_data_are_refused(tmp_path):
    home = made(tmp_path, data=parts(four_sites()))
    with pytest.raises(DataError, match=r"Refused: east: the data, the codebook, the policy"):
        run(home, Network(places(home), change=change))
    assert not (home.server / "glm").exists()


def test_a_site_that_is_away_is_waited_for(tmp_path):
    home, there = made(tmp_path, patience=0.05), []
    fault = lambda site, kind: "request" if kind == "exchange" and site == "south" else None
    with pytest.raises(Stalled, match=r"no answer from these sites: south\. Nothing is lost"):
        run(home, LocalNetwork(places(home), fault))
    again = LocalNetwork(places(home), lambda site, kind: there.append((site, kind)))
    run(home, again)
    assert ("south", "exchange") in there
    assert not [each for each in there if each[1] in ("columns", "job")]
    assert events(home, "goes on")


@pytest.mark.parametrize("how", ["job", pytest.param("answer", marks=pytest.mark.chaos)])
def test_a_site_that_waits_for_its_administrator_is_waited_for(tmp_path, how):
    home, approved = made(tmp_path, patience=0.05), 0
    loose = (home.site("east") / "policy.toml").read_text()
    assert 'approve = "none"' in loose
    (home.site("east") / "policy.toml").write_text(loose.replace('"none"', f'"{how}"'))
    while not (home.server / "proof").exists():
        with suppress(Stalled):
            run(home)
        for id in waiting(home.site("east")):
            approve(home.site("east"), id)
            approved += 1
    assert approved == (1 if how == "job" else 4)  # names, then three answers
    assert len(list((home.server / "jobs").glob("*/job"))) == 1
    assert not [line for line in log_of(home, "east") if "refused" in line]


def test_a_table_under_the_careful_rules(tmp_path):
    """Of all that is not written in a policy; only the person is left out."""
    home = made(tmp_path, RegressionPlan(FORMULA, "gaussian"))
    for site in SITES:
        (home.site(site) / "policy.toml").write_text('approve = "none"\ncomplete = true\n')
    run(home)
    model = FederatedGLM("gaussian", FORMULA).fit(patients(), groups="site")
    np.testing.assert_allclose(table(home), model.original_table_, rtol=1e-9)
    shutil.rmtree(home.path)
    home = made(tmp_path, RegressionPlan(FORMULA, "gaussian"))
    careful = 'approve = "none"\nmax_parameters_per_row = 0.02\ncomplete = true\n'
    (home.site("north") / "policy.toml").write_text(careful)
    with pytest.raises(
        DataError, match=r"north: .* 3 parameters from a sum over 119 rows \(max_parameters"
    ):
        run(home)  # which it judges by the rows of all sites


def log_of(home, site):
    return [
        json.loads(line) for line in (home.site(site) / "outgoing.jsonl").read_bytes().splitlines()
    ]


def test_a_job_that_was_begun_twice_is_answered_once(tmp_path):
    """Begun under two names before either is answered: with the second a coordinator that owns a
    site would ask other questions about the same rows, and no person would know."""
    home, twin, said = made(tmp_path, data=parts(patients())), "0" * 32, {}
    for site in SITES:
        (home.site(site) / "policy.toml").write_text('approve = "none"\ncomplete = true\n')

    def also(place, request):
        envelope = unpack_message(request)
        if envelope.kind == "job" and place.client not in said:
            other = {"id": twin, "about": {"study": "second"}}  # which does not end with the first
            second = envelope._replace(meta=envelope.meta | other)
            said[place.client] = unpack_message(answer(pack_message(second), place)).meta

    run(home, Network(places(home), change=also))
    proof = JobProof.read(home.server / "proof")
    follow = FollowedJob(proof.job)
    nonces = {site: [said[site]["nonce"], said[site]["signature"]] for site in SITES}
    meta = {"id": twin, "nonces": nonces, "number": 0, "signatures": {}}
    ask = lambda arrays: {
        place.client: unpack_message(
            answer(pack_message(Envelope("exchange", meta, arrays)), place)
        )
        for place in places(home)
    }
    first = ask({"question": np.frombuffer(follow.question, np.uint8)})
    assert {each.kind for each in first.values()} == {"exchange"}, "counts, which are no secret"
    follow.take(proof.sums(0))
    meta |= {"number": 1, "signatures": {s: e.meta["signature"] for s, e in first.items()}}
    words = {f"of {site}": each.arrays["words"] for site, each in first.items()}
    again = ask({"question": np.frombuffer(follow.question, np.uint8), **words})
    for each in again.values():
        assert "a job that the site answered before" in read_refusal(each).reason


def test_no_site_can_refuse_in_words_that_verify_refuses(tmp_path):
    """It may say what it likes, and the table of the others is still proven."""
    home = made(tmp_path, data=parts(four_sites()))
    network, words = Network(places(home)), f"no\r\nage  9.9 \x1b[2J {'x ' * 4000}"
    honest = network.ask

    def ask(requests, seconds, work, stop):
        for node, data in honest(requests, seconds, work, stop):
            west = network.places[node].client == "west"
            if west and unpack_message(requests[node]).kind == "columns":
                data = pack_message(Refusal("west", words))
            yield node, data

    network.ask = ask
    run(home, network)
    told = (home.server / "glm" / "summary.txt").read_text()
    assert "Not part of this table: west: no age 9.9" in told
    found = verify_proof(JobProof.read(home.server / "proof"))
    assert "summary.txt" in check_table(found, home.server / "glm" / "coefficients.csv")


def test_a_site_that_refuses_at_the_founding_is_left_out(tmp_path):
    d = four_sites()
    home = made(tmp_path, data=parts(d))
    own = 'approve = "none"\nmethods = ["feddcd"]\ncomplete = true\n'
    (home.site("west") / "policy.toml").write_text(own)
    run(home)
    [ended] = events(home, "finished")
    assert (ended["sites"], ended["refused"]) == (list(SITES), ["west"])
    model = FederatedGLM("gaussian", FORMULA).fit(d[d.site != "west"], groups="site")
    np.testing.assert_allclose(table(home), model.original_table_, rtol=1e-9)


@pytest.mark.parametrize("lost", [("sum.keys", False), ("roster.json", True)])
def test_a_site_with_other_keys_or_another_roster_takes_no_part(home, finished, lost):
    """New keys are in no roster until all have signed one; then old jobs do not go on."""
    name, new = lost
    place = load_place(home.site("east"))
    sign_up.new_member(place.folder, "east")
    request, _ = last(finished)
    assert "keys are not in the roster" in reason(answer(request, place))
    if new:
        sign_up.propose(home.server, [sign_up.read_member(place.folder / sign_up.MEMBER)])
        for site in SITES:
            roster = sign_up.sign(home.site(site), home.server / name)
        assert sign_up.unsigned(roster) == []
        for site in SITES:
            assert sign_up.sign(home.site(site), home.server / name).check()
        assert "the job is for another roster" in reason(answer(request, place))
        words = roster.words()
        run(home)
        found = verify_proof(JobProof.read(home.server / "proof"))
        assert found.proof.roster.words() == words


def test_a_roster_that_lacks_a_signature_founds_nothing(home):
    sign_up.new_member(home.site("east"), "east")
    sign_up.propose(home.server, [sign_up.read_member(home.site("east") / sign_up.MEMBER)])
    sign_up.sign(home.site("north"), home.server / "roster.json")
    with pytest.raises(SpecError, match="the site 'east' has not signed the roster"):
        run(home)


def test_sums_are_the_default_from_three_sites_on(tmp_path):
    plan = RegressionPlan(FORMULA, "gaussian")
    home = made(tmp_path, plan)
    run(home)
    assert (home.server / "proof").exists()
    two = {site: rows for site, rows in parts(patients()).items() if site != "east"}
    run(other := made(tmp_path / "two", plan, two))
    assert not (other.server / "proof").exists()
    assert (table(other).index == table(home).index).all()


ALLOWED = 'answers = "each"\napprove = "none"\nmin_sites = 2\ncomplete = true\n'
LEFT = r"a sum needs at least 3 sites, and only north and south can take part\."


@pytest.mark.parametrize("how", ["denied", "uninvited", "away"])
def test_sums_never_become_answers_of_single_sites_without_a_word(tmp_path, how):
    """Who asked for nothing gets no table of two sites, whatever their policies allow."""
    home = made(tmp_path, RegressionPlan(FORMULA, "gaussian"), patience=0.05)
    lost = lambda site, kind: "request" if how == "away" and site == "east" else None
    if how == "denied":
        (home.site("east") / "policy.toml").write_text("columns = ['y']\ncomplete = true\n")
    elif how == "uninvited":
        home.key("east").unlink()
    network = LocalNetwork(places(home), lost)
    with pytest.raises(DataError, match=LEFT) as found:
        run(home, network)
    assert ("Refused: east: its policy" in str(found.value)) == (how == "denied")
    # the people at east decide, and are asked first
    assert ("--mode each" in str(found.value)) == (how != "denied")
    assert "north:" not in str(found.value)
    assert "south:" not in str(found.value)
    assert "sums" not in {kind for _, kind in network.messages}
    assert not (home.server / "glm").exists()


@pytest.mark.parametrize("what", ["names", "job"])
def test_who_denied_is_named_and_nobody_else(tmp_path, what):
    """A person at one of three sites denies the names of columns, or the job after them."""
    text = "y ~ age" if what == "job" else FORMULA  # of words the levels are asked for first
    home = made(tmp_path, RegressionPlan(text, "gaussian"), patience=0.05)
    careful = 'approve = "job"\nsmall_cells = "sum"\ncomplete = true\n'
    (home.site("north") / "policy.toml").write_text(careful)
    with pytest.raises(Stalled, match="but got no answer from these sites: north"):
        run(home)
    (id,) = waiting(home.site("north"))
    assert (words_of(home.site("north"), id)[0][:6] == "Before") == (what == "names")
    deny(home.site("north"), id)
    with pytest.raises(DataError) as found:
        run(home)
    assert f"north: {REFUSED}" in str(found.value)
    assert "east:" not in str(found.value)
    assert "south:" not in str(found.value)
    assert {event["site"] for event in events(home, "refused")} == {"north"}


@pytest.mark.parametrize("approval", ["none", "job"])
def test_each_who_refused_is_named_whether_a_person_did_or_a_rule(tmp_path, approval):
    """Persons at east and north deny the job, and at south a rule refuses it: one row is apart."""
    data = parts(patients())
    data["south"] = data["south"].assign(age=[1e6, *data["south"].age[1:]])
    home = made(tmp_path, RegressionPlan("y ~ age", "gaussian"), data, patience=0.05)
    for site in SITES:
        asks = approval if site == "south" else "job"
        (home.site(site) / "policy.toml").write_text(f'approve = "{asks}"\ncomplete = true\n')
    with pytest.raises(Stalled if approval == "job" else DataError) as found:
        run(home)
    if approval == "none":  # nobody else has decided yet
        left = "a sum needs at least 3 sites, and only east and north can take part"
        ask = next_step({"south": REFUSED}, events(home, "job")[-1]["job"], start_again(home))
        alone = f"there is no table: {left}. Refused: south: {REFUSED}. {ask}"
        assert str(found.value) == alone
        assert {event["site"] for event in events(home, "refused")} == {"south"}
    for site in SITES:
        for id in (*waiting(home.site(site)), *over(home.site(site))):
            (approve if site == "south" else deny)(home.site(site), id)
    with pytest.raises(DataError) as found:
        run(home)
    told = [f"{site}: {REFUSED}" for site in SITES]
    left = "a sum needs at least 3 sites, and no site can take part"
    job, again = events(home, "job")[-1]["job"], start_again(home)
    ask = next_step(dict.fromkeys(SITES, REFUSED), job, again)
    each = f"east, north and south (each: {REFUSED})"
    assert str(found.value) == f"there is no table: {left}. Refused: {each}. {ask}"
    assert [event["reason"] for event in events(home, "refused")][-3:] == told
    lines = {site: (home.site(site) / "outgoing.jsonl").read_text() for site in SITES}
    last = lambda text: [line for line in text.splitlines() if '"rule"' in line][-1]
    rules = {site: json.loads(last(text))["rule"] for site, text in lines.items()}
    assert rules == {"east": "denied", "north": "denied", "south": "dominance"}


def test_who_was_left_out_before_is_named_when_too_few_are_left(tmp_path):
    """East does not take part from the start, and south refuses the job of the other three."""
    data = parts(patients())
    data["south"] = data["south"].assign(age=[1e6, *data["south"].age[1:]])
    data["west"] = data["north"]
    home = made(tmp_path, RegressionPlan("y ~ age", "gaussian"), data, patience=0.05)
    open_, closed = 'approve = "none"\ncomplete = true\n', "columns = ['y']\ncomplete = true\n"
    for site in data:
        (home.site(site) / "policy.toml").write_text(closed if site == "east" else open_)
    with pytest.raises(DataError, match="only north and west can take part") as found:
        run(home)
    assert "east: its policy" in str(found.value)
    assert f"south: {REFUSED}" in str(found.value)
    assert "ask the people at east and south" in str(found.value)


def test_answers_of_single_sites_are_asked_for_by_name_and_said(tmp_path):
    """And an older proof does not lie beside a table that it does not prove."""
    home = made(tmp_path, RegressionPlan(FORMULA, "gaussian"))
    run(home)
    home.key("east").unlink()
    network = LocalNetwork(places(home))
    coordinate(network, {"folder": str(home.path), "mode": "each"}, lambda event: None)
    told = (home.server / "glm" / "summary.txt").read_text()
    assert "each site (mode 'each'). So there is no proof file of this" in told
    assert "is no proof file of this table" in (home.server / "glm" / "report.html").read_text()
    assert json.loads((home.server / "glm" / "model.json").read_text())["answers"] == "each"
    assert not (home.server / "proof").exists()
    assert "the answers of each site" in events(home, "each")[-1]["reason"]
    careful = ALLOWED.replace('"each"', '"sum"')
    (home.site("north") / "policy.toml").write_text(careful)
    with pytest.raises(DataError, match="needs 2 sites with columns"):
        coordinate(network, {"folder": str(home.path), "mode": "each"}, lambda event: None)


def changed_bytes(data, places):
    for place in places:
        yield place, data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def is_refused(data):
    try:
        verify_proof(JobProof.from_bytes(data))
    except Refused:
        return True
    return False


@pytest.mark.parametrize(
    "every", [97, pytest.param(1, marks=pytest.mark.chaos)], ids=["some", "every byte"]
)
def test_one_flipped_bit_of_a_proof_is_found(finished, every):
    data = (finished[0].server / "proof").read_bytes()
    places = np.random.default_rng(0).permutation(len(data))[::every]
    places = places[:100] if every > 1 else places
    for place, damaged in changed_bytes(data, [int(p) for p in places]):
        assert is_refused(damaged), f"byte {place}"


def test_each_site_finds_its_own_answers_in_the_proof(home):
    found = verify_proof(JobProof.read(home.server / "proof"))
    for place in places(home):
        assert check_own(found, place.client, read_log(place.folder)) == "federation"
    assert found.about() == [
        f"formula: {FORMULA}", "family: gaussian, link: identity",
        f"sites: {', '.join(SITES)}; no codebook",
    ]  # fmt: skip
    assert f"\nFormula: {FORMULA}\n" in (home.server / "glm" / "summary.txt").read_text()


def test_words_of_another_version_are_not_compared_but_its_numbers_are(home):
    found = verify_proof(JobProof.read(home.server / "proof"))
    csv = home.server / "glm" / "coefficients.csv"
    text = csv.with_name("summary.txt")
    text.write_text(text.read_text().replace("Rows used", "Rows     "))
    with pytest.raises(Refused, match=r"summary.txt disagrees with"):
        check_table(found, csv)
    other = dataclasses.replace(found.proof.job, version="0.1.9")
    found = found._replace(proof=dataclasses.replace(found.proof, job=other))
    compared = check_table(found, csv)
    assert "summary.txt" not in compared
    assert "coefficients.csv" in compared
    told = in_other_words(found, not_compared(csv, compared))
    assert told.startswith("CAREFUL: feddcd 0.1.9 made this proof. That version writes some ")
    assert told.endswith("did not compare these files: summary.txt")
    csv.write_text(csv.read_text().replace("0.", "7.", 1))
    with pytest.raises(Refused, match=r"coefficients.csv disagrees with"):
        check_table(found, csv)


def test_what_lies_beside_a_proof_is_looked_at(home):
    found = verify_proof(JobProof.read(home.server / "proof"))
    csv, model = (home.server / "glm" / name for name in ("coefficients.csv", "model.json"))
    check_table(found, csv)
    check_roster(found, load_roster(home.server))
    whole = model.read_text()
    for wrong in ({"certified_error": 1e-30}, {"rows": 118}, {"more": 1}, {"family": "poisson"}):
        model.write_text(json.dumps(json.loads(whole) | wrong))
        with pytest.raises(Refused, match=r"model.json disagrees with the proof: somebody changed"):
            check_table(found, csv)
    twice = '{\n "rows": 1,' + whole[1:]  # one program reads the first of two, another the last
    assert json.loads(twice) == json.loads(whole)
    model.write_text(twice)
    with pytest.raises(Refused, match=r"model.json disagrees with the proof"):
        check_table(found, csv)
    model.write_text(whole)
    text = csv.with_name("summary.txt")
    told, lines = text.read_text(), csv.read_text().splitlines()
    assert check_table(found, csv) == [
        "history.csv",
        "coefficients.csv",
        "model.json",
        "summary.txt",
        "coefficients.tex",
        "coefficients.md",
    ]
    # a spreadsheet shows the first cells of a row, pandas takes them for its name
    false = [f"{line.replace('0.', '7.')},{line}" for line in lines[1:]]
    for wrong in ([lines[0], *false], [f"{line},9" for line in lines], [*lines, lines[-1]]):
        csv.write_text("\n".join(wrong) + "\n")
        with pytest.raises(Refused, match=r"coefficients.csv disagrees with the proof"):
            check_table(found, csv)
    csv.write_text("\n".join(lines) + "\n")
    text.write_text(told + "Not part of this table: north: the site did not answer in time\n")
    check_table(found, csv)
    # one line of a file may be many lines of a terminal or of an editor
    for drawn in ("x\rage 9.9", "\x1b[2Jage 9.9", f"x{' ' * 70}age 9.9", "x\x85age 9.9"):
        text.write_text(f"Not part of this table: {drawn}\n{told}")
        with pytest.raises(Refused, match=r"summary.txt disagrees with the proof"):
            check_table(found, csv)
    text.write_text(told)
    for drawn in ({"north": "x\rage 9.9"}, {"north": 9}, 9):
        model.write_text(json.dumps(json.loads(whole) | {"sites_refused": drawn}))
        with pytest.raises(Refused, match=r"model.json disagrees with the proof"):
            check_table(found, csv)
    model.write_text(json.dumps(json.loads(whole) | {"tol": 10**400}))
    with pytest.raises(Refused, match=r"model.json disagrees with the proof"):
        check_table(found, csv)
    model.write_text(whole)
    text.write_text(told.replace("0.", "7.", 1))
    with pytest.raises(Refused, match=r"summary.txt disagrees with the proof"):
        check_table(found, csv)
    text.write_text(told)
    for name in ("coefficients.tex", "coefficients.md"):
        paper = csv.with_name(name)
        kept = paper.read_text("utf-8")
        paper.write_text(kept.replace("0.", "7.", 1), "utf-8")
        with pytest.raises(Refused, match=rf"{name} disagrees with the proof"):
            check_table(found, csv)
        paper.write_text(kept, "utf-8")
    os.truncate(text, 1 << 40)  # with holes: nearly nothing on disk
    with pytest.raises(Refused, match=r"summary.txt disagrees with the proof"):
        check_table(found, csv)
    os.mkfifo(csv.with_name("fifo"))
    os.replace(csv.with_name("fifo"), text)  # who reads it waits for ever
    with pytest.raises(Refused, match=r"summary.txt disagrees with the proof"):
        check_table(found, csv)
    text.unlink()
    csv.unlink()
    with pytest.raises(Refused, match=r"coefficients.csv is missing"):
        check_table(found, csv)
    sign_up.new_member(home.site("east"), "east")
    sign_up.propose(home.server, [sign_up.read_member(home.site("east") / sign_up.MEMBER)])
    for site in SITES:
        roster = sign_up.sign(home.site(site), home.server / "roster.json")
    with pytest.raises(Refused, match="that is not in this folder: it is neither the current"):
        check_roster(found, roster)


@pytest.mark.parametrize(
    ("own", "written", "same"),
    [
        ("7000000001", "7000000002", False),  # codes of two drugs, near each other
        ("0.45", "0.45000000000000001", True),
        ("0.45", "0.4500001", False),
        ("0.45", f"{'0' * 400}0.45", False),  # too long for a cell of a spreadsheet
        ("120.0", "120", True),
        ("0.0", "1e-4000", False),
    ],
)
def test_only_computed_numbers_may_differ_and_in_their_last_digits_alone(own, written, same):
    assert _same_cell(own, written) == same


def test_the_table_of_a_study_is_looked_at_as_that_of_a_federation(home, capsys):
    """And who has the proof alone reads that no file beside it was compared."""
    study = home.path / "studies" / "first"
    study.mkdir(parents=True)
    shutil.copytree(home.server / "glm", study / "glm")
    shutil.copy(home.server / "proof", study)
    _, said = (home.path / "federation.toml").read_text().split("[glm]")
    (study / "study.toml").write_text(f"[glm]{said}")
    (study / "glm" / "better.csv").write_text("name,coef\nage,9.9\n")
    capsys.readouterr()
    verify_command(study)
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("VERIFIED: ")
    assert "these files follow from the proof: history.csv, coeff" in said
    assert "feddcd did not compare these files: better.csv, model.joblib, report.html" in said
    verify_command(study / "proof")
    assert "feddcd compared no other files" in " ".join(capsys.readouterr().out.split())
    table = study / "glm" / "coefficients.csv"
    table.write_text(table.read_text().replace("0.", "7.", 1))
    for as_json in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            main(["federation", "verify", str(study), *as_json])
        assert end.value.code == 1, "it was judged, so it is a result; 2 is wrong input"
        said = capsys.readouterr()
        reason = "coefficients.csv disagrees with the proof: somebody changed the file"
        assert said.err == f"error: {reason}\n"
        if as_json:
            assert json.loads(said.out) == {"valid": False, "reason": reason}
        else:
            assert said.out.startswith("NOT VERIFIED: ")
            assert " ".join(said.out.split()).endswith(f"know the reason reason: {reason}")
    with pytest.raises(SystemExit) as end:
        main(["federation", "verify", str(study / "glm")])
    assert end.value.code == 2, "there is no proof"
    assert capsys.readouterr().out == ""
    plan = (home.path / "federation.toml").read_text().replace("gaussian", "poisson")
    (home.path / "federation.toml").write_text(plan)
    verify_command(home.path)
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("VERIFIED: ")
    assert second.startswith("CAREFUL: the plan in this folder has changed. The proof belongs")


def test_a_site_reads_the_name_of_the_study_from_its_own_log(tmp_path, capsys):
    """The proof does not have it."""
    home = made(tmp_path)
    _, plan = (home.path / "federation.toml").read_text().split("[glm]")
    study = want(home, "first", f"[glm]{plan}")
    network = LocalNetwork(places(home))
    coordinate(network, {"folder": str(home.path), "study": "first"}, lambda event: None)
    verify_command(study.results / "proof", site=home.site("east"))
    said = " ".join(capsys.readouterr().out.split())
    told = "name of the study: 'first' (the log of east has this name; no site signed this name)"
    assert told in said


def test_a_proof_that_ends_early_or_late_is_refused(finished):
    proof = JobProof.read(finished[0].server / "proof")
    short = JobProof(proof.roster, proof.job, proof.nonces, proof.exchanges[:-1])
    with pytest.raises(Refused, match="is incomplete: it ends before the end of the job"):
        verify_proof(short)
    longer = (*proof.exchanges, proof.exchanges[-1])
    with pytest.raises(Refused):
        verify_proof(JobProof(proof.roster, proof.job, proof.nonces, longer))
