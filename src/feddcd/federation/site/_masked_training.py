"""A site in training by sums: it signs a job once, follows the coordinator over proven sums, and
answers only the question that it expects. What leaves can be read only as a sum over sites."""

import math
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._errors import Refused
from ..._text import plural
from ...algorithms.catalogue import get_method
from ...data.agreement import SiteData
from ...durable.masked_site import MaskedSite, Vow, has_answered, masks_of, read_vow, write_vow
from ...durable.protocol.masked import Pact, next_down, read_nonce, seal, write_nonce
from ...durable.protocol.masked_client import Follower, MaskedClient
from ...durable.site import ClientFile
from ...sums.chain import new_secret
from ...sums.job import Job, signed_nonce
from .. import sealed
from ..roster import load_keys, load_roster
from ..terms import Learner, Terms, joining_problem, scale, site_learner, weights_of
from ..wire import Envelope
from ._training import (
    approve_training,
    certificate_part,
    check_method,
    digest_of,
    in_all,
    outgoing_of,
    rows_of,
    training_facts,
)
from ._training_rules import begin_training, check_batches, check_training, tell
from .answer import SitePlace
from .policy import Check, Outgoing, Policy, not_allowed
from .rules import check_columns

Answer = tuple[Envelope, Outgoing]


def handle(envelope: Envelope, place: SitePlace, check: Check) -> Answer:
    if envelope.kind == "training":
        return _agree(envelope, place, check)
    ask = sealed.read_ask(envelope)
    roster, site = load_roster(place.folder), rows_of(place)
    with _open(place, ask.federation) as file:
        vow = read_vow(file.load())
        if vow is None:
            raise Refused(
                f"{place.client}: this site did not agree to this training, or lost its state file"
            )
        job = Job.from_json(vow.job.encode())
        pact = seal(job, roster, ask.nonces)
        if write_nonce(ask.nonces[place.client]) != vow.nonce:
            raise Refused(
                f"{place.client}: in the message, the nonce (random number) of this site is not "
                "the nonce that this site made"
            )
        if vow.rows != digest_of(site):
            raise _other_rows(place)
        _check_version(job, place)
        terms = Terms.from_json(job.plan)
        with jax.enable_x64(terms.double):
            return _answer(envelope.kind, ask, place, check, site, terms, pact, file)


def _answer(
    kind: str,
    ask: sealed.SealedAsk,
    place: SitePlace,
    check: Check,
    site: SiteData,
    terms: Terms,
    pact: Pact,
    file: ClientFile,
) -> Answer:
    rows = pact.job.agreement["rows"]
    learner = site_learner(terms, site, scale(terms, list(rows.values())))
    whole = kind == "certificate"
    what = "gradient" if whole else get_method(terms.algorithm).sends
    out = _outgoing(site, terms, learner, what, len(pact.members) if whole else pact.tau)
    policy = check(out)  # before the state moves: a refused round was never worked on
    if whole:
        facts = training_facts(pact.job.plan, _sites(pact.job), out, learner)
        memory, asked = begin_training(policy, place, facts), sha256(ask.question).hexdigest()
        tell(policy, facts, site, memory, f"certificate {asked[:16]}", facts.closing)
    algorithm, f, w, like, key = learner
    own = Follower(algorithm, pact, load_keys(place.folder), like, key)
    joining = lambda: joining_problem(terms, rows[place.client])
    member = MaskedSite(file, own, f, w, joining)
    if whole:
        part = _certificate(learner, terms, ask.question, len(site.labels))
        said = member.certify(ask.history, ask.question, sealed.certificate_like(like, w), part)
    else:
        said = member.answer(ask.history, ask.question)
    masked = {"masked": np.frombuffer(said.words, np.uint64)}
    return sealed.masked_envelope(place.client, said), out._replace(arrays=masked)


def _certificate(
    learner: Learner, terms: Terms, question: bytes, rows: int
) -> Callable[[MaskedClient], Any]:
    """A site's summands: its value and tangents, its score by its rows, what it conserves."""
    algorithm, f, _, _, key = learner

    def part(client: MaskedClient) -> Any:
        model = algorithm.model(client.replica.state)
        model = sealed.read_model(question, client.replica.round, model)
        point = algorithm.witness(client.state)
        proof = certificate_part(f, model, model if point is None else point)
        right = proof.score * rows if terms.classes is not None else jnp.zeros_like(proof.score)
        down = next_down(algorithm, client.replica, key)
        held = algorithm.conserved(client.state, down)
        return {"conserved": held, "proof": proof._replace(score=right)}

    return part


def _agree(envelope: Envelope, place: SitePlace, check: Check) -> Answer:
    """A signed nonce for a job, the first time and again; a job that has begun stays the only
    one of its federation here."""
    roster, text = load_roster(place.folder), str(envelope.meta["job"])
    job = Job.from_json(text.encode()).check(roster)
    terms, site = _read_terms(job, place), rows_of(place)
    with jax.enable_x64(terms.double):
        rows = _check_members(job, terms, place.client, len(site.labels))
        learner = site_learner(terms, site, scale(terms, list(rows.values())))
        _check_weights(job, terms, learner, rows)
        what = get_method(terms.algorithm).sends
        out = _outgoing(site, terms, learner, what, terms.tau)
    policy = check(out)
    _check_size(policy, job, out.parameters, sorted(rows.values())[: terms.tau])
    check_batches(policy, terms.settings)
    facts = training_facts(job.plan, _sites(job), out, learner)
    memory, rounds = begin_training(policy, place, facts), job.agreement["rounds"]
    if policy.approve == "job":
        approve_training(place, terms, out, *_words(job), in_all(facts, rounds, site))
    _check_columns(policy, site, terms, job)
    check_training(policy, place, facts, site, memory, rounds)
    tell(policy, facts, site, memory, "all rounds", rounds * facts.numbers)
    with _open(place, terms.federation) as file:
        vow = read_vow(file.load())
        if vow is not None and vow.job == text and vow.rows == digest_of(site):
            nonce = read_nonce(vow.nonce)
            if masks_of(file).fit(nonce.nonce):  # a crash may have left those of a later one
                return sealed.nonce_envelope(place.client, nonce), out
        if has_answered(file.load()):
            raise Refused(
                f"{place.client}: this site has begun another job of this federation. "
                "If you want other sites, settings or rows, make a new federation"
            )
        secret = new_secret()
        nonce = signed_nonce(load_keys(place.folder), job, secret)
        write_vow(file, Vow(text, write_nonce(nonce), digest_of(site)), secret)
        return sealed.nonce_envelope(place.client, nonce), out


def _check_columns(policy: Policy, site: SiteData, terms: Terms, job: Job) -> None:
    """The columns as those of a table, as sums of gradients reveal as much. A cohort smaller than
    all sites may have one honest site alone."""
    if policy.min_support < 2:
        return
    if terms.tau < len(job.cohort):
        raise not_allowed(
            f"sums over only {terms.tau} of {len(job.cohort)} sites; remove tau (the number of "
            "sites in a round) from the settings of the training"
        )
    X = site.X if isinstance(site.X, np.ndarray) else site.X.toarray()
    names = site.names or tuple(f"column {i + 1}" for i in range(X.shape[1]))
    columns = dict(zip(names, X.T, strict=True))
    _, codes = np.unique(site.labels, return_inverse=True)
    check_columns(columns | {"(outcome)": codes.astype(float)}, {}, len(X), policy, "sum")


def _open(place: SitePlace, federation: str) -> ClientFile:
    place.folder.mkdir(parents=True, exist_ok=True)
    return ClientFile(place.state, federation=federation, client=place.client)


def _read_terms(job: Job, place: SitePlace) -> Terms:
    _check_version(job, place)
    if job.mode != "sum" or place.client not in job.cohort:
        raise Refused(
            f"{place.client}: this site is not in the cohort of the job, or the mode of the job is "
            "not 'sum'"
        )
    try:
        terms = Terms.from_json(job.plan)
    except TypeError:
        raise Refused(f"{place.client}: the settings of this training cannot be read") from None
    check_method(terms, place.client)
    if terms.answers != "sum" or terms.clients != len(job.cohort):
        raise Refused(
            f"{place.client}: the settings of the training are not for sums over the "
            f"{plural(len(job.cohort), 'site')} of the job"
        )
    return terms


def _check_version(job: Job, place: SitePlace) -> None:
    """Another one may make another answer, under the same masks."""
    here = version("feddcd")
    if job.version != here:
        raise Refused(
            f"{place.client}: the job is for feddcd {job.version[:50]}, and this site "
            f"has feddcd {here}; install the same version at all sites and at the "
            "coordinator"
        )


def _check_members(job: Job, terms: Terms, client: str, rows: int) -> dict[str, int]:
    """The rows of each member, as all members hear them."""
    said = job.agreement.get("rows")
    sound = isinstance(said, dict) and all(type(n) is int and n > 0 for n in said.values())
    if not isinstance(said, dict) or not sound or set(said) != set(job.cohort):
        raise Refused(f"{client}: the job does not say how many rows each site has")
    if said[client] != rows:
        raise Refused(
            f"{client}: in the job, the number of rows of this site is not that of its data file"
        )
    if type(job.agreement.get("rounds")) is not int or job.agreement.get("tau") != terms.tau:
        raise Refused(
            f"{client}: the job has no number of rounds, or its tau is not the tau of its settings"
        )
    return said


def _check_weights(job: Job, terms: Terms, learner: Learner, rows: dict[str, int]) -> None:
    """As the method weighs this number of rows: nobody's part is larger than it says."""
    given = job.agreement.get("weights")
    for name, own in weights_of(learner, terms, rows).items():
        said = given.get(name) if isinstance(given, dict) else None
        if type(said) is not float or not math.isclose(said, own, rel_tol=1e-6):
            raise Refused(
                f"in the job, the weight of the site {name!r} does not fit the number of rows of "
                f"{name!r}"
            )


def _check_size(policy: Policy, job: Job, parameters: int, rows: list[int]) -> None:
    """Of the job as a whole; `rows` are those of the smallest cohort that can be drawn."""
    rounds, most = job.agreement["rounds"], policy.max_parameters_per_row
    if policy.max_exchanges and rounds > policy.max_exchanges:
        raise not_allowed(
            f"{plural(rounds, 'round')} (max_exchanges = {policy.max_exchanges} in policy.toml)"
        )
    if not math.isinf(most) and sum(rows) < math.ceil(parameters / Fraction(repr(most))):
        raise not_allowed(
            f"{plural(parameters, 'parameter')} from a sum over {plural(sum(rows), 'row')} "
            f"(max_parameters_per_row = {most} in policy.toml)"
        )


def _sites(job: Job) -> tuple[str, ...]:
    return (*job.cohort, job.digest.hex())


def _words(job: Job) -> list[str]:
    return [
        "  the coordinator can read only sums over sites",
        "  nobody can choose which sites take part in a round",
        f"  rounds: at most {job.agreement['rounds']}",
        f"  who takes part: {', '.join(map(repr, job.cohort))}",
        f"  job: {job.digest.hex()}",
    ]


def _other_rows(place: SitePlace) -> Refused:
    return Refused(
        f"{place.client}: the data of this site changed after it signed the job. Put "
        "the old data back, or make a new federation"
    )


def _outgoing(site: SiteData, terms: Terms, learner: Learner, kind: str, sites: int) -> Outgoing:
    count = sum(x.size for x in jax.tree.leaves(learner.w))
    out = outgoing_of(site, terms.model, kind, terms.algorithm, count, sites)
    return out._replace(mode="sum")
