"""A coordinator that lies in one field of one message, whichever: nothing is answered to it."""

import collections
import itertools
import json
import shutil

import numpy as np
import pytest

from feddcd._errors import CodecError
from feddcd.durable.codec import pack, unpack
from feddcd.federation.folder import load_place
from feddcd.federation.following import COUNTS
from feddcd.federation.site.answer import answer
from feddcd.federation.wire import pack_message, unpack_message
from test_masked import SITES, _quick, finished, kinds, reason, tmp_path  # noqa: F401


def flip(data, rng):
    place = int(rng.integers(len(data)))
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def flip_hex(text, rng):
    return flip(bytes.fromhex(text), rng).hex()


def as_array(data):
    return np.frombuffer(data, np.uint8)


def without(held, name):
    return {key: value for key, value in held.items() if key != name}


def lies_in_meta(meta, others, rng):
    """One field of a message's words, changed: (which, the words)."""
    site, other = (SITES[i] for i in rng.permutation(3)[:2])
    nonces, marks, number = meta["nonces"], meta["signatures"], meta["number"]
    yield "id", meta | {"id": flip_hex(meta["id"], rng)}
    yield "id", meta | {"id": "../" + meta["id"][3:]}
    for odd in (number + 1, number - 1, number + 100, -1, 2**62, str(number), None, 0.5):
        yield "number", meta | {"number": odd}
    for at in (0, 1):
        pair = list(nonces[site])
        pair[at] = flip_hex(pair[at], rng)
        yield "nonces", meta | {"nonces": nonces | {site: pair}}
    yield "nonces", meta | {"nonces": nonces | {site: nonces[other]}}
    yield "cohort", meta | {"nonces": without(nonces, site)}
    yield "cohort", meta | {"nonces": nonces | {"west": nonces[site]}}
    yield "nonces", meta | {"nonces": list(nonces)}
    if marks:
        yield "signatures", meta | {"signatures": marks | {site: flip_hex(marks[site], rng)}}
        yield "signatures", meta | {"signatures": marks | {site: marks[other]}}
        yield "cohort", meta | {"signatures": without(marks, site)}
        yield "cohort", meta | {"signatures": marks | {"west": marks[site]}}
    yield "signatures", meta | {"signatures": others.meta["signatures"]}
    yield "more", meta | {"plan": {}}


def lies_in_arrays(arrays, others, rng):
    site, other = (SITES[i] for i in rng.permutation(3)[:2])
    question = arrays["question"].tobytes()
    yield "question", arrays | {"question": as_array(flip(question, rng))}
    yield "question", arrays | {"question": others.arrays["question"]}
    yield "question", arrays | {"question": arrays["question"][:-1]}
    for name, asked in lies_in_question(question, rng):
        yield name, arrays | {"question": as_array(asked)}
    yield "more", arrays | {"of west": arrays["question"]}
    if f"of {site}" in arrays:
        words = arrays[f"of {site}"].tobytes()
        for odd in (flip(words, rng), words[:-8], words + bytes(8), bytes(len(words))):
            yield "sums", arrays | {f"of {site}": as_array(odd)}
        yield "sums", arrays | {f"of {site}": arrays[f"of {other}"]}
        yield "cohort", without(arrays, f"of {site}")
        if f"of {site}" in others.arrays:
            yield "sums", arrays | {f"of {site}": others.arrays[f"of {site}"]}


def lies_in_question(question, rng):
    """Every part of it, by more than rounding."""
    if question == COUNTS:
        return
    meta, parts = unpack(question)
    yield "question", pack(meta | {"more": 1}, parts)
    for name, part in parts.items():
        where = f"question {name}"
        yield where, pack(meta, parts | {name: np.append(part, np.zeros(1, part.dtype))})
        yield where, pack(meta, without(parts, name))
        if part.dtype == bool:
            yield where, pack(meta, parts | {name: ~part})
        elif part.size:
            at = int(rng.integers(part.size))
            for change in (lambda x: 1.01 * x + 1e-3, lambda x: x + np.nan, lambda x: -x - 1):
                odd = part.copy().reshape(-1)
                odd[at] = change(odd[at])
                yield where, pack(meta, parts | {name: odd.reshape(part.shape)})


def lies(envelope, others, rng):
    for where, meta in lies_in_meta(envelope.meta, others, rng):
        yield where, envelope._replace(meta=meta)
    for where, arrays in lies_in_arrays(envelope.arrays, others, rng):
        yield where, envelope._replace(arrays=arrays)
    yield "kind", envelope._replace(kind="job")
    yield "kind", envelope._replace(kind="sums")


def told(said):
    """What a lying coordinator sends (site, field, the honest request, the lie), for ever."""
    asked = kinds(said, "exchange")
    honest = {request for _, request, _ in asked}
    for round in itertools.count():
        rng = np.random.default_rng(round)
        for site, request, _ in asked:
            other = unpack_message(asked[int(rng.integers(len(asked)))][1])
            for where, envelope in lies(unpack_message(request), other, rng):
                try:
                    lie = pack_message(envelope)
                except CodecError:  # nobody could have sent it
                    continue
                if lie not in honest:
                    yield site, where, request, lie


@pytest.mark.parametrize(
    ("count", "every"),
    [(100, 5), pytest.param(4000, 1, marks=pytest.mark.chaos)],
    ids=["some", "many"],
)
def test_to_a_lie_in_any_field_nothing_is_answered(finished, tmp_path, count, every):  # noqa: F811
    """And the site goes on as if nothing had been: it answers the question that it expects."""
    _, said, before = finished
    places, seen = {}, collections.Counter()
    for site, where, request, lie in itertools.islice(told(said), 0, count * every, every):
        if (request, site) not in places:
            copy = tmp_path / str(len(places))
            shutil.copytree(before[request, site], copy)
            places[request, site] = load_place(copy)
        assert reason(answer(lie, places[request, site])), (site, where)
        seen[where.split()[0]] += 1
    assert set(seen) == {
        "id", "number", "nonces", "cohort", "signatures", "more", "question", "sums", "kind"
    } - ({"kind", "more"} - set(seen))  # fmt: skip
    for site, request, data in kinds(said, "exchange"):  # as a whole folder from a backup would
        if (request, site) in places:
            assert answer(request, places[request, site]) == data, site


OTHERS = {
    "plan": lambda job: job["plan"] | {"tol": 1e-3},
    "agreement": lambda job: job["agreement"] | {"levels": {"sex": ["f", "m", "x"]}},
    "codebook": lambda job: "0" * 64,
    "version": lambda job: "0.0.1",
    "mode": lambda job: "each",
    "cohort": lambda job: ["east", "north"],
    "roster": lambda job: "0" * 64,
}


@pytest.mark.parametrize("field", OTHERS)
def test_a_site_that_was_told_another_job_takes_no_part_in_this_one(finished, tmp_path, field):  # noqa: F811
    """Its nonce is for the job that it was told: with the others' no id is made of it."""
    _, said, before = finished
    [(site, request)] = [each[:2] for each in kinds(said, "job") if each[0] == "east"]
    envelope = unpack_message(request)
    honest = json.loads(envelope.meta["job"])
    lie = json.dumps(
        honest | {field: OTHERS[field](honest)},
        sort_keys=True, separators=(",", ":"), ensure_ascii=False,
    )  # fmt: skip
    shutil.copytree(before[request, site], tmp_path / "east")
    place = load_place(tmp_path / "east")
    asked = pack_message(envelope._replace(meta=envelope.meta | {"job": lie}))
    reply = unpack_message(answer(asked, place))
    assert reply.kind == ("job" if field == "plan" else "refusal")
    first = next(unpack_message(r) for s, r, _ in kinds(said, "exchange") if s == "east")
    if reply.kind == "job":  # a plan is the coordinator's to choose
        mine = {"east": [reply.meta["nonce"], reply.meta["signature"]]}
        first = first._replace(meta=first.meta | {"nonces": first.meta["nonces"] | mine})
    assert reason(answer(pack_message(first), place))
