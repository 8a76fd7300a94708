"""The methods of others: deployed as simulated, whatever crashes, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddcd
from chaos import NONE, Faults, World
from feddcd import tree
from feddcd._errors import SpecError
from feddcd.algorithms import ALGORITHMS, Tamuna
from feddcd.durable.protocol import Summed
from feddcd.durable.shapes import Compiled
from feddcd.participation import Everyone, UniformSubset, round_keys
from feddcd.report.methods import look
from federations import ALL, FIELD, TAU, D, N, play, quadratics, solution

OUT_OF_COHORT = r"s must be at least 2 and at most tau \(the number of clients in a round\), got s="

WILD = Faults(lost=0.05, late=0.05, doubled=0.05, crash=0.05, restart=0.03)
SOME = Faults(lost=0.05, late=0.02, doubled=0.05, crash=0.04, restart=0.05)
F, ROUNDS = "equal", 6
TRIED = {"fedqn": ALL["fedqn"]} | FIELD


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def everyone(name):
    return ALGORITHMS[name.partition("-")[0]].needs_everyone


def slow(names, usual):
    return [pytest.param(name, marks=[pytest.mark.chaos] * (name not in usual)) for name in names]


def make(name):
    return TRIED[name].make(N, TAU, jnp.zeros(D))


def world(algorithm, faults=NONE, seed=0):
    made = World(algorithm, quadratics(F), seed=seed, faults=faults)
    for row in range(N):
        made.join(f"site{row}", row)
    return made


@pytest.mark.parametrize("name", slow(TRIED, ("fedadmm", "fedqn")))
def test_deployed_as_simulated(name):
    """With the simulator's cohorts, or with everyone where the method needs everyone."""
    algorithm, who = make(name), Everyone(N) if everyone(name) else UniformSubset(N, TAU)
    made = world(Compiled(algorithm))
    for t in range(ROUNDS):
        cohort = who(round_keys(made.key, jnp.asarray(t))[0]).ids
        made.round([f"site{row}" for row in cohort])
    played = play(algorithm, quadratics(F), who, ROUNDS)
    np.testing.assert_allclose(made.model(), played.model, rtol=0, atol=1e-10)
    assert np.abs(played.model).max() > 1e-2


@pytest.mark.parametrize("name", slow([n for n in TRIED if not everyone(n)], ("fedadmm", "fedqn")))
def test_faults_change_only_who_took_part(name):
    """A fault-free run over the committed cohorts, by the same functions: the same bits."""
    algorithm = Compiled(make(name))
    made, clean = world(algorithm, WILD, seed=5), world(algorithm, seed=5)
    for _ in range(25):
        made.round(made.cohort())
    clean.repeat(made)
    assert made.count["crash"] + made.count["restart"] > 0
    assert np.array_equal(np.asarray(made.model()), np.asarray(clean.model()))


@pytest.mark.parametrize("name", slow([n for n in FIELD if everyone(n)], ("sdane",)))
def test_with_everyone_a_crashed_site_takes_part_again(name):
    """Sites and the server crash and start again: the bits of a fault-free run over the rounds
    that were committed, and then the optimum, with those that crashed."""
    algorithm = Compiled(make(name))
    made, clean = world(algorithm, SOME, seed=5), world(algorithm, seed=5)
    everybody, fewer = list(made.server.members), 0
    while made.count["crash"] < 4 or made.count["restart"] < 1 or fewer < 4:
        made.round(everybody)
        fewer = sum(len(r.members) < N for r in made.ledger if isinstance(r, Summed))
    clean.repeat(made)
    assert np.array_equal(np.asarray(made.model()), np.asarray(clean.model()))
    assert np.linalg.norm(made.model() - solution(F)) > 1e-4
    made.faults = NONE
    for _ in range(100):
        made.round(everybody)
    assert made.crashed <= set(made.ledger[-1].members)
    assert np.linalg.norm(made.model() - solution(F)) < 1e-8


@pytest.mark.parametrize("name", slow([n for n in FIELD if everyone(n)], ("sdane",)))
def test_with_everyone_to_the_optimum_and_nothing_without(name):
    """w* = (sum A_i)^-1 sum b_i. A round in which one is missing changes nothing, but for Scaffnew,
    whose sum of h_i stays 0."""
    algorithm = make(name)
    for federation in (F, "stiff") if name != "sdane" else (F,):
        played = play(algorithm, quadratics(federation), Everyone(N), 500)
        assert np.linalg.norm(played.model - solution(federation)) < 1e-8
    f, server = quadratics(F), played.state.server
    client = jax.tree.map(lambda x: x[0], played.state.clients)
    down = algorithm.broadcast(server, jax.random.key(0))
    one = jax.tree.map(lambda x: x[0], f)
    _, up = algorithm.client_step(one, client, down, jax.random.key(0))
    after, _ = algorithm.server_step(server, up.value, jnp.asarray(7 / 8))
    if name != "scaffnew":
        assert all(map(np.array_equal, jax.tree.leaves(server), jax.tree.leaves(after)))


def test_parts_travel_as_parts():
    """FedNL-PP: a direction and its curvature, or entries and their places, with a gradient and a
    number; TAMUNA: two of five coordinates with their places, a byte a coordinate, and a number."""
    f = jax.tree.map(lambda x: x[0], quadratics(F))
    for name, bytes_ in (
        ("fednlpp", 8 * (D + 1) + 8 * D + 8),
        ("fednlpp-top", 3 * (8 + 4) + 8 * D + 8),
        ("tamuna-part", 2 * (8 + 4) + D + 8),
        ("tamuna", 8 * D + 8),
    ):
        algorithm = make(name)

        def upload(f, key, algorithm=algorithm):
            w = jnp.zeros(D)
            down = algorithm.broadcast(algorithm.init_server(w), key)
            return algorithm.client_step(f, algorithm.init_client(f, w), down, key)[1].value

        assert tree.nbytes(jax.eval_shape(upload, f, jax.random.key(0))) == bytes_, name


def test_they_say_what_they_need():
    everybody = {name for name, row in ALGORITHMS.items() if row.needs_everyone}
    assert everybody == {"scaffnew", "giant", "fedlbfgs", "sdane", "accsdane"}
    for options, reason in (
        ({"algorithm": "giant", "tau": 3}, "giant needs all clients in every round"),
        ({"algorithm": "tamuna", "l2": 0.0}, "tamuna needs a penalty"),
        ({"algorithm": "tamuna", "model": "mlp:3"}, "has no known bound"),
        (
            {"algorithm": "tamuna", "settings": {"s": 9}},
            OUT_OF_COHORT + "9, tau=3",
        ),
        ({"algorithm": "mime", "settings": {"momentum": 1}}, "need 0 <= momentum < 1"),
        ({"algorithm": "mime", "settings": {"solver": "newton"}}, "steps of a fixed size"),
        (
            {"algorithm": "fednlpp", "settings": {"rank": 99}},
            "the setting 'rank' must be at most 39, the number of",
        ),
    ):
        with pytest.raises(SpecError, match=reason):
            feddcd.run("wine", clients=4, rounds=1, **({"tau": 3} | options))
    with pytest.raises(
        SpecError,
        match=OUT_OF_COHORT + "1, tau=3",
    ):
        Tamuna(tau=3, N=4, s=1)
    shown = {look(name)[1:] for name in ALGORITHMS}
    assert len(shown) == len(ALGORITHMS)
