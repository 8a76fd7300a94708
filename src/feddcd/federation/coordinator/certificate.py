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
from ...durable.server import LedgerServer, committed_rounds
from ...measure import lower_bound
from ..folder import FederationFolder
from ..terms import Learner, Terms
from ..wire import CertificatePart, Closing

Closings = Mapping[str, Closing]


def certify(learner: Learner, terms: Terms, server: Server, closings: Closings) -> dict[str, float]:
    """Objective and lower bound in mean form, from all members' parts."""
    proofs = [closings[client].proof for client in server.members]
    value, bound = map(float, _value_and_bound(proofs))
    objective = value / len(proofs)
    measures: dict[str, float] = {"objective": objective}
    if learner.f.convex:  # a tangent bounds a convex function from below, and no other
        measures |= {"lower_bound": bound, "certified_gap": objective - bound}
    if terms.classes is not None:
        rows = np.array([member.rows for member in server.members.values()])
        right = np.array([float(proof.score) for proof in proofs if proof is not None])
        measures["accuracy"] = float(rows @ right / rows.sum())
    return measures


@jax.jit
def _value_and_bound(proofs: list[CertificatePart]) -> tuple[Scalar, Scalar]:
    total, N = tree.total(tree.stack(proofs)), len(proofs)
    bound = jnp.fmax(lower_bound(total.at_model, N), lower_bound(total.at_own, N))
    return total.value, bound


def imbalance(learner: Learner, server: Server, closings: Closings) -> float | None:
    """How far the members' sums are from what the server holds: rebalancing changes nothing if
    they agree. None where nothing is conserved."""
    shares = [closings[client].settled.conserved for client in server.members]
    if shares[0] is None:
        return None
    weight = sum(member.weight for member in server.members.values())
    after = learner.algorithm.rebalance(server.state, sum_of(shares), jnp.asarray(weight))
    return _distance(server.state, after)


def _distance(a: PyTree, b: PyTree) -> float:
    """Largest entry of the difference; a part that only one of them has counts against zero."""
    left, right = flatten(a), flatten(b)
    pairs = [(left.get(k, 0.0), right.get(k, 0.0)) for k in {*left, *right}]
    return max(float(np.max(np.abs(np.subtract(x, y, dtype=float)))) for x, y in pairs)


def write_results(
    folder: FederationFolder, terms: Terms, server: LedgerServer, measures: dict[str, Any]
) -> None:
    """model.npz and summary.json; what is not certified now is not in there."""
    model = server.model
    arrays = {"w": np.asarray(model)} if isinstance(model, jax.Array) else flatten(model)
    if isinstance(terms.features, tuple):
        arrays["features"] = np.array(terms.features)
    if terms.classes is not None:
        arrays["classes"] = np.array(terms.classes)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    folder.save(folder.server / "model.npz", file.getvalue())
    sums = committed_rounds(server.ledger, server.like)
    uploads = sum(len(record.members) for record in sums)
    each = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(server.like.value))
    summary: dict[str, Any] = {
        "federation": terms.federation, "algorithm": terms.algorithm, "rounds": len(sums),
        "uploads": uploads, "bytes_up": uploads * each, "epoch": server.now.epoch,
        "members": {client: member.rows for client, member in server.now.members.items()},
    }  # fmt: skip
    folder.save(folder.server / "summary.json", summary | measures)
