"""A site's part of a job of masked sums.

    job       plan, agreement and cohort, in words of its own  ->  this site's nonce, signed
    exchange  all nonces, the question, and every site's answer to the last one with its signature
              ->  this site's masked answer, signed

Nothing is believed. The site looks at the roster that it signed itself, at every signature, and
whether its own last answer is among those that were added up. From their sum it works out the
question that comes next: it answers that one, and no other.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._errors import FeddcdError, FolderError, Refused
from ..._files import stamp
from ...analysis.adding import layout_of, values_of
from ...analysis.protocol import SiteRows
from ...analysis.rest import impossible
from ...data.codebook import FILE as CODEBOOK
from ...sums import signing
from ...sums.chain import KeyChain, begin, new_secret
from ...sums.job import Job, SignedNonce, job_id, signed_nonce
from ...sums.keys import SiteKeys
from ...sums.layout import Layout
from ...sums.masks import context, masked
from ...sums.proof import ProvenExchange, SignedAnswer, check_exchange
from ...sums.roster import Roster
from ..following import FollowedJob, counts_layout, version
from ..roster import load_keys, load_roster
from ..wire import Envelope, pack_message
from ._disclosure import Release
from ._job_file import FOLDER, NONCE, FoundedJob, HeldAnswer, JobFile
from ._job_parts import bytes_of, check_only, hex_of, id_of, nonces_of, text_of
from ._job_rules import JobRules
from .log import lock
from .policy import Ruled
from .told import REFUSED


class MaskingSite(NamedTuple):
    """This site as others know it."""

    name: str
    keys: SiteKeys
    roster: Roster


def respond(envelope: Envelope, place: Any, release: Release, request: bytes) -> bytes:
    """Answers `job` and `exchange`; who calls logs refusals."""
    me, file = _member(place), JobFile(place.folder, id_of(envelope), release.disk)
    try:
        with lock(release.disk, _private(place.folder) / FOLDER):
            handle = _found if envelope.kind == "job" else _exchange
            return handle(envelope, me, file, JobRules(place, release, request))
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, FeddcdError):
            raise
        raise Refused(
            "this site cannot read the coordinator's message; the file site.log at this site says "
            "why"
        ) from error


def _private(folder: Path) -> Path:
    made = folder / FOLDER
    made.mkdir(mode=0o700, parents=True, exist_ok=True)
    return made


def _member(place: Any) -> MaskingSite:
    try:
        keys, roster = load_keys(place.folder), load_roster(place.folder)
    except FolderError as error:
        raise Refused("this site cannot use its keys or its roster (the list of sites)") from error
    if roster.own(keys).name != place.client:
        told = "the roster (list of sites) of this site has the keys of this site"
        raise Refused(f"{told} under another name")
    return MaskingSite(place.client, keys, roster)


def _found(envelope: Envelope, me: MaskingSite, file: JobFile, rules: JobRules) -> bytes:
    """The nonce, once the rules allow the job; asked again, the same one."""
    check_only(envelope, {"id", "job"}, set())
    job = Job.from_json(text_of(envelope.meta["job"])).check(me.roster)
    founded = file.load()
    if founded is None:
        _check_job(job, me)
        rules.judge(job, FollowedJob(job))
        rules.once(job, file)
        secret = new_secret()
        nonce = signed_nonce(me.keys, job, secret)
        founded = FoundedJob(job, nonce, _frozen(rules), rules.study)
        file.found(founded, secret)
    elif founded.job != job:
        raise Refused("this site knows another job with the same id")
    elif file.answered:
        raise Refused("this job has begun already and cannot begin again")
    nonce, signature = founded.nonce
    meta = {"client": me.name, "nonce": nonce.hex(), "signature": signature.hex()}
    file.note(NONCE, digest=job.digest.hex(), study=rules.study)
    return pack_message(Envelope("job", meta, {}))


def _check_job(job: Job, me: MaskingSite) -> None:
    if job.mode != "sum" or me.name not in job.cohort:
        raise Refused(
            "this site is not in the cohort of the job, or the mode of the job is not 'sum'"
        )
    if job.version != version("feddcd"):
        told = f"the job is for feddcd {job.version}, and this site has feddcd {version('feddcd')}"
        raise Refused(f"{told}; install the same version at all sites and at the coordinator")


def _exchange(envelope: Envelope, me: MaskingSite, file: JobFile, rules: JobRules) -> bytes:
    meta = envelope.meta
    check_only(envelope, {"id", "nonces", "number", "signatures"}, None)
    founded = file.load()
    if founded is None:
        raise Refused(
            "this site does not know this job; perhaps it lost its file of the job. Start a new job"
        )
    job, number = founded.job.check(me.roster), meta["number"]
    if type(number) is not int or number < 0:
        raise Refused("the question does not say which exchange of the job it is for")
    nonces = nonces_of(meta["nonces"])
    identity = _identity(job, me, nonces, founded)
    question = bytes_of(envelope.arrays["question"])
    done = file.check_age()
    if number > done:
        raise Refused(
            f"the coordinator asks for exchange {number}, but exchange {done} must come first"
        )
    last = _last(envelope, job, number)
    held = file.sent(number) if number < done else file.held(number)
    if held is not None:
        if (held.identity, held.question) != (identity, question):
            raise Refused("the coordinator already asked another question in this exchange")
        if number < done:
            again = hashlib.sha256(held.answer.words).hexdigest()
            file.note(number, name=job.digest.hex(), again=again, study=rules.study)
            return _reply(me, number, held)
    if _frozen(rules) != founded.frozen:
        told = "the data, the codebook, the policy or the feddcd version of this site changed"
        raise Refused(f"{told} after the job began; start a new job")
    follow = _follow(job, me, identity, file, number, last)
    asked = follow.read(question)
    if file.ended:
        raise Refused(REFUSED)
    rows = rules.before(file, number, rules.judge(job, follow))
    if number == 1:  # one like it may have been begun before this one, and answered since
        rules.once(job, file)
    try:
        rules.check_question(rows, follow, asked)
        values, layout = _said(follow, asked, rows, rules)  # for a person, even where it is held
    except Ruled:  # for good: who owns a site could try again with other sums
        file.end()
        raise
    start = partial(begin, me.keys, me.roster, identity, {n: x.nonce for n, x in nonces.items()})
    if held is None:
        chain = file.masks.chain("", number, start)
        file.keep_own(number, values)
        held = _made(values, layout, follow, me, chain, identity, question)
        file.hold(number, held)
    file.masks.forget("", number, start)
    data = _reply(me, number, held)
    rules.release(data)
    content = hashlib.sha256(held.answer.words).hexdigest()
    file.note(number, name=job.digest.hex(), sha256=content, study=rules.study)
    file.let_go(number)
    return data


def _said(
    follow: FollowedJob, asked: Any, rows: SiteRows, rules: JobRules
) -> tuple[dict[str, np.ndarray], Layout]:
    """The answer and its form. A form that depended on the rows would reveal something of them."""
    if asked is None:
        values = rules.counts(rows)
        return values, counts_layout(values)
    blocks = rules.answer(rows, asked)
    layout = layout_of(blocks)
    follow.check_layout(layout)
    return values_of(blocks), layout


def _made(
    values: Mapping[str, np.ndarray],
    layout: Layout,
    follow: FollowedJob,
    me: MaskingSite,
    chain: KeyChain,
    identity: bytes,
    question: bytes,
) -> HeldAnswer:
    """Under this site's masks, and signed."""
    cohort = follow.job.cohort
    ctx = context(me.roster, cohort, identity, follow.number, question)
    covered = masked(layout.encode(values), layout, chain, me.name, me.roster, cohort, ctx)
    words = layout.to_bytes(covered)
    signature = signing.sign_answer(me.keys.signing, ctx, layout.digest, words)
    return HeldAnswer(identity, question, layout, SignedAnswer(words, signature))


def _reply(me: MaskingSite, number: int, held: HeldAnswer) -> bytes:
    meta = {
        "client": me.name, "number": number, "signature": held.answer.signature.hex(),
        "layout": held.layout.to_json().decode(),
    }  # fmt: skip
    words = np.frombuffer(held.answer.words, np.uint8)
    return pack_message(Envelope("exchange", meta, {"words": words}))


def _identity(
    job: Job, me: MaskingSite, nonces: Mapping[str, SignedNonce], founded: FoundedJob
) -> bytes:
    """The id of the job, from all nonces; this site's is the one that it gave."""
    if nonces.get(me.name) != founded.nonce:
        told = "in the message, the nonce (random number) of this site is not the nonce"
        raise Refused(f"{told} that this site made")
    return job_id(job, me.roster, nonces)


def _last(envelope: Envelope, job: Job, number: int) -> dict[str, SignedAnswer]:
    """Every site's answer to the last question; there is none before the first."""
    marks = envelope.meta["signatures"]
    names = set(job.cohort) if number else set()
    if set(marks) != names or set(envelope.arrays) != {"question", *(f"of {n}" for n in names)}:
        raise Refused("the message must have the last answer of each site, and no other answer")
    arrays = envelope.arrays
    return {
        name: SignedAnswer(bytes_of(arrays[f"of {name}"]), hex_of(marks[name])) for name in names
    }


def _follow(
    job: Job, me: MaskingSite, identity: bytes, file: JobFile, number: int, last: Mapping[str, Any]
) -> FollowedJob:
    """The job up to this exchange. The sums of the last one are proven first, and then kept."""
    if number:
        own = file.sent(number - 1)
        if own is None or own.identity != identity or last[me.name] != own.answer:
            told = "in the message, the last answer of this site is not the answer"
            raise Refused(f"{told} that this site sent")
        proven = ProvenExchange(own.question, own.layout, last)
        sums = check_exchange(me.roster, job, identity, number - 1, proven)
        _check_rest(file, number - 1, sums, own.layout)
        file.keep_sums(number - 1, sums)
    follow = FollowedJob(job)
    try:
        for earlier in range(number):
            if (sums := file.sums(earlier)) is None:
                raise Refused("this site's file of the job lacks some sums; start a new job")
            follow.take(sums)
    except Refused:
        raise
    except (FeddcdError, ArithmeticError) as error:
        raise Refused(f"the next question cannot be computed from the sums: {error}") from None
    return follow


def _check_rest(file: JobFile, number: int, sums: Mapping[str, np.ndarray], layout: Layout) -> None:
    """The sum holds this site's part. That it does not fit would tell of that part, and so ends
    the job as any refusal by the rules does."""
    mine = file.own(number)
    if mine is None:
        told = "this site's file of the job lacks the last answer of this site"
        raise Refused(f"{told}; start a new job")
    if why := impossible(sums, mine, layout):
        file.end()
        raise Ruled(
            "rest",
            f"somebody changed the sums: without the part of this site, they have {why}",
        )


def _frozen(rules: JobRules) -> str:
    """Of all that an answer is made of beside the question. A copy of this folder, or an old one,
    has the same masks: it must not make another answer."""
    place = rules.place
    book = place.folder / CODEBOOK
    parts = [
        _digest(place.data, *stamp(place.data)), repr(tuple(place.how)), version("feddcd"),
        _digest(book, *stamp(book)) if book.exists() else "", repr(rules.shaping),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@lru_cache(maxsize=32)
def _digest(data: Path, *_: int) -> str:
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
