"""Messages of training in sums: found a job, answer a round, answer for the certificate.

A question carries the nonces that make the job's name, and the rounds that are over since the
site's last answer, each with what proves its sum. An answer is masked words and a signature.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from .. import tree
from .._errors import Refused
from .._types import Params
from ..durable.codec import pack, unpack
from ..durable.protocol.masked import (
    Told,
    check_follows,
    read_answer,
    read_nonce,
    write_answer,
    write_nonce,
)
from ..durable.shapes import Shapes
from ..measure import Tangent
from ..sums.job import Job, SignedNonce
from ..sums.proof import SignedAnswer
from ..sums.roster import Roster
from .terms import Terms
from .training_wire import CertificatePart
from .wire import Envelope

KINDS = ("training", "round", "certificate")


class SealedAsk(NamedTuple):
    federation: str
    nonces: Mapping[str, SignedNonce]
    history: tuple[Told, ...]
    question: bytes


def training_job(
    terms: Terms, roster: Roster, rows: Mapping[str, int], weights: Mapping[str, float], rounds: int
) -> Job:
    """What is trained, by whom, in how many rounds."""
    agreement = {"rows": dict(rows), "weights": dict(weights), "tau": terms.tau, "rounds": rounds}
    cohort, book = tuple(sorted(rows)), roster.digest.hex()
    return Job(terms.to_json(), agreement, "", version("feddcd"), "sum", cohort, book)


def ask_envelope(
    kind: str, federation: str, nonces: Mapping[str, str], history: Iterable[Told], question: bytes
) -> Envelope:
    told, arrays = [], {"question": _bytes(question)}
    for round, asked, answers in history:
        names = sorted(answers)
        told.append([round, names])
        arrays[f"{round}.question"] = _bytes(asked)
        for k, name in enumerate(names):
            arrays[f"{round}.{k}"] = _bytes(write_answer(answers[name]))
    meta = {"federation": federation, "nonces": dict(nonces), "told": told}
    return Envelope(kind, meta, arrays)


def read_ask(envelope: Envelope) -> SealedAsk:
    try:
        arrays = {name: _plain(array) for name, array in envelope.arrays.items()}
        nonces = {str(k): read_nonce(v) for k, v in envelope.meta["nonces"].items()}
        history = []
        for round, names in envelope.meta["told"]:
            answers = {str(n): read_answer(arrays[f"{round}.{k}"]) for k, n in enumerate(names)}
            history.append(Told(_whole(round), arrays[f"{round}.question"], answers))
        federation = str(envelope.meta["federation"])
        return SealedAsk(federation, nonces, tuple(history), arrays["question"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Refused("this site cannot read the question of a training in mode 'sum'") from None


def nonce_envelope(client: str, nonce: SignedNonce) -> Envelope:
    return Envelope("nonce", {"client": client, "nonce": write_nonce(nonce)}, {})


def masked_envelope(client: str, answer: SignedAnswer) -> Envelope:
    return Envelope("masked", {"client": client}, {"masked": _bytes(write_answer(answer))})


def read_signed(envelope: Envelope) -> SignedAnswer:
    return read_answer(_plain(envelope.arrays["masked"]))


def model_question(model: Params, round: int) -> bytes:
    """For the certificate of this model, after this number of rounds."""
    return pack({"certificate": round}, tree.flatten({"model": model}))


def read_model(question: bytes, round: int, own: Params) -> Params:
    """The model asked for; refused unless it is the site's own replica's, up to rounding."""
    meta, arrays = unpack(question)
    if meta != {"certificate": round}:
        raise Refused(f"the question does not ask for the certificate after round {round}")
    asked = tree.restore({"model": own}, arrays)["model"]
    check_follows(own, asked, own)
    return asked


def certificate_like(like: Shapes, w: Params) -> PyTree:
    """What a site's part of the certificate looks like, with its part of the conserved sums."""
    number: Any = jax.ShapeDtypeStruct((), jax.tree.leaves(w)[0].dtype)
    tangent = Tangent(number, number, w, number)
    return {"conserved": like.conserved, "proof": CertificatePart(number, number, tangent, tangent)}


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def _plain(array: np.ndarray) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise TypeError("a part of the message must be bytes")
    return array.tobytes()


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("a part of the message must be a whole number")
    return value
