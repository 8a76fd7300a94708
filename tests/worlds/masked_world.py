"""Sites and a coordinator that train in sums on real files, which crash where a plan says and are
started again."""

from functools import cache
from pathlib import Path

import numpy as np

from chaos import PlainDual
from deployment import Fault
from disks import Crash, FailingDisk, QuickDisk
from feddcd._errors import Refused, StateError
from feddcd.durable.ledger import Ledger
from feddcd.durable.masked_server import MaskedServer
from feddcd.durable.masked_site import MaskedSite, Vow, write_vow
from feddcd.durable.protocol import Sealed, Summed
from feddcd.durable.protocol.masked import Pact, seal, write_nonce
from feddcd.durable.protocol.masked_client import Follower, learn
from feddcd.durable.server import LedgerServer, committed_rounds
from feddcd.durable.site import ClientFile
from feddcd.sums.chain import new_secret
from feddcd.sums.job import Job, SignedNonce, signed_nonce
from feddcd.sums.keys import SiteKeys
from feddcd.sums.roster import Roster, RosterMember

SITES = ("a", "b", "c", "d")
ROUNDS = 3


@cache
def keys(names: tuple[str, ...]) -> dict[str, SiteKeys]:
    return {name: SiteKeys.generate() for name in names}


@cache
def roster(names: tuple[str, ...]) -> Roster:
    made = Roster(RosterMember.of(name, own) for name, own in keys(names).items())
    for own in keys(names).values():
        made = made.signed(own)
    return made.check()


def job(weights: dict[str, float], tau: int, rounds: int) -> Job:
    names = tuple(sorted(weights))
    agreement = {"weights": weights, "tau": tau, "rounds": rounds}
    return Job({}, agreement, "", "1", "sum", names, roster(names).digest.hex())


@cache
def sealed(
    weights: tuple[tuple[str, float], ...], tau: int, rounds: int
) -> tuple[Pact, Sealed, dict[str, bytes]]:
    """One pact for all runs of a test, so that all draw the same cohorts."""
    given = dict(weights)
    made, own = job(given, tau, rounds), keys(tuple(sorted(given)))
    secrets = {name: new_secret() for name in made.cohort}
    nonces = {name: signed_nonce(own[name], made, secrets[name]) for name in made.cohort}
    book = roster(made.cohort)
    members = tuple((name, given[name], 1) for name in made.cohort)
    texts = {name: write_nonce(signed) for name, signed in nonces.items()}
    record = Sealed(members, book.to_json().decode(), made.to_json().decode(), texts)
    return seal(made, book, nonces), record, secrets


def fresh_nonce(own: SiteKeys, made: Job) -> SignedNonce:
    """Of a secret that nobody keeps."""
    return signed_nonce(own, made, new_secret())


class MaskedDeployment:
    """As `Deployment`; `faults` are met in their order, one per process of a place."""

    def __init__(self, folder: Path, shared, faults=(), *, algorithm=None, tau=3, rounds=ROUNDS):
        folder.mkdir()
        self.folder, self.algorithm, self.rounds = folder, algorithm or PlainDual(), rounds
        self.problems, weights, self.w, self.like, self.key = shared
        self.pact, self.record, self.secrets = sealed(tuple(weights.items()), tau, rounds)
        self.plans = {place: [] for place in (*SITES, "server")}
        for fault in faults:
            self.plans[fault.where].append(fault)
        self.lives: dict[str, list[list]] = {place: [] for place in (*SITES, "server")}
        self.sent: dict[tuple[str, int], set[bytes]] = {}  # all that left, by site and round
        self.refusals: list[str] = []
        self.sites: dict[str, MaskedSite | None] = dict.fromkeys(SITES)
        self.running: MaskedServer | None = None

    def disk(self, place: str):
        made = FailingDisk()
        if self.plans[place]:
            _, at, fault, keep, undo = self.plans[place].pop(0)
            made = FailingDisk(at, fault, keep=keep, undo=undo)
        self.lives[place].append(made.operations)
        return made

    def site(self, id: str) -> MaskedSite:
        while (running := self.sites[id]) is None:
            path, file = self.folder / f"{id}.state", None
            try:
                file = ClientFile(path, federation="f", client=id, disk=self.disk(id))
                if file.load() is None:
                    vow = Vow(self.record.job, self.record.nonces[id], "")
                    write_vow(file, vow, self.secrets[id])
                own = Follower(self.algorithm, self.pact, keys(SITES)[id], self.like, self.key)
                self.sites[id] = MaskedSite(file, own, self.problems[id], self.w)
            except (Crash, StateError):
                if file is not None:
                    file.close()
        return running

    def ask(self, id: str, history, question: bytes):
        """The answer, or None: the process crashed, or its disk failed and it was ended."""
        site = self.site(id)
        try:
            said = site.answer(history, question)
        except Refused as reason:
            self.refusals.append(str(reason))
            return None
        except (Crash, StateError):
            site.file.close()
            self.sites[id] = None
            return None
        round = site.client.replica.round + 1
        self.sent.setdefault((id, round), set()).add(said.words + said.signature)
        return said

    def server(self) -> MaskedServer:
        while self.running is None:
            ledger = Ledger(self.folder / "ledger.db", "f", disk=QuickDisk())
            try:
                opened = MaskedServer(_Dying(self, ledger))
                if opened.pact is None:
                    opened.seal(self.record)
                self.running = opened
            except Crash:
                ledger.close()
        return self.running

    def down(self) -> None:
        if self.running is not None:
            self.running.server.ledger.close()
        self.running = None

    def round(self) -> None:
        """Asks until all of the cohort have answered; a server that dies begins again."""
        try:
            server = self.server()
            question, said = server.question(), {}
            cohort = self.pact.cohort(server.round + 1)
            for _ in range(10):
                for id in cohort:
                    answer = None if id in said else self.ask(id, server.history(id), question)
                    if answer is not None:
                        said[id] = answer
            if set(said) == set(cohort):
                server.commit(said)
        except Crash:
            self.down()

    def run(self) -> None:
        for _ in range(self.rounds + 5):
            if self.server().round >= self.rounds:
                return
            self.round()

    def committed(self) -> list[Summed]:
        return committed_rounds(self.server().server.ledger, self.like)

    def states(self) -> dict:
        """After every site has learnt the rounds that are over."""
        server, held = self.server(), {}
        for id in SITES:
            site = self.site(id)
            client = site.client
            for told in server.history(id):
                client = learn(site.own, client, told)
            held[id] = client.state
        return held

    def duals(self) -> dict[str, np.ndarray]:
        return {id: np.asarray(state.y) for id, state in self.states().items()}

    def close(self) -> None:
        for id, running in self.sites.items():
            if running is not None:
                running.file.close()
                self.sites[id] = None
        self.down()


class _Dying(LedgerServer):
    """A server whose process dies before or after a write, where the plan says."""

    def __init__(self, home: MaskedDeployment, ledger: Ledger):
        self.writes: list[str] = []
        home.lives["server"].append(self.writes)
        self.plan: Fault | None = home.plans["server"].pop(0) if home.plans["server"] else None
        super().__init__(ledger, home.algorithm, home.w, home.like, home.key)

    def write(self, record, uploads=None) -> None:
        hit = self.plan is not None and self.plan.at == len(self.writes)
        self.writes.append(type(record).__name__)
        if hit and self.plan.fault == "before":
            raise Crash
        super().write(record, uploads)
        if hit:
            raise Crash
