"""A job has one name, and its proof is found out at any flipped bit."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddcd._errors import Refused, SpecError
from feddcd.sums import signing
from feddcd.sums._canonical import canonical, digest, parse
from feddcd.sums.chain import new_secret, public_half
from feddcd.sums.job import Job, SignedNonce, job_id, signed_nonce
from feddcd.sums.proof import JobProof, SignedAnswer, check_exchange
from feddcd.sums.roster import Roster
from sum_sites import LAYOUT, Sites, fixed, some_values, sum_sites

SITES = sum_sites()
PROOF = SITES.proof()
JOB = PROOF.job
DATA = PROOF.to_bytes()

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=60)
@given(plain)
def test_one_value_has_one_text(value):
    data = canonical(value)
    assert canonical(parse(data, 10**6)) == data
    for other in (data + b" ", b" " + data):
        with pytest.raises(Refused):
            parse(other, 10**6)


@pytest.mark.parametrize(
    "text",
    [b'{"a":1,"a":2}', b'{"b":1,"a":2}', b"NaN", b"Infinity", b'"\\u0061"', b"1.00", b"1e5",
     b'"\xff"', b'"\\ud800"', b"[" * 10**5, b"[" * 40 + b"]" * 40, b"9" * 5000, b"", b"01",
     b"9223372036854775808", b"[1, 2]"],
)  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(Refused, match="JSON"):
        parse(text, 10**6)


@pytest.mark.parametrize("odd", [np.nan, np.inf, {1: 2}, b"x", {1, 2}, 2**63, "\ud800", object()])
def test_what_has_no_text_is_refused(odd):
    with pytest.raises(SpecError):
        canonical({"a": [odd]})


def test_fields_keep_their_bounds():
    """a|bc and ab|c are two things, and so is the same for another purpose."""
    every = [("p", b"a", b"bc"), ("p", b"ab", b"c"), ("p", b"abc"), ("pa", b"bc"), ("q", b"abc"),
             ("p", b"abc", b"")]  # fmt: skip
    assert len({digest(*fields) for fields in every}) == len(every)


CHANGES = {
    "plan": {"formula": "y ~ x + z"}, "agreement": {"levels": {"a": []}}, "codebook": "00",
    "version": "2", "mode": "each", "cohort": JOB.cohort[:-1], "roster": "00" * 32,
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_of_a_job_is_in_its_digest(field):
    other = dataclasses.replace(JOB, **{field: CHANGES[field]})
    assert other.digest != JOB.digest
    with pytest.raises(Refused):
        job_id(other, SITES.roster, PROOF.nonces)
    assert Job.from_json(JOB.to_json()) == JOB


@pytest.mark.parametrize("field", CHANGES)
def test_odd_fields_of_a_job_are_refused(field):
    for odd in (None, 7, [1], {"x": 1}, "", "each way"):
        values = parse(JOB.to_json(), 10**6) | {field: odd}
        if field in ("version", "codebook") and isinstance(odd, str):
            continue  # these the site compares with its own
        if field in ("plan", "agreement") and isinstance(odd, dict):
            continue
        with pytest.raises(Refused):
            Job.from_json(canonical(values)).check(SITES.roster)
    with pytest.raises(Refused, match="exactly these parts"):
        Job.from_json(canonical(parse(JOB.to_json(), 10**6) | {"more": 1}))


def test_a_job_of_one_site_alone_is_none_of_sums():
    two = dataclasses.replace(JOB, cohort=JOB.cohort[:2])
    with pytest.raises(Refused, match="at least 3"):
        two.check(SITES.roster)
    dataclasses.replace(two, mode="each").check(SITES.roster)


def test_a_job_needs_everybodys_fresh_nonce():
    first, *rest = JOB.cohort
    fresh = {name: signed_nonce(SITES.keys[name], JOB, new_secret()) for name in JOB.cohort}
    assert job_id(JOB, SITES.roster, fresh) != PROOF.id
    for wrong, told in (
        ({n: fresh[n] for n in rest}, "of each site that takes part in the job, and of no other"),
        (
            fresh | {"site 9": fresh[first]},
            "of each site that takes part in the job, and of no other",
        ),
        (
            fresh | {first: fresh[rest[0]]},
            f"the nonce of site {first!r} was not signed with the key of this site",
        ),
        (fresh | {first: fresh[first]._replace(nonce=b"short")}, "32 bytes"),
        (
            fresh | {first: SignedNonce(fresh[first].nonce, b"")},
            f"the nonce of site {first!r} was not signed with the key of this site",
        ),
    ):
        with pytest.raises(Refused, match=told):
            job_id(JOB, SITES.roster, wrong)
    same = public_half(fixed("same"))
    copied = {n: SignedNonce(same, signing.sign_nonce(SITES.keys[n].signing, JOB.digest, same))
              for n in JOB.cohort}  # fmt: skip
    with pytest.raises(Refused, match="same nonce"):
        job_id(JOB, SITES.roster, copied)
    for weak, told in (
        (bytes(32), "is weak, because other people could compute"),
        (b"\xff" * 32, "not a valid X25519 key"),
    ):
        mark = signing.sign_nonce(SITES.keys[first].signing, JOB.digest, weak)
        with pytest.raises(Refused, match=f"the nonce of site {first!r} .*{told}"):
            job_id(JOB, SITES.roster, fresh | {first: SignedNonce(weak, mark)})


def test_no_signature_stands_for_another():
    key, public = SITES.keys["site 0"].signing, SITES.roster["site 0"].signing
    a, b = fixed(1), fixed(2)
    signed = {
        "roster": signing.sign_roster(key, a), "nonce": signing.sign_nonce(key, a, b),
        "answer": signing.sign_answer(key, a, b, b"y"),
    }  # fmt: skip
    for name, signature in signed.items():
        for verify, fields in ((signing.verify_roster, (a,)), (signing.verify_nonce, (a, b)),
                               (signing.verify_answer, (a, b, b"y"))):  # fmt: skip
            if verify.__name__.endswith(name):
                verify(public, *fields, signature)
            else:
                with pytest.raises(Refused, match="signature"):
                    verify(public, *fields, signature)


def test_a_proof_opens_the_sums(tmp_path):
    PROOF.write(tmp_path / "proof")
    again = JobProof.read(tmp_path / "proof").check()
    assert again.to_bytes() == DATA
    assert again.id == PROOF.id
    rng = np.random.default_rng(0)
    for number in range(2):
        values, found = some_values(JOB.cohort, rng), again.sums(number)
        plain = np.sum([v["g"] for v in values.values()], 0)
        assert np.allclose(found["g"], plain, rtol=1e-13, atol=0)
    with pytest.raises(Refused, match="there is no proof at "):
        JobProof.read(tmp_path / "nothing")
    with pytest.raises(Refused, match="cannot be read"):
        JobProof.read(tmp_path)


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def is_found(data):
    try:
        JobProof.from_bytes(data).check()
    except Refused:
        return True
    return False


def test_a_flipped_bit_is_found():
    assert not is_found(DATA)
    bits = np.random.default_rng(0).choice(8 * len(DATA), 250, replace=False)
    bits = [*range(8 * 20), *(int(bit) for bit in bits)]  # and all of its head
    assert all(is_found(flipped(DATA, bit)) for bit in bits)


@pytest.mark.chaos
def test_any_flipped_bit_is_found():
    assert all(is_found(flipped(DATA, bit)) for bit in range(8 * len(DATA)))


def test_nothing_may_be_missing_or_left_over():
    rng = np.random.default_rng(0)
    for size in (0, 1, 16, len(DATA) - 1, *rng.integers(0, len(DATA), 50)):
        assert is_found(DATA[:size])
    assert is_found(DATA + b"\0")
    assert is_found(DATA * 2)


@settings(max_examples=100)
@given(st.integers(0, len(DATA) - 1), st.binary(min_size=1, max_size=16))
def test_odd_bytes_are_refused_by_name(at, other):
    changed = DATA[:at] + other + DATA[at + len(other) :]
    assert changed == DATA or is_found(changed)


def test_a_proof_that_promises_much_costs_nothing():
    """Lengths are held against what is there before anything is made."""
    for at in (16, len(DATA) // 2):
        assert is_found(DATA[:at] + b"\x7f" + b"\xff" * 7 + DATA[at + 8 :])


def exchanged(**answers):
    first = PROOF.exchanges[0]
    held = {**first.answers, **answers}
    return first._replace(answers={n: a for n, a in held.items() if a is not None})


def check(exchange, number=0, identity=PROOF.id):
    return check_exchange(SITES.roster, JOB, identity, number, exchange)


def test_an_exchange_names_the_site_that_did_not_sign_it():
    first, second = PROOF.exchanges
    a, b, _ = JOB.cohort
    words, signature = first.answers[a]
    assert np.isfinite(check(first)["g"]).all()
    for wrong, told in (
        ({a: SignedAnswer(words, first.answers[b].signature)}, a),
        ({a: first.answers[b]}, a), ({a: second.answers[a]}, a),
        ({b: SignedAnswer(first.answers[b].words[:-8], signature)}, b),
        ({b: None}, "answer of each site"), ({"site 9": first.answers[a]}, "answer of each site"),
    ):  # fmt: skip
        with pytest.raises(Refused, match=told):
            check(exchanged(**wrong))
    for wrong in (second._replace(question=first.question), first._replace(question=b"other")):
        with pytest.raises(Refused, match="signature"):
            check(wrong)
    for number, identity in ((1, PROOF.id), (0, fixed("another job"))):
        with pytest.raises(Refused, match="signature"):
            check(first, number, identity)


def test_a_layout_that_reads_the_same_words_otherwise_is_refused():
    """Two parts of one shape with their names exchanged: the sums would change places."""
    twisted = type(LAYOUT)([s._replace(name={"g": "n", "n": "g"}.get(s.name, s.name))
                            for s in LAYOUT.slots])  # fmt: skip
    with pytest.raises(Refused, match="signature"):
        check(PROOF.exchanges[0]._replace(layout=twisted))


def test_a_proof_with_a_site_of_the_coordinators_own_is_refused():
    """The roster's members sign it, all of them."""
    others = sum_sites(4)
    mixed = Roster(others.roster.members, SITES.roster.signatures)
    forged = Sites(others.keys, mixed).proof()
    with pytest.raises(Refused, match="sign"):
        JobProof.from_bytes(forged.to_bytes()).check()


def test_a_proof_of_before_is_refused_by_its_version():
    """Its masks were made of long-term keys alone."""
    with pytest.raises(Refused, match="not a proof, or a proof of another version"):
        JobProof.from_bytes(DATA.replace(b"proof 2", b"proof 1", 1))
