"""What the members say together when they settle: the audit of sums, the certificate, the model."""

import io
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ... import tree
from ..._types import Scalar
from ...durable.codec import flatten
from ...durable.protocol import Server
from ...durable.protocol.server import sum_of
from ...durable.server import Book, committed
from ...measure import lower_bound
from ..folder import Home
from ..terms import Parts, Terms
from ..wire import Closing, Proof

Closings = Mapping[str, Closing]


def combined(parts: Parts, terms: Terms, server: Server, said: Closings) -> dict[str, float]:
    """Objective and lower bound in mean form, from all members' parts."""
    proofs = [said[client].proof for client in server.members]
    value, bound = map(float, _value_and_bound(proofs))
    objective = value / len(proofs)
    found: dict[str, float] = {"objective": objective}
    if parts.f.convex:
        found |= {"lower_bound": bound, "certified_gap": objective - bound}
    if terms.classes is not None:
        rows = np.array([member.rows for member in server.members.values()])
        right = np.array([float(proof.score) for proof in proofs if proof is not None])
        found["accuracy"] = float(rows @ right / rows.sum())
    return found


@jax.jit
def _value_and_bound(proofs: list[Proof]) -> tuple[Scalar, Scalar]:
    total, N = tree.total(tree.stack(proofs)), len(proofs)
    bound = jnp.fmax(lower_bound(total.at_model, N), lower_bound(total.at_own, N))
    return total.value, bound


def residual(parts: Parts, server: Server, said: Closings) -> float | None:
    """How far the members' sums are from what the server holds: rebalancing changes nothing if
    they agree. None where nothing is conserved."""
    held = [said[client].settled.conserved for client in server.members]
    if held[0] is None:
        return None
    weight = sum(member.weight for member in server.members.values())
    after = parts.algorithm.rebalance(server.state, sum_of(held), jnp.asarray(weight))
    return _distance(server.state, after)


def _distance(a: PyTree, b: PyTree) -> float:
    """Largest entry of the difference; a part that only one of them has counts against zero."""
    left, right = flatten(a), flatten(b)
    pairs = [(left.get(k, 0.0), right.get(k, 0.0)) for k in {*left, *right}]
    return max(float(np.max(np.abs(np.subtract(x, y, dtype=float)))) for x, y in pairs)


def write_results(home: Home, terms: Terms, book: Book, found: dict[str, Any]) -> None:
    """model.npz and summary.json; what is not certified now is not in there."""
    model = book.algorithm.model(book.server.state)
    arrays = {"w": np.asarray(model)} if isinstance(model, jax.Array) else flatten(model)
    if isinstance(terms.features, tuple):
        arrays["features"] = np.array(terms.features)
    if terms.classes is not None:
        arrays["classes"] = np.array(terms.classes)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    home.save(home.server / "model.npz", file.getvalue())
    sums = committed(book.ledger, book.like)
    uploads = sum(len(record.members) for record in sums)
    each = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(book.like.value))
    summary: dict[str, Any] = {
        "federation": terms.federation, "algorithm": terms.algorithm, "rounds": len(sums),
        "uploads": uploads, "bytes_up": uploads * each, "epoch": book.server.epoch,
        "members": {client: member.rows for client, member in book.server.members.items()},
    }  # fmt: skip
    home.save(home.server / "summary.json", summary | found)
