"""Rounds on one and on several devices, in a process of their own: JAX counts devices once.

    python shards.py METHOD,... CASE,...

Prints a JSON object: how many devices hold the clients, how many of them the data, and by how
much states and records differ from those of one device, for each way of running."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

from feddcd.algorithms import FedDCD
from feddcd.data import Dataset
from feddcd.data import federate as module
from feddcd.data.federate import federate
from feddcd.participation import Lossy, UniformSubset
from feddcd.problems import Stacks
from feddcd.runs.build import make_algorithm
from feddcd.runs.spec import Spec
from feddcd.simulator.simulate import advance, federation, start
from feddcd.simulator.threads import worthwhile_threads
from feddcd.solvers import GradientDescent

N, TAU, ROUNDS = 12, 5, 4
CASES = {  # side by side, lossy, clients of several sizes
    "one by one": (False, False, False),
    "lossy": (False, True, False),
    "side by side": (True, False, False),
    "side by side lossy": (True, True, False),
    "stacks": (False, False, True),
    "side by side stacks": (True, False, True),
}


def clients(uneven: bool):
    random = np.random.default_rng(0)
    sizes = np.r_[60, np.full(N - 1, 8)] if uneven else np.full(N, 10)
    X, y = random.normal(size=(sizes.sum(), 3)), random.random(sizes.sum()) < 0.4
    module.WORTH = 0 if uneven else 1e9
    parts = np.split(np.arange(len(X)), np.cumsum(sizes)[:-1])
    made = federate(Dataset("x", X, y.astype(float)), parts, model="logistic", l2=1e-2)
    assert isinstance(made.problem, Stacks) == uneven
    return made


def differ(name: str, case: str) -> dict:
    side_by_side, lossy, uneven = CASES[case]
    made = clients(uneven)
    if name == "simple":
        algorithm = FedDCD(GradientDescent(steps=3))
    else:
        algorithm = make_algorithm(Spec(algorithm=name, l2=1e-2, model="logistic"), N, TAU, made)
    who = UniformSubset(N, TAU)
    ends, devices, data = [], [], []
    for share in (False, True):
        fed = federation(
            algorithm, made.problem, Lossy(who, 0.3) if lossy else who, seed=0,
            side_by_side=side_by_side, share=share,
        )  # fmt: skip
        assert worthwhile_threads(fed) == 1
        state = start(fed, made.w)
        state, record, _ = advance(fed, state, jnp.asarray(ROUNDS, jnp.int32), ROUNDS)
        ends.append(jax.tree.leaves((state, record)))
        parts = lambda x: len({shard.index[0].start for shard in x.addressable_shards})
        devices.append(parts(jax.tree.leaves(state.clients)[0]))
        data.append(parts(jax.tree.leaves(fed.problem)[0]))
    far = max(np.nanmax(np.abs(np.subtract(a, b, dtype=float))) for a, b in zip(*ends, strict=True))
    return {"devices": devices, "data": data, "apart": float(far)}


if __name__ == "__main__":
    with jax.enable_x64(True):
        names, cases = sys.argv[1].split(","), sys.argv[2].split(",")
        print(json.dumps({f"{n}: {c}": differ(n, c) for n in names for c in cases}))
