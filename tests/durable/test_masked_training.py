"""Training in sums on real files: the same model as in the clear, nothing masked twice, lies are
refused, and the same bits come out whatever crashes."""

import shutil
import sqlite3
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chaos import PlainDual, World
from deployment import Fault, parts
from disks import in_memory
from feddcd import tree
from feddcd._errors import CodecError, Refused, StateError
from feddcd.algorithms import FedDCD
from feddcd.algorithms.fedqn import QNNote
from feddcd.durable.ledger import Ledger, _link
from feddcd.durable.masked_site import MaskedSite
from feddcd.durable.protocol import masked_client
from feddcd.durable.protocol.masked import (
    Replica,
    Told,
    ask,
    check_follows,
    read_nonce,
    seal,
    summed_parts,
)
from feddcd.durable.protocol.masked_client import MaskedClient
from feddcd.durable.protocol.notes import new_notes
from feddcd.durable.server import audit
from feddcd.durable.shapes import Compiled, shapes
from feddcd.problems import Quadratic, random_quadratics
from feddcd.sums.proof import SignedAnswer
from federations import ALGORITHMS, DIRECT
from masked_world import ROUNDS, SITES, MaskedDeployment, fresh_nonce, job, keys, roster
from slices import sliced

TRIED = 12  # of all crash points; make chaos follows each
SIX = ("feddcd", "accfeddcd", "pointsaga", "fedavg", "scaffold-2", "fedqn")


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def folder():
    with in_memory() as made:
        yield made


@cache
def problem(d: int = 2):
    return random_quadratics(4, d, alpha=0.2, beta=1.0, seed=9)


@cache
def shared(d: int = 2):
    return parts(FedDCD(DIRECT), problem(d))


def play(folder, faults=(), **how) -> MaskedDeployment:
    made = MaskedDeployment(folder / "run", shared(), faults, **how)
    made.run()
    return made


def in_the_clear(algorithm, problem, made: MaskedDeployment) -> World:
    """The same method over the cohorts that were drawn, with every upload in the clear."""
    world = World(algorithm, problem, seed=0)
    for row, id in enumerate(SITES):
        world.join(id, row)
    for t in range(1, made.rounds + 1):
        world.round(made.pact.cohort(t))
    world.settle()
    return world


def coarse(value, part):
    """A grid that cuts off nearly everything."""
    scaled = {k: np.rint(part * x * 2**9) / 2**9 for k, x in tree.flatten(value).items()}
    errors = {k: scaled[k] / part - x for k, x in tree.flatten(value).items()}
    return {k or "value": x for k, x in scaled.items()}, tree.restore(value, errors)


LARGE = "fedqn of a large model"


@pytest.mark.parametrize("name", sliced((*SIX, LARGE), ("feddcd", "fedavg", "scaffold-2")))
def test_in_sums_as_in_the_clear(name, folder, monkeypatch):
    """And whatever the rounding, sums that are conserved stay so: what left is what counts."""
    name, d = ("fedqn", 210) if name == LARGE else (name, 2)
    tau = 4 if name == "fedqn" else 3
    algorithm = ALGORITHMS[name].make(4, tau, jnp.zeros(d))
    problems, _, w, _, key = shared(d)
    weights = {id: float(algorithm.weight(f)) for id, f in problems.items()}
    compiled = Compiled(algorithm)
    given = problems, weights, w, shapes(algorithm, problems["a"], w), key
    # later the pairs of FedQN, nearly zero, make 1e-8 of what the grid rounds off
    rounds = {"fedqn": 3 if d > 2 else 2}.get(name, 5)
    made = MaskedDeployment(folder / "run", given, algorithm=compiled, tau=tau, rounds=rounds)
    made.run()
    open_ = Compiled(algorithm)
    open_.addressed = lambda down, place, asked: down  # in sums nobody is told apart
    world = in_the_clear(open_, problem(d), made)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
    jax.tree.map(close, made.server().now.state, world.server.state)
    for id, state in made.states().items():
        jax.tree.map(close, state, world.disk[id].state)
    monkeypatch.setattr(masked_client, "on_grid", coarse)
    rough = MaskedDeployment(folder / "rough", given, algorithm=compiled, tau=tau, rounds=rounds)
    rough.run()
    one, other = (algorithm.model(run.server().now.state) for run in (made, rough))
    # far above the fine grid; by how much is chance, as nobody chooses the cohorts
    assert 1e-8 < np.abs(one - other).max() < 1e-1
    server, states = rough.server().now.state, tree.stack(list(rough.states().values()))
    for sum in algorithm.residuals(server, states, jnp.array(list(weights.values()))):
        assert np.abs(sum).max() < 1e-14
    made.close()
    rough.close()


def test_no_part_of_a_sum_is_over_fewer_sites_than_its_cohort():
    """FedQN asks three sites for their Hessian, and sites that are new for all of their gradient:
    who owns the others of such a part would read the one that is left."""
    algorithm = ALGORITHMS["fedqn"].make(4, 4, jnp.zeros(2))
    problems, weights, w, _, key = shared()
    like, made = shapes(algorithm, problems["a"], w), job(weights, 4, 3)
    pact = seal(made, roster(SITES), {id: fresh_nonce(keys(SITES)[id], made) for id in SITES})
    first = Replica(algorithm.init_server(w), 0, new_notes(algorithm, w))
    question = ask(algorithm, first, key)
    assert summed_parts(algorithm, pact, first, like, question) == (0, 0, 1, 1), "all, or nobody"
    begun = algorithm.init_server(w)._replace(started=jnp.asarray(True))
    notes = new_notes(algorithm, w)._replace(kept={"1": QNNote(w, jnp.asarray(True))})
    for known in ("abcd", "abc"):
        replica = Replica(begun, 1, notes._replace(last=dict.fromkeys(known, "1")))
        question = ask(algorithm, replica, key)
        if known == "abcd":
            assert summed_parts(algorithm, pact, replica, like, question) == (1, 0, 0, 0)
            continue
        with pytest.raises(Refused, match=r"only some sites of the cohort.*Remove tau"):
            summed_parts(algorithm, pact, replica, like, question)


def test_cohorts_are_drawn_alike_by_all_and_chosen_by_nobody():
    weights = dict.fromkeys(SITES, 1.0)
    drawn = []
    for _ in range(2):
        made = job(weights, 3, 120)
        nonces = {id: fresh_nonce(keys(SITES)[id], made) for id in SITES}
        pact = seal(made, roster(SITES), nonces)
        drawn.append([pact.cohort(t) for t in range(1, 301)])
        assert drawn[-1] == [seal(made, roster(SITES), nonces).cohort(t) for t in range(1, 301)]
        left_out = [set(SITES).difference(cohort).pop() for cohort in drawn[-1]]
        assert min(left_out.count(id) for id in SITES) > 14, "each as often as the others"
    assert drawn[0] != drawn[1], "another nonce, other cohorts"
    few = job(weights, 2, 120)
    told = r"a cohort must have 3 to 4 sites, but tau \(the number of sites in a round\) is 2"
    with pytest.raises(Refused, match=f"in this job, {told}"):
        seal(few, roster(SITES), {id: fresh_nonce(keys(SITES)[id], few) for id in SITES})


def test_what_left_is_what_a_site_goes_on_with(folder):
    """Numbers so small that the grid of the ring cuts their last bits: duals add up to nothing."""
    tiny = Quadratic(problem().A, problem().b * 2.0**-100)
    problems = {id: tree.take(tiny, row) for row, id in enumerate(SITES)}
    made = MaskedDeployment(folder / "run", (problems, *shared()[1:]), rounds=8)
    made.run()
    duals = made.duals()
    size = max(np.abs(y).max() for y in duals.values())
    assert size > 2.0**-110
    assert np.abs(sum(duals.values())).max() < 1e-14 * size
    made.close()


def check(made: MaskedDeployment, expected: dict[str, bytes]) -> None:
    done = made.committed()
    rounds = range(1, ROUNDS + 1)
    assert [record.stamp.round for record in done] == list(rounds)
    assert [record.members for record in done] == [made.pact.cohort(t) for t in rounds]
    assert {id: y.tobytes() for id, y in made.duals().items()} == expected
    assert all(len(texts) == 1 for texts in made.sent.values()), "one mask covers two texts"
    assert not made.refusals
    ledger = made.server().server.ledger
    assert audit(ledger, made.algorithm, made.w, made.like, made.key) == ledger.head[0]
    made.close()


def test_the_ledger_proves_every_sum(folder):
    """A flipped bit of an answer is found by its signature, though all hashes are right."""
    made = play(folder)
    made.close()
    with sqlite3.connect(folder / "run" / "ledger.db") as database:
        query = "SELECT epoch, round, client, body FROM uploads WHERE round = 2"
        epoch, round, client, body = database.execute(query).fetchone()
        body = flipped(body, 17)
        link = _link("upload", client, epoch, round, body)
        where = "WHERE round = 2 AND client = ?"
        database.execute(f"UPDATE uploads SET body = ?, hash = ? {where}", (body, link, client))
    why = f"exchange 4, {client}: the signature was not made with the key of the site"
    with (
        Ledger(folder / "run" / "ledger.db", readonly=True) as ledger,
        pytest.raises(Refused, match=why),
    ):
        audit(ledger, made.algorithm, made.w, made.like, made.key)


HOW = [("before", 1.0, False), ("after", 0.6, True), (40, 1.0, False), ("disk full", 1.0, False)]


@cache
def clean() -> tuple[dict[str, bytes], list[Fault]]:
    """The duals without a fault, and all that can be broken on the way."""
    with in_memory() as folder:
        made = play(folder)
        held = {id: y.tobytes() for id, y in made.duals().items()}
        moments = [(id, at) for id in SITES for at in range(len(made.lives[id][0]))]
        found = [Fault(id, at, *how) for id, at in moments for how in HOW]
        writes = range(len(made.lives["server"][0]))
        found += [Fault("server", at, how) for at in writes for how in ("before", "after")]
        made.close()
        return held, found


def survives(folder, *faults: Fault) -> None:
    try:
        check(play(folder, faults), clean()[0])
    except Exception as error:
        raise AssertionError(f"after {faults}") from error
    shutil.rmtree(folder / "run")


def test_crash_points(folder):
    every = clean()[1]
    for i in np.random.default_rng(0).choice(len(every), TRIED, replace=False):
        survives(folder, every[i])


@pytest.mark.chaos
def test_every_crash_point_in_sums(folder):
    for fault in clean()[1]:
        survives(folder, fault)


@pytest.mark.chaos
def test_pairs_of_crash_points_in_sums(folder):
    every = clean()[1]
    for i, j in np.random.default_rng(1).choice(len(every), (120, 2)):
        survives(folder, every[i], every[j])


class Sending(PlainDual):
    """Its server sends the model along."""

    def broadcast(self, server, key):
        return np.asarray(server.w)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def lies(told: Told, question: bytes) -> dict[str, tuple[list[Told], bytes]]:
    """What a coordinator could say of a round that is over, and ask instead of its question."""
    ids, answers = sorted(told.answers), dict(told.answers)
    one, other = ids[0], ids[1]
    words, signature = answers[one]
    again = lambda **said: [told._replace(answers=answers | said)]
    return {
        "a word": (again(**{one: SignedAnswer(flipped(words, 9), signature)}), question),
        "a signature": (again(**{one: SignedAnswer(words, flipped(signature, 3))}), question),
        "an answer twice": (again(**{one: answers[other]}), question),
        "an answer less": ([told._replace(answers={k: answers[k] for k in ids[1:]})], question),
        "a stranger": (again(zoe=answers[one]), question),
        "shorter": (again(**{one: SignedAnswer(words[:-8], signature)}), question),
        "the question then": ([told._replace(question=flipped(told.question, 60))], question),
        "another number": ([told._replace(round=3)], question),
        "nothing": ([], question),
        "the question now": ([told], flipped(question, len(question) - 40)),
        "the last question": ([told], told.question),
    }


def test_no_lie_gets_an_answer(folder):
    """Of a coordinator, after one round: nothing leaves, and nothing changes at the site."""
    given = (*shared()[:3], shared()[3]._replace(down=jax.ShapeDtypeStruct((2,), float)))
    made = MaskedDeployment(
        folder / "run", (*given, shared()[4]), algorithm=Sending(), tau=4, rounds=2
    )
    made.round()
    server, site = made.server(), made.site("b")
    (told,), question = server.history("b"), server.question()
    before = site.client
    for what, (history, asked) in lies(told, question).items():
        with pytest.raises((Refused, CodecError)):
            site.answer(history, asked)
        assert site.client is before, what
    # well formed, and not what the sums give
    down = np.asarray(server.now.state.w)
    for wrong in (down + 1e-6, down * np.nan):
        with pytest.raises(Refused, match="disagrees with the sums"):
            check_follows(down, wrong, down)
    check_follows(down, down * (1 + 1e-14), down)
    # a site that lies made one number too large: the others may not be anything now
    beyond = np.array([np.inf, down[1]])
    for own, model in ((beyond, beyond), (down, beyond), (beyond, down), (down, down * np.nan)):
        with pytest.raises(Refused, match="disagrees with the sums"):
            check_follows(own, np.ones(2), model)
    first = site.answer([told], question)
    assert site.answer([told], question) == first == site.answer([], question)
    with pytest.raises(Refused, match="answered another question"):
        site.answer([told], flipped(question, len(question) - 40))
    made.run()
    assert made.server().round == 2
    with pytest.raises(Refused, match="the sites agreed on 2 rounds"):
        site.answer(server.history("b"), server.question())
    made.close()


def test_an_old_copy_of_a_site_does_not_go_on(folder):
    """Its masks would cover two texts, if its rows or its machine had changed since."""
    made = MaskedDeployment(folder / "run", shared(), tau=4, rounds=3)
    made.round()
    made.site("a").file.close()
    old = (folder / "run" / "a.state").read_bytes()
    made.sites["a"] = None
    made.round()
    made.site("a").file.close()
    (folder / "run" / "a.state").write_bytes(old)
    made.sites["a"] = None
    made.round()
    assert "the state file of this site is too old" in made.refusals[0]
    assert made.server().round == 2, "the others wait"
    made.close()


def test_past_masks_of_a_training_are_in_no_file(folder, monkeypatch):
    """Of a round that is over, whatever files of sites and coordinator somebody has; those of the
    round that was not answered by all are at the sites that have not."""
    used, real = {}, masked_client.masked

    def masked(words, layout, chain, me, *rest):
        used.setdefault(chain.number, set()).update(chain.keys.values())
        return real(words, layout, chain, me, *rest)

    monkeypatch.setattr(masked_client, "masked", masked)
    made = MaskedDeployment(folder / "run", shared(), tau=4, rounds=3)
    there = lambda key: any(key in path.read_bytes() for path in (folder / "run").iterdir())
    made.site("a")
    assert there(made.secrets["a"])
    for round in (1, 2):
        made.round()
        assert made.server().round == round
        assert not any(map(there, made.secrets.values()))
        assert not any(there(key) for n in used for key in used[n])
    server = made.server()
    made.ask("a", server.history("a"), server.question())
    assert not any(there(key) for n in (1, 2) for key in used[n])
    assert sum(map(there, used[3])) == 3, "the keys of its pairs, at the other ends"
    made.round()
    server, site, part = made.server(), made.site("a"), lambda client: {"value": jnp.zeros(())}
    ask = lambda: site.certify(server.history("a"), b"certificate", part(None), part)
    assert ask() == ask()
    assert not list((folder / "run").glob("a.state.mask*")), "the last answer of this training"
    made.close()


def test_a_certificate_may_come_after_the_next_round_has_begun(folder):
    """As after a coordinator was stopped, and told to be content with fewer rounds."""
    made = MaskedDeployment(folder / "run", shared(), tau=4, rounds=3)
    made.round()
    server, site = made.server(), made.site("a")
    made.ask("a", server.history("a"), server.question())
    part = lambda client: {"value": jnp.zeros(())}
    said = site.certify(server.history("a"), b"certificate", part(None), part)
    assert said == site.certify(server.history("a"), b"certificate", part(None), part)
    with pytest.raises(Refused, match="this site has already answered exchange 1, and has removed"):
        site.own.chain(3)
    made.close()


def test_who_signs_a_second_nonce_later_draws_no_other_cohorts(folder):
    """Cohorts follow from the nonces of all: those of the first answer stay."""
    made = MaskedDeployment(folder / "run", shared(), tau=4, rounds=3)
    made.round()
    site = made.site("b")
    nonces = {id: read_nonce(text) for id, text in made.record.nonces.items()}
    nonces["d"] = fresh_nonce(keys(SITES)["d"], made.pact.job)
    other = seal(made.pact.job, made.pact.roster, nonces)
    with pytest.raises(Refused, match=r"b: this site has .* nonces .* are not those of that job"):
        MaskedSite(site.file, site.own._replace(pact=other), site.f, made.w)
    MaskedSite(site.file, site.own, site.f, made.w)
    made.close()


def test_a_site_without_its_file_does_not_answer(folder):
    made = MaskedDeployment(folder / "run", shared(), tau=4, rounds=2)
    made.round()
    site = made.site("a")
    assert isinstance(site.client, MaskedClient)
    site.file.close()
    (folder / "run" / "a.state").unlink()
    made.sites["a"] = None
    made.round()  # the world writes its vow anew, as an administrator might
    assert any("the state file of this site is too old" in why for why in made.refusals)
    assert made.server().round == 1
    made.close()


def test_what_a_full_disk_did_not_take_does_not_leave(folder):
    """An answer that is held in memory alone would be masked anew after the next start."""
    made = MaskedDeployment(folder / "run", shared(), tau=4, rounds=2)
    server, site = made.server(), made.site("a")
    ask = lambda: made.site("a").answer(server.history("a"), server.question())
    disk = site.file.disk
    disk.at, disk.fault = len(disk.operations) + 1, "disk full"
    with pytest.raises(StateError, match="cannot write"):
        ask()
    assert site.client.pending is None
    said = ask()
    site.file.close()
    made.sites["a"] = None
    kept = made.site("a").client.pending
    assert kept is not None
    assert kept.answer == said == ask()
    made.close()
