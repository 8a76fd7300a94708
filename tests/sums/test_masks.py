"""A masked answer tells nothing: neither to the coordinator, nor to all sites but two."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from feddcd._errors import Refused, SpecError
from feddcd.sums import masks
from feddcd.sums.chain import advanced, begin, derived, new_secret, public_half
from feddcd.sums.job import job_id, signed_nonce
from feddcd.sums.keys import SiteKeys
from feddcd.sums.layout import Layout, Slot
from feddcd.sums.masks import context, masked
from feddcd.sums.roster import Roster, RosterMember
from slices import sliced
from sum_sites import LAYOUT, PLAIN, fixed, fixed_keys, some_values, sum_sites

SITES = sum_sites(5)
COHORT = SITES.roster.names
JOB = fixed("job")
CTX = context(SITES.roster, COHORT, JOB, 0, b"question")


def all_masked(words, layout=PLAIN, ctx=CTX, cohort=COHORT):
    return {name: SITES.answer(name, words[name], layout, cohort, ctx) for name in cohort}


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.permutations(COHORT), st.integers(3, 5))
def test_the_sum_is_that_of_the_plain_words_in_any_order(seed, order, size):
    cohort, rng = order[:size], np.random.default_rng(seed)
    words = {name: LAYOUT.encode(v) for name, v in some_values(cohort, rng).items()}
    sent = all_masked(words, LAYOUT, CTX, cohort)
    plain, total = LAYOUT.total(words.values()), LAYOUT.total(sent.values())
    assert np.array_equal(LAYOUT.total(sent[name] for name in order[:size]), total)
    levels = LAYOUT.random(plain)  # of these it is told whether they are 0, and no more
    assert np.array_equal(total[~levels], plain[~levels])
    assert np.all(total[levels] != 0)
    assert not any(np.any(sent[name] == words[name]) for name in cohort)


def test_long_answers_are_masked_piece_by_piece(monkeypatch):
    """Pieces that end within the numbers, and within the words behind them."""
    long = Layout([Slot("g", "sum", (50,)), Slot("n", "count", (70,))])
    rng = np.random.default_rng(0)
    words = {name: np.append(_words(rng, long)[:-1], np.uint64(0)) for name in COHORT}
    whole = all_masked(words, long)
    assert np.array_equal(long.total(whole.values()), long.total(words.values()))
    monkeypatch.setattr(masks, "CHUNK", 256)
    pieces = all_masked(words, long)
    assert all(np.array_equal(whole[name], pieces[name]) for name in COHORT)


def _words(rng, layout=PLAIN):
    return np.frombuffer(rng.bytes(8 * layout.words), np.uint64)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_every_pair_of_inputs_with_the_same_sum_has_masks_that_give_the_same_answers(seed):
    """Exactly: Y_1 = a + m and Y_2 = b - m are those of a' and b' = a + b - a', too, with the mask
    m' = m + a - a'; so what is seen is as likely for the one as for the other."""
    rng = np.random.default_rng(seed)
    a, b, mask, other = (_words(rng) for _ in range(4))
    minus, add = _negated, lambda *parts: PLAIN.total(parts)
    seen = add(a, mask), add(b, minus(mask))
    a2, b2 = other, add(a, b, minus(other))
    mask2 = add(mask, a, minus(a2))
    assert np.array_equal(add(a2, mask2), seen[0])
    assert np.array_equal(add(b2, minus(mask2)), seen[1])


def _negated(words):
    adder = masks.Adder(PLAIN.numbers, PLAIN.words)
    adder.subtract(words)
    return adder.total()


def unmasked(sent, site, friends, ctx, layout=PLAIN):
    """What is left of a site's answer when these others tell their masks."""
    return layout.total([sent, *(_pair(name, site, layout, ctx) for name in friends)])


def _pair(name, site, layout, ctx):
    """The mask of a pair with the other site's sign, so that adding it takes it away."""
    key = masks.mask_key(SITES.chain(name), site, layout, ctx)
    stream = masks._next(masks._stream(key), layout.words, bytearray(masks.CHUNK))
    adder = masks.Adder(layout.numbers, layout.words)
    adder.add(stream) if name < site else adder.subtract(stream)
    return adder.total()


def test_all_others_together_can_read_a_site():
    """So the attack of the next test is a real one: it needs one mask more."""
    words = {name: PLAIN.encode(v) for name, v in _plain_values(1).items()}
    site, *others = COHORT
    sent = all_masked(words)[site]
    assert np.array_equal(unmasked(sent, site, others, CTX), words[site])
    assert not np.any(unmasked(sent, site, others[1:], CTX) == words[site])


def _plain_values(sign):
    return {n: {"g": sign * np.arange(1.0, 5), "n": np.arange(3.0)} for n in COHORT}


def _left_over(runs, sign):
    """Of the first site's answers, to all but the second."""
    site, _, *friends = COHORT
    words = PLAIN.encode(_plain_values(sign)[site])
    held = []
    for run in range(runs):
        ctx = context(SITES.roster, COHORT, JOB, run, b"question of %d" % sign)
        sent = SITES.answer(site, words, PLAIN, COHORT, ctx)
        held.append(unmasked(sent, site, friends, ctx))
    return np.array(held)


def check_uniform(runs):
    """Bytes by chi-square, each bit over the runs, pairs of neighbouring bits, and no difference
    between positive and negative numbers; a false alarm is below 1e-6 each, and seeds are fixed."""
    both = [_left_over(runs, sign) for sign in (1, -1)]
    for words in both:
        assert len(np.unique(words)) == words.size
        seen = np.bincount(words.view(np.uint8).ravel(), minlength=256)
        assert _chi_square(seen, np.full(256, seen.sum() / 256)) > 1e-6
        bits = np.unpackbits(words.view(np.uint8), axis=1)
        worst = 2 * np.sqrt(runs) * np.max(np.abs(bits.mean(0) - 0.5))
        assert worst < 6.5, "one of some 1,300 bits has a preference"
        same = bits[:, 1:] == bits[:, :-1]
        assert 2 * np.sqrt(runs) * np.max(np.abs(same.mean(0) - 0.5)) < 6.5
        agree = (bits[1:] == bits[:-1]).mean()  # from one run to the next
        assert abs(agree - 0.5) < 6 * 0.5 / np.sqrt(bits.size)
    tops = [np.bincount((words[:, 3] >> 60).astype(int), minlength=16) for words in both]
    assert _chi_square(tops[0], tops[1], two=True) > 1e-6, "the highest word tells the sign"


def _chi_square(seen, expected, two=False):
    scale = expected + seen if two else expected
    return chi2.sf(np.sum((seen - expected) ** 2 / scale), len(seen) - 1)


def test_to_all_but_two_an_answer_is_uniform():
    check_uniform(500)


@pytest.mark.chaos
def test_to_all_but_two_an_answer_is_uniform_over_many_runs():
    check_uniform(10_000)


class Collected:
    """Every key of a stream, with the two sites and what it was for."""

    def __init__(self, monkeypatch):
        self.keys, self.real = {}, masks._stream
        monkeypatch.setattr(masks, "_stream", self)

    def __call__(self, key):
        self.keys.setdefault(key, []).append(self.purpose)
        return self.real(key)


MANY = (0, 1, 2, 256), (b"", b"q", b"q\0")
SOME = (0, 256), (b"q", b"q\0")


@pytest.mark.parametrize(("exchanges", "questions"), sliced([SOME, MANY], [SOME]))
def test_no_key_stream_is_used_twice(exchanges, questions, monkeypatch):
    """Over sites, pairs, exchanges, questions, cohorts, jobs, nonces, layouts and restarts: both
    ends of a pair use a key once for each purpose, and nobody else does."""
    collected = Collected(monkeypatch)
    other = Layout([Slot("h", "sum", (4,)), Slot("n", "count", (3,))])
    cohorts = [COHORT, COHORT[:3], COHORT[1:4]]
    jobs = [(SITES.id(SITES.job(plan={"a": a}), n), n) for a in (1, 2) for n in (0, 1)]
    asked = itertools.product(jobs, cohorts, exchanges, questions, (PLAIN, other))
    made, chains = 0, set()
    for (job, again), cohort, exchange, question, layout in asked:
        ctx = context(SITES.roster, cohort, job, exchange, question)
        collected.purpose = (job, cohort, exchange, question, layout)
        for name in cohort[:2]:
            chain = SITES.chain(name, job, exchange, again)
            chains |= {(key, job, exchange) for key in chain.keys.values()}
            SITES.answer(name, np.zeros(layout.words, np.uint64), layout, cohort, ctx, chain)
        made += 2 * len(cohort) - 3  # the pair of the two is used at both ends
        made += 2  # and each site has a stream of its own
    assert len(collected.keys) == made
    assert all(len(set(purposes)) == 1 for purposes in collected.keys.values())
    assert all(len(purposes) <= 2 for purposes in collected.keys.values())
    assert len({key for key, *_ in chains}) == len(chains), "a key for each job and exchange"


def test_both_ends_of_a_pair_have_one_key_and_nobody_else_has_it():
    for number in (0, 1, 7):
        keys = {name: SITES.chain(name, JOB, number).keys for name in COHORT}
        for one, other in itertools.combinations(COHORT, 2):
            assert keys[one][other] == keys[other][one]
        held = [key for each in keys.values() for key in each.values()]
        assert len(set(held)) == len(COHORT) * (len(COHORT) - 1) // 2 + len(COHORT)


def test_a_chain_goes_on_and_not_back():
    first = SITES.chain(COHORT[0], JOB)
    later = advanced(first, 5)
    assert later == advanced(advanced(first, 2), 5) == SITES.chain(COHORT[0], JOB, 5)
    assert not set(later.keys.values()) & set(advanced(first, 4).keys.values())
    with pytest.raises(Refused, match="this site has already answered exchange 4, and has removed"):
        advanced(later, 4)


def test_long_term_keys_alone_make_no_key_of_a_job():
    """Nor does the key of a job without them; nor a key of another nonce than was signed."""
    me, secret = COHORT[0], fixed("nonce", COHORT[0], 0)
    nonces = {name: public_half(fixed("nonce", name, 0)) for name in COHORT}
    made = lambda keys, secret: begin(keys, SITES.roster, JOB, nonces, secret)[""].keys
    own = made(SITES.keys[me], secret)
    assert own == SITES.chain(me, JOB).keys
    with pytest.raises(
        Refused, match="lost its key for the job, or has the key of another job; start a new"
    ):
        made(SITES.keys[me], fixed("guess"))
    with pytest.raises(Refused, match="keys are not in the roster"):
        made(fixed_keys("thief"), secret)
    for other in COHORT[1:]:
        shared = SITES.keys[me].secret(SITES.roster[other].agreement)
        for known in (shared, secret, shared + secret, secret + shared):
            assert derived(known, "feddcd-pair-2", JOB) != own[other]


def test_a_restarted_site_makes_the_same_bytes_again(tmp_path):
    words = PLAIN.encode(_plain_values(1)[COHORT[0]])
    SITES.keys[COHORT[0]].save(tmp_path / "keys")
    again, roster = SiteKeys.load(tmp_path / "keys"), Roster.from_json(SITES.roster.to_json())
    nonces = {name: public_half(fixed("nonce", name, 0)) for name in COHORT}
    chain = begin(again, roster, b"", nonces, fixed("nonce", COHORT[0], 0))[""]
    sent = masked(words, PLAIN, chain, COHORT[0], roster, COHORT, CTX)
    assert np.array_equal(sent, SITES.answer(COHORT[0], words, PLAIN, COHORT, CTX))


@pytest.mark.parametrize("value", [1.0, np.inf, np.nan])
def test_an_answer_that_was_lost_is_made_again_to_the_last_bit(value):
    """As after a backup came back: new random words for levels, or new noise, under the same masks
    would tell by their difference which levels are this site's."""
    values = some_values(COHORT, np.random.default_rng(0))[COHORT[0]] | {"value": np.array(value)}
    sent, again = (
        SITES.answer(COHORT[0], LAYOUT.encode(values), LAYOUT, COHORT, CTX) for _ in range(2)
    )
    assert np.array_equal(sent, again)


def test_random_words_differ_by_site_context_and_layout():
    other = Layout([*LAYOUT.slots, Slot("more", "count", ())])
    values = some_values(COHORT[:1], np.random.default_rng(0))[COHORT[0]]
    words = LAYOUT.encode(values)
    longer = other.encode(values | {"more": np.array(0.0)})
    drawn = [
        masks._redrawn(given, layout, SITES.chain(name), ctx)[layout.random(given)]
        for name in COHORT[:2] for ctx in (CTX, JOB)
        for layout, given in ((LAYOUT, words), (other, longer))
    ]  # fmt: skip
    assert all(len(each) for each in drawn)
    held = np.concatenate(drawn)
    assert len(np.unique(held)) == held.size
    assert np.all(held != 0)


def test_a_job_founded_twice_has_two_names():
    job = SITES.job()
    ids = {
        job_id(
            job, SITES.roster, {n: signed_nonce(SITES.keys[n], job, new_secret()) for n in COHORT}
        )
        for _ in range(20)
    }
    assert len(ids) == 20


def _other_roster():
    members = [m for m in SITES.roster.members if m.name != COHORT[-1]]
    return Roster([*members, RosterMember.of(COHORT[-1], fixed_keys("another"))])


FIELDS = {
    "roster": {"roster": _other_roster()}, "cohort": {"cohort": COHORT[:4]},
    "job": {"job": hashlib.sha256(JOB).digest()}, "exchange": {"exchange": 1},
    "question": {"question": b"question "}, "a bit of the question": {"question": b"questioo"},
    "no question": {"question": b""},
}  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_a_site_that_is_told_something_else_makes_noise(field):
    given = {"roster": SITES.roster, "cohort": COHORT, "job": JOB, "exchange": 0,
             "question": b"question"}  # fmt: skip
    assert context(**given) == CTX
    other = context(**given | FIELDS[field])
    assert other != CTX
    words = {name: PLAIN.encode(v) for name, v in _plain_values(1).items()}
    plain = PLAIN.total(words.values())
    for name in COHORT:
        sent = all_masked(words)
        sent[name] = SITES.answer(name, words[name], PLAIN, COHORT, other)
        assert not np.any(PLAIN.total(sent.values()) == plain)


def test_another_layout_makes_noise():
    """Of the same length, so that nothing else would tell."""
    other = Layout([Slot("n", "count", (3,)), Slot("g", "sum", (4,))])
    words = {name: PLAIN.encode(v) for name, v in _plain_values(1).items()}
    sent = all_masked(words)
    sent[COHORT[0]] = SITES.answer(COHORT[0], words[COHORT[0]], other, COHORT, CTX)
    assert not np.any(PLAIN.total(sent.values()) == PLAIN.total(words.values()))


def test_a_missing_answer_leaves_noise():
    words = {name: PLAIN.encode(v) for name, v in _plain_values(1).items()}
    sent = all_masked(words)
    for name in COHORT:
        rest = [n for n in COHORT if n != name]
        plain = PLAIN.total(words[n] for n in rest)
        assert not np.any(PLAIN.total(sent[n] for n in rest) == plain)


def test_what_must_not_be_masked_is_refused():
    words, me, roster = np.zeros(PLAIN.words, np.uint64), COHORT[0], SITES.roster
    chain = SITES.chain(me)
    for cohort, told in ((COHORT[:2], "at least 3"), (COHORT[1:4], "not in the cohort")):
        with pytest.raises(Refused, match=told):
            masked(words, PLAIN, chain, me, roster, cohort, CTX)
    lacking = chain._replace(keys={n: k for n, k in chain.keys.items() if n != COHORT[1]})
    with pytest.raises(Refused, match="does not have the mask keys for a site"):
        masked(words, PLAIN, lacking, me, roster, COHORT, CTX)
    with pytest.raises(Refused, match="words"):
        masked(words[1:], PLAIN, chain, me, roster, COHORT, CTX)
    with pytest.raises(SpecError, match="32 bytes"):
        masked(words, PLAIN, chain, me, roster, COHORT, CTX[1:])
    for job, exchange in ((b"", 0), (JOB, -1), (JOB, 2**32), (JOB, True), (JOB, 1.0), ("x", 0)):
        with pytest.raises(
            SpecError, match="the id of a job" if job != JOB else "number of an exchange"
        ):
            context(roster, COHORT, job, exchange, b"")
