"""The coordinator's part of a job of masked sums: it relays, waits, adds up, and keeps everything.

server/jobs/current      the name of the job that is not finished yet
server/jobs/ID/job       the job as its sites were told
server/jobs/ID/without   which sites have no part in it, and why
server/jobs/ID/0007      a question;  0007 SITE  a site's masked answer to it, nonce SITE  its nonce
server/jobs/ID/proof     all of it in one file, at the end

Each answer is on disk before the next question leaves. Killed at any moment, the coordinator asks
again for what it lacks, and sites send the same bytes. The cohort is fixed: whoever is away is
waited for.
"""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ..._errors import CodecError, DataError, FolderError, Refused, SpecError, Stalled
from ..._files import Disk, save
from ..._text import spoken
from ...analysis.protocol import ALL, Agreement, AnalysisResult, Watch
from ...durable.codec import pack, unpack
from ...sums import signing
from ...sums.job import Job, SignedNonce, job_id
from ...sums.layout import Layout
from ...sums.masks import context
from ...sums.proof import JobProof, ProvenExchange, SignedAnswer, check_exchange
from ...sums.roster import Roster
from .. import wire
from ..folder import PROOF as PROOF
from ..folder import FederationFolder, about_of
from ..following import FollowedJob, make_job
from ..roster import load_roster
from ..wire import Envelope
from ._hearing import Patience, Without

MOST_BYTES = 2**31
WITHOUT = "without"
SMALL = 1 << 24  # bytes of an answer beside its masked words
Ask = Callable[[Mapping[str, bytes], str, int], Iterator[tuple[str, Envelope]]]  # as they come


class JobFolder:
    """What the coordinator keeps of one job."""

    def __init__(self, folder: FederationFolder, id: str):
        self.folder, self.id, self.path = folder, id, folder.results / "jobs" / id

    @staticmethod
    def current(folder: FederationFolder) -> "JobFolder | None":
        data = Disk().read(folder.results / "jobs" / "current", 100)
        return None if data is None else JobFolder(folder, data.decode("ascii", "replace"))

    @staticmethod
    def found(folder: FederationFolder, job: Job, without: Without) -> "JobFolder":
        new = JobFolder(folder, secrets.token_hex(16))
        new.path.mkdir(mode=0o700, parents=True)
        new.save("job", {}, {"job": job.to_json()})
        save(Disk(), new.path / WITHOUT, json.dumps(without._asdict()).encode())
        save(Disk(), folder.results / "jobs" / "current", new.id.encode())
        return new

    def close(self) -> None:
        (self.folder.results / "jobs" / "current").unlink(missing_ok=True)

    def save(self, name: str, meta: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        plain = {key: np.frombuffer(value, np.uint8) for key, value in parts.items()}
        save(Disk(), self.path / name, pack(meta, plain))

    def load(self, name: str) -> dict[str, bytes] | None:
        """None where there is nothing, or what a crash left of it."""
        data = Disk().read(self.path / name, MOST_BYTES)
        try:
            parts = None if data is None else unpack(data)[1]
        except CodecError:
            return None
        return None if parts is None else {key: part.tobytes() for key, part in parts.items()}

    def job(self) -> Job | None:
        held = self.load("job")
        return None if held is None else Job.from_json(held["job"])

    def without(self) -> Without:
        """As it was when the job began: whoever goes on with the job does not ask these sites."""
        data = Disk().read(self.path / WITHOUT, MOST_BYTES)
        with suppress(ValueError, TypeError):
            return Without(**json.loads(data or b"{}"))
        return Without()


class MaskedRun:
    """`ask` puts one message to each of some sites and gives the answers of the right kind, of so
    many bytes at most; it raises where a site refuses. `patience` is how long nobody may answer."""

    def __init__(self, folder: JobFolder, job: Job, roster: Roster, ask: Ask, patience: Patience):
        self.folder, self.job, self.roster, self.ask = folder, job, roster, ask
        self.patience, self.exchanges = patience, []
        self._asks = False  # for the exchange of now; else all answers were on disk

    def run(self, watch: Watch) -> AnalysisResult:
        """The result of the whole cohort. The proof is there when this returns."""
        nonces = self._nonces()
        told = lambda row: watch(row) if self._asks else None  # what is on disk was told before
        identity, follow = job_id(self.job, self.roster, nonces), FollowedJob(self.job, told)
        while (question := follow.question) is not None:
            proven = self._exchange(follow, question, identity, nonces)
            self.exchanges.append(proven)
            follow.take(check_exchange(self.roster, self.job, identity, follow.number, proven))
        proof = JobProof(self.roster, self.job, nonces, tuple(self.exchanges))
        proof.write(self.folder.path / PROOF)
        result: Any = follow.result
        return result.with_sites({ALL: follow.dropped}, {})

    def _nonces(self) -> dict[str, SignedNonce]:
        about = about_of(self.folder.folder).meta()
        request = wire.pack_message(
            Envelope("job", {"id": self.folder.id, "job": self.job.to_json().decode()} | about, {})
        )

        def read(site: str, reply: Envelope) -> dict[str, bytes]:
            nonce, mark = (bytes.fromhex(reply.meta[name]) for name in ("nonce", "signature"))
            signing.verify_nonce(self.roster[site].signing, self.job.digest, nonce, mark)
            return {"nonce": nonce, "signature": mark}

        held = self._gather("nonce ", dict.fromkeys(self.job.cohort, request), "job", SMALL, read)
        return {site: SignedNonce(h["nonce"], h["signature"]) for site, h in held.items()}

    def _exchange(
        self,
        follow: FollowedJob,
        question: bytes,
        identity: bytes,
        nonces: Mapping[str, SignedNonce],
    ) -> ProvenExchange:
        number = follow.number
        asked = self.folder.load(f"{number:04}")
        if asked is None:
            self.folder.save(f"{number:04}", {}, {"question": question})
        else:  # that of before it was stopped: on another machine the last bits may differ
            question = asked["question"]
            follow.read(question)
        ctx = context(self.roster, self.job.cohort, identity, number, question)

        def read(site: str, reply: Envelope) -> dict[str, bytes]:
            layout = Layout.from_json(str(reply.meta["layout"]).encode())
            follow.check_layout(layout)
            words, mark = reply.arrays["words"].tobytes(), bytes.fromhex(reply.meta["signature"])
            layout.from_bytes(words)
            key = self.roster[site].signing
            signing.verify_answer(key, ctx, layout.digest, words, mark)
            return {"words": words, "signature": mark, "layout": layout.to_json()}

        request = self._question(number, question, nonces)
        most = SMALL + (8 * follow.layout.words if number else 0)
        requests = dict.fromkeys(self.job.cohort, request)
        before, self._asks = self._asks, self._lacks(f"{number:04} ")
        if number and self._asks and not before:
            self.folder.folder.note("continues", exchange=number)
        held = self._gather(f"{number:04} ", requests, "exchange", most, read)
        form = _one_form({site: h["layout"] for site, h in held.items()})
        answers = {site: SignedAnswer(h["words"], h["signature"]) for site, h in held.items()}
        return ProvenExchange(question, Layout.from_json(form), answers)

    def _question(self, number: int, question: bytes, nonces: Mapping[str, SignedNonce]) -> bytes:
        last = self.exchanges[-1].answers if self.exchanges else {}
        meta: dict[str, Any] = {
            **about_of(self.folder.folder).meta(), "id": self.folder.id, "number": number,
            "nonces": {site: [part.hex() for part in pair] for site, pair in nonces.items()},
            "signatures": {site: answer.signature.hex() for site, answer in last.items()},
        }  # fmt: skip
        parts = {"question": question, **{f"of {site}": a.words for site, a in last.items()}}
        arrays = {name: np.frombuffer(part, np.uint8) for name, part in parts.items()}
        return wire.pack_message(Envelope("exchange", meta, arrays))

    def _lacks(self, prefix: str) -> bool:
        return any(self.folder.load(f"{prefix}{site}") is None for site in self.job.cohort)

    def _gather(
        self,
        prefix: str,
        requests: Mapping[str, bytes],
        kind: str,
        most: int,
        read: Callable[[str, Envelope], dict[str, bytes]],
    ) -> dict[str, dict[str, bytes]]:
        """Of every site, from disk or by asking, as long as patience lasts."""
        found = {site: self.folder.load(f"{prefix}{site}") for site in requests}
        held = {site: parts for site, parts in found.items() if parts is not None}
        self.patience.begin()
        while missing := {s: r for s, r in requests.items() if s not in held}:
            for site, reply in self.ask(missing, kind, most):
                try:
                    parts = read(site, reply)
                except (Refused, LookupError, TypeError, ValueError) as error:
                    told = f"{site}: the coordinator cannot use the answer of this site: {error}"
                    raise DataError(told) from None
                self.folder.save(f"{prefix}{site}", {}, parts)
                held[site] = parts
                self.patience.moved()
            if self.patience.late() and len(held) < len(requests):
                away = ", ".join(sorted(set(requests) - set(held)))
                told = (
                    f"the coordinator waited {spoken(self.patience.limit)}, but got no answer from "
                    f"these sites: {away}. Nothing is lost: start the study again, and the job "
                    "continues"
                )
                raise Stalled(told, sorted(set(requests) - set(held)))
        return {site: held[site] for site in sorted(held)}


def _one_form(forms: Mapping[str, bytes]) -> bytes:
    """That of all answers; who has another one than most is named."""
    (usual, number), *others = Counter(forms.values()).most_common()
    if not others:
        return usual
    odd = [site for site, form in forms.items() if form != usual]
    who, how = forms, "different forms"
    if 2 * number > len(forms):
        who, how = odd, "another form than most answers"
    of = "answers of these sites have" if len(who) > 1 else "answer of this site has"
    raise DataError(f"{', '.join(who)}: the {of} {how}, so feddcd cannot add up the answers")


def begin(
    folder: FederationFolder,
    plan: Any,
    agreement: Agreement,
    ask: Ask,
    patience: Patience,
    without: Without,
) -> MaskedRun:
    roster = _roster(folder)
    job = make_job(plan, agreement, roster).check(roster)
    return MaskedRun(JobFolder.found(folder, job, without), job, roster, ask, patience)


def unfinished(
    folder: FederationFolder, plan: Any, ask: Ask, patience: Patience
) -> MaskedRun | None:
    """The job that was not finished, if it is of this plan and of the roster that is there."""
    kept = JobFolder.current(folder)
    job = None if kept is None else kept.job()
    if kept is None or job is None:
        return None
    roster = _roster(folder)
    if (
        job.plan != plan.to_dict() | {"analysis": plan.analysis}
        or job.roster != roster.digest.hex()
    ):
        return None
    return MaskedRun(kept, job, roster, ask, patience)


def _roster(folder: FederationFolder) -> Roster:
    try:
        return load_roster(folder.server)
    except FolderError as error:
        told = f"{error}; to see which sites have not signed: feddcd federation roster DIR"
        raise SpecError(told) from None
