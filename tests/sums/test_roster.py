"""Who takes part: names, keys, signatures, and words for the phone."""

import os
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from feddcd._errors import FolderError, Refused
from feddcd.sums._canonical import canonical
from feddcd.sums.keys import SiteKeys
from feddcd.sums.roster import _WEAK, PRIME, Roster, RosterMember
from sum_sites import fixed_keys, sum_sites

MEMBERS = sum_sites().roster.members
SIGNED = sum_sites().roster


def member(name="site 9", again=9, **other):
    return RosterMember.of(name, fixed_keys(again))._replace(**other)


def test_a_signed_roster_goes_through_json():
    again = Roster.from_json(SIGNED.to_json()).check()
    assert (again.members, again.signatures) == (SIGNED.members, SIGNED.signatures)
    assert again.digest == Roster(reversed(MEMBERS)).digest, "in the order of names"
    dated = Roster(MEMBERS, made=5)
    assert Roster.from_json(dated.to_json()).made == 5
    assert len({dated.digest, Roster(MEMBERS, made=6).digest, again.digest}) == 3
    for wrong in (-1, 2**60, 1.5, True, "5"):
        with pytest.raises(Refused, match="time of a roster must be a whole number from 0 to"):
            Roster(MEMBERS, made=wrong)
    assert again.words() == SIGNED.words()


def test_any_change_of_a_member_changes_digest_and_words():
    first = MEMBERS[0]
    other = member()
    changed = [
        first._replace(name="site 0b"), first._replace(signing=other.signing),
        first._replace(agreement=other.agreement),
    ]  # fmt: skip
    rosters = [SIGNED, Roster([*MEMBERS, other]), Roster(MEMBERS[1:])]
    rosters += [Roster([one, *MEMBERS[1:]]) for one in changed]
    assert len({roster.digest for roster in rosters}) == len(rosters)
    assert len({roster.words() for roster in rosters}) == len(rosters)
    for roster in rosters[1:]:
        with pytest.raises(Refused, match="sign"):
            Roster(roster.members, {n: SIGNED.signatures.get(n, b"") for n in roster.names}).check()


def test_six_words_that_can_be_read_out():
    words = SIGNED.words().split()
    assert len(words) == 6
    assert all(len(word) == 7 for word in words)
    assert all(set(word[::2]) <= set("bdfghjklmnprstvz") for word in words)
    assert all(set(word[1::2]) <= set("aiou") for word in words)


def test_everybody_has_to_sign():
    for name in SIGNED.names:
        rest = {n: s for n, s in SIGNED.signatures.items() if n != name}
        with pytest.raises(Refused, match=f"the site {name!r} has not signed"):
            Roster(MEMBERS, rest).check()
        other = next(s for n, s in SIGNED.signatures.items() if n != name)
        told = f"the site {name!r} in the roster was not made with the key of this site"
        with pytest.raises(Refused, match=f"the signature of {told}"):
            Roster(MEMBERS, rest | {name: other}).check()


@pytest.mark.parametrize(
    ("name", "told"),
    [("", "1 to 100"), ("x" * 101, "1 to 100"), (7, "1 to 100"), (None, "1 to 100"),
     ("a\nb", "cannot be shown"), ("a\x1b[31m", "cannot be shown"), (" a", "cannot be shown"),
     ("a\u202eb", "cannot be shown"), ("ａ", "look like other letters"),
     ("u\u0308", "look like other letters"),
     ("Site 1", "names that look the same"), ("site 1", "names that look the same")],
)  # fmt: skip
def test_odd_names_are_refused(name, told):
    with pytest.raises(Refused, match=told):
        Roster([*MEMBERS[1:], member(name)])


@pytest.mark.parametrize(
    "name", ["\u0435ast", "ea\u0455t", "north\u20101", "n\u00f6rd\u0301q\u0301"]
)
def test_a_name_has_letters_of_one_script(name):
    """Cyrillic letters that look as Latin ones do, a hyphen that is none, marks of their own."""
    with pytest.raises(Refused, match=r"the site's name '.+' mixes [A-Z]+ and [A-Z]+ letters"):
        Roster([*MEMBERS, member(name)])


def test_a_roster_has_names_of_one_script():
    """A whole name can look like another one, too."""
    one, other = member("oca", 8), member("\u043e\u0441\u0430", 9)
    for alone in (one, other):
        assert Roster([alone]).names == (alone.name,)
    with pytest.raises(Refused, match=r"can look the same: 'oca' \(LATIN\) and .+ \(CYRILLIC\)"):
        Roster([one, other])
    for name in ("Köln-1", "Łódź", "7", "東京カテ", "कोटा"):
        assert Roster([member(name)]).names == (name,)


LOW_ORDER = [  # of Curve25519
    0, 1, PRIME - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]  # fmt: skip


@pytest.mark.parametrize("point", [*LOW_ORDER, *(p + PRIME for p in LOW_ORDER[:2]), 2**255 + 9])
def test_weak_agreement_keys_are_refused(point):
    with pytest.raises(Refused, match="agreement key of the site 'site 9' is"):
        Roster([*MEMBERS, member(agreement=point.to_bytes(32, "little"))])
    if point < 2**255 - 19:
        with pytest.raises(Refused, match="weak"):
            fixed_keys(0).secret(point.to_bytes(32, "little"))


@pytest.mark.parametrize("y", sorted(_WEAK))
def test_weak_signing_keys_are_refused(y):
    """-x² + y² = 1 + d x² y²; the point times 8 is the neutral one."""
    keys = [(y + sign).to_bytes(32, "little") for sign in (0, 2**255)]
    d = -121665 * pow(121666, -1, PRIME)
    x2 = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
    for _ in range(3):  # of y alone: (y² + x²) / (1 - d x² y²)
        y2 = y * y
        y = (y2 + x2) * pow(1 - d * x2 * y2, -1, PRIME) % PRIME
        x2 = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
    assert y == 1
    for key in keys:
        with pytest.raises(Refused, match="signing key of the site 'site 9' is weak"):
            Roster([*MEMBERS, member(signing=key)])


def test_a_weak_signing_key_would_sign_everything():
    """Which is why it is refused."""
    neutral = (1).to_bytes(32, "little")
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), b"whatever")


@pytest.mark.parametrize("field", ["signing", "agreement"])
def test_keys_are_the_sites_own(field):
    taken = getattr(MEMBERS[0], field)
    with pytest.raises(Refused, match="occurs twice in the roster"):
        Roster([*MEMBERS, member(**{field: taken})])
    with pytest.raises(Refused, match="32 bytes"):
        Roster([*MEMBERS, member(**{field: taken[:-1]})])


def test_cohorts():
    roster = sum_sites(5).roster
    assert roster.cohort(["site 3", "site 1", "site 0"]) == ("site 0", "site 1", "site 3")
    for odd, told in (
        (["site 0", "site 1"], "at least 3 sites"), ([], "at least 3"), (["site 0"], "at least 3"),
        (["site 0", "site 1", "site 1"], "twice"), (["site 0", "site 1", "site 8"], "not in"),
        (["site 0", "site 1", 2], "list of names"),
        (["site 0", "site 1", ["site 2"]], "list of names"),
    ):  # fmt: skip
        with pytest.raises(Refused, match=told):
            roster.cohort(odd)


@settings(max_examples=100)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("00" * 32),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["members", "signatures", "x"]), inner, max_size=3),
    max_leaves=12,
))  # fmt: skip
def test_whatever_a_roster_is_read_from_it_is_refused_by_name(value):
    with pytest.raises(Refused):
        Roster.from_json(_json(value))


def _json(value):
    try:
        return canonical(value)
    except ValueError:
        return b"{"


def test_one_roster_has_one_text():
    data = SIGNED.to_json()
    for other in (b" " + data, data.replace(b":", b": ", 1), data.upper(), data + b"\n"):
        with pytest.raises(Refused):
            Roster.from_json(other)


def test_keys_are_kept_in_a_private_file(tmp_path):
    path, keys = tmp_path / "keys", SiteKeys.generate()
    keys.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = SiteKeys.load(path)
    assert again.public() == keys.public()
    other = fixed_keys(1).public()[1]
    assert again.secret(other) == keys.secret(other) == fixed_keys(1).secret(keys.public()[1])
    with pytest.raises(FolderError, match="already"):
        SiteKeys.generate().save(path)
    assert all(key.hex() not in repr(keys) for key in keys.public())


@pytest.mark.parametrize(
    "change",
    [lambda p: p.chmod(0o640), lambda p: p.chmod(0o604), lambda p: p.write_bytes(b""),
     lambda p: p.write_bytes(p.read_bytes()[:-2]), lambda p: p.write_bytes(b"\xff" * 150),
     lambda p: p.write_bytes(p.read_bytes() + b"\n"), lambda p: p.unlink(),
     lambda p: p.write_bytes(p.read_bytes().replace(b"keys 1", b"keys 2")),
     lambda p: p.write_bytes(b"x" * 5000), lambda p: (p.unlink(), p.mkdir()),
     lambda p: (p.unlink(), os.mkfifo(p, 0o600)),
     lambda p: (p.rename(p.with_name("real")), p.symlink_to(p.with_name("real")))],
)  # fmt: skip
def test_other_files_are_no_keys(tmp_path, change):
    path = tmp_path / "keys"
    fixed_keys(0).save(path)
    change(path)
    with pytest.raises(FolderError, match="keys"):
        SiteKeys.load(path)
