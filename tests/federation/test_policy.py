"""A site's own guards; and that each check, once deleted or inverted, is missed."""

import hashlib
import hmac
import inspect
import json
import os
import re
import stat
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from disks import FAULTS, Crash, FailingDisk, QuickDisk
from feddcd._errors import LogError, PolicyError, Refused, SpecError
from feddcd._files import Disk, lock_file, save
from feddcd.algorithms import ALGORITHMS
from feddcd.federation.site import _disclosure as outgoing
from feddcd.federation.site import _methods, approval, template
from feddcd.federation.site import log as outlog
from feddcd.federation.site import policy as rules
from feddcd.federation.site._disclosure import Outgoing, Release, describe
from feddcd.federation.site.approval import Waits, approve, deny, waiting
from feddcd.federation.site.log import LOG, verify_log
from feddcd.federation.site.policy import (
    FILE,
    LOOSE,
    LOOSENED,
    OF_VALUES,
    RULES,
    Policy,
    Ruled,
    load_policy,
)
from feddcd.federation.site.told import REFUSED as RULED
from feddcd.federation.site.told import waits as waits_for

log = SimpleNamespace(**vars(approval) | vars(outgoing) | vars(outlog))
BASE = Outgoing(
    kind="gradient",
    method="newton",
    columns=("age", "sex", "outcome"),
    rows=100,
    parameters=4,
    classes={"ill": 40, "well": 60},
    levels={"sex": {"f": 50, "m": 50}},
    sites=4,
    arrays={"g": np.arange(4.0)},
)
STRICT = Policy(
    columns=("age", "sex", "outcome", "town", "mrn"),
    identifiers=("mrn",),
    kinds=("gradient", "columns"),
    methods=("newton", "mbsgd"),
    min_rows=50,
    min_per_class=10,
    min_per_level=10,
    max_parameters_per_row=0.07,
    min_sites=3,
    answers="each",
    approve="none",
)
ALLOWED = [
    {},
    {"columns": ("town",)},
    {"kind": "columns", "parameters": 0, "sites": 0},
    {"method": "mbsgd"},
    {"rows": 50, "parameters": 3},
    {"classes": {"ill": 10, "well": 90, "unseen": 0}},
    {"classes": {}},
    {"levels": {"sex": {"f": 10, "m": 90, "unseen": 0}, "town": {"x": 100}}},
    {"parameters": 7},  # 7 / 0.07 = 100 rows
    {"sites": 3},
]
FEW_CLASS = "a class with fewer than 10 rows (min_per_class = 10)"
ONE_CLASS = "rows of only one class (min_per_class = 10)"
FEW_LEVEL = "with a level of fewer than 10 rows (min_per_level = 10)"
FEW_ROWS = "7 parameters from fewer than 100 rows (max_parameters_per_row = 0.07)"
REFUSED = [  # rule, change, what is told
    ("columns", {"columns": ("age", "zip")}, "the column 'zip' (columns in policy.toml)"),
    (
        "columns",
        {"kind": "columns", "columns": ("age", "zip")},
        "a column (columns in policy.toml)",
    ),
    (
        "columns",
        {"columns": ()},
        "data without names of columns, because the policy lists the allowed columns (columns in "
        "policy.toml)",
    ),
    (  # of a training, too, whose columns no formula names
        "identifiers",
        {"columns": ("age", "mrn")},
        "the column 'mrn', because this column is an identifier (setting 'identifiers' in "
        "policy.toml)",
    ),
    (
        "identifiers",
        {"kind": "columns", "columns": ("age", "mrn")},
        "a column, because this column is an identifier (setting 'identifiers' in policy.toml)",
    ),
    (
        "kinds",
        {"kind": "hessian"},
        "answers of the kind 'hessian' (kinds = ['gradient', 'columns'] in policy.toml)",
    ),
    (
        "methods",
        {"method": "feddcd"},
        "the method 'feddcd' (methods = ['newton', 'mbsgd'] in policy.toml)",
    ),
    ("training", {"trains": True}, "trainings (training = false in policy.toml)"),
    ("min_rows", {"rows": 49, "parameters": 3}, "fewer than 50 rows (min_rows = 50)"),
    ("min_per_class", {"classes": {"ill": 9, "well": 91}}, FEW_CLASS),
    ("min_per_class", {"classes": {"ill": 100, "well": 0}}, ONE_CLASS),
    ("min_per_level", {"levels": {"town": {"x": 9, "y": 91}}}, f"the column 'town' {FEW_LEVEL}"),
    ("min_per_level", {"kind": "columns", "levels": {"x": {"y": 1}}}, f"a column {FEW_LEVEL}"),
    ("max_parameters_per_row", {"parameters": 7, "rows": 99}, FEW_ROWS),
    ("min_sites", {"sites": 2}, "a sum over only 2 sites (min_sites = 3 in policy.toml)"),
]
OWN = (
    "answers of this site alone; others may read only sums over sites (answers = 'sum' in "
    "policy.toml)"
)


def refusal(act):
    """What a guard says against it; None where it lets it pass."""
    try:
        act()
    except Ruled as error:
        return Ruled, error.story
    except (Refused, PolicyError, LogError) as error:
        return type(error), str(error)
    return None


def check_rules():
    for change in ALLOWED:
        assert refusal(lambda c=change: STRICT.check(BASE._replace(**c))) is None, change
    for rule, change, said in REFUSED:
        told = refusal(lambda c=change: STRICT.check(BASE._replace(**c)))
        kind = Ruled if rule in OF_VALUES else Refused
        assert told == (kind, f"its policy does not allow {said}"), (rule, change, told)
    summed = replace(STRICT, answers="sum")
    for mode, change in (("each", {}), ("sum", {"parameters": 50})):
        told = refusal(lambda m=mode, c=change: summed.check(BASE._replace(mode=m, **c)))
        assert told == ((Refused, f"its policy does not allow {OWN}") if mode == "each" else None)
    assert refusal(lambda: summed.check(BASE._replace(kind="columns"))) is None
    one = BASE._replace(classes={"ill": 0, "well": 100}, mode="sum")
    assert refusal(lambda: summed.check(one)) is None


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "answers"])
def test_each_rule_alone_refuses_its_cases(rule):
    mine = [change for name, change, _ in REFUSED if name == rule]
    assert mine
    for change in mine:
        found = [name for name, why in RULES.items() if why(STRICT, BASE._replace(**change))]
        assert found == [rule], change
        if rule != "min_sites":
            LOOSE.check(BASE._replace(**change))


WHOLE = 'columns = ["age"]\nmin_rows = 5\nmax_parameters_per_row = 0.5\ncomplete = true\n'
BAD = [  # text, what is said after the path
    ("", "the last setting must be complete = true. Perhaps the file was cut short"),
    ("min_rows = 5\n", "the last setting must be complete = true. Perhaps the file was cut short"),
    ("complete = true\nmin_rows = 5\n", "the last setting must be complete = true"),
    ("complete = false\n", "the last setting must be complete = true"),
    ("min_rows 5\ncomplete = true\n", "not a TOML file: "),
    (
        "min_rows = 5\nmax_share = 0,5  # half\ncomplete = true\n",
        "in line 2, max_share = 0,5 has a comma; write a decimal number with a point, as in 0.5",
    ),
    (
        "min_rows = 5\n# of the checklist\nmin_rows = 9\nmin_sites = 3\n",
        "the name 'min_rows' occurs twice, in lines 1 and 3; delete one of the two",
    ),
    (
        "# columns = []\ncolumns = ['a']\nidentifiers = ['b']\ncolumns = [\n'a',\n]\n",
        "the name 'columns' occurs twice, in lines 2 and 4; delete one of the two",
    ),
    ("min_row = 5\ncomplete = true\n", "unknown setting 'min_row'; did you mean 'min_rows'?"),
    ("min_rows = -1\ncomplete = true\n", "min_rows must be a whole number >= 0, got -1"),
    ("min_sites = true\ncomplete = true\n", "min_sites must be a whole number >= 0, got True"),
    ("min_rows = 5.0\ncomplete = true\n", "min_rows must be a whole number >= 0, got 5.0"),
    ("min_per_class = 'x'\ncomplete = true\n", "min_per_class must be a whole number >= 0"),
    ("max_parameters_per_row = nan\ncomplete = true\n", "must be a number > 0, got nan"),
    (
        "approve = 'jobs'\ncomplete = true\n",
        "the setting 'approve' must be one of 'job', 'answer', 'none'; got",
    ),
    ("answers = true\ncomplete = true\n", "'answers' must be one of 'sum', 'each'; got True"),
    ("constants = 1\ncomplete = true\n", "'constants' must be one of 'codebook', 'any'; got 1"),
    ("max_leverage = 1.5\ncomplete = true\n", "need 0 < max_leverage <= 1, got max_leverage = 1.5"),
    ("max_share = 0\ncomplete = true\n", "need 0 < max_share <= 1, got max_share = 0"),
    ("min_support = -1\ncomplete = true\n", "min_support must be a whole number >= 0, got -1"),
    ("max_parameters_per_row = 0\ncomplete = true\n", "must be a number > 0, got 0"),
    ("max_parameters_per_row = true\ncomplete = true\n", "must be a number > 0, got True"),
    ("columns = 'age'\ncomplete = true\n", "'columns' must be a list of names, got 'age'"),
    ("columns = [1]\ncomplete = true\n", "'columns' must be a list of names, got (1,)"),
    ("methods = ['newtn']\ncomplete = true\n", "unknown name 'newtn'; did you mean 'newton'?"),
    ("kinds = ['hesian']\ncomplete = true\n", "unknown name 'hesian'; did you mean 'hessian'?"),
    ("ask_before_sending = 1\ncomplete = true\n", "must be true or false, got 1"),
    ("[limits]\nmin_rows = 5\ncomplete = true\n", "the last setting must be complete = true"),
]


def check_files(folder):
    """Fail closed: what cannot be understood is an error, never fewer rules."""
    path = folder / FILE
    assert load_policy(path) == Policy()
    path.symlink_to(folder / "nowhere")
    said = "is a link to a file that does not exist"
    assert refusal(lambda: load_policy(path)) == (PolicyError, f"{path} {said}")
    path.unlink()
    path.mkdir()
    said = "cannot be read: Is a directory"
    assert refusal(lambda: load_policy(path)) == (PolicyError, f"{path}: {said}")
    path.rmdir()
    path.write_bytes(b"# \xff\ncomplete = true\n")
    assert "not a TOML file" in str(refusal(lambda: load_policy(path)))
    for text, said in BAD:
        path.write_text(text)
        kind, told = refusal(lambda: load_policy(path)) or (None, "")
        assert kind is PolicyError, text
        assert told.startswith(f"{path}: "), told
        assert said in told, told
    path.write_text(WHOLE)
    assert load_policy(path) == Policy(("age",), min_rows=5, max_parameters_per_row=0.5)
    path.unlink()


def test_a_site_names_only_columns_that_may_leave():
    assert STRICT.visible(["zip", "age", "town"]) == ("age", "town")
    assert Policy().visible(["zip", "age"]) == ("zip", "age")


def test_a_file_cut_short_anywhere_stops_everything(tmp_path):
    path = tmp_path / FILE
    for size in range(len(WHOLE.rstrip())):
        path.write_text(WHOLE[:size])
        with pytest.raises(PolicyError):
            load_policy(path)
    path.write_text(WHOLE.rstrip())
    assert load_policy(path).min_rows == 5


def test_the_template_sets_nothing_and_explains_everything(tmp_path):
    """What stands behind a # is what holds without it, or an example after "for example"."""
    text, path = template.template(), tmp_path / FILE
    path.write_text(text)
    assert load_policy(path) == Policy()
    path.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    policy, examples = load_policy(path), {"columns", "identifiers", "kinds", "methods"}
    for field in fields(Policy):
        if field.name != "ask_before_sending":
            assert re.search(rf"^# {field.name} = ", text, re.MULTILINE), field.name
            other = field.name in examples | {"min_rows", "min_per_class", "min_per_level"}
            assert (getattr(policy, field.name) != getattr(Policy(), field.name)) == other
    assert all(f"#   {name} " in text for name in (*rules.methods(), *log.REVEALS))
    assert max(map(len, text.splitlines())) <= 100


def test_a_trial_is_loose_and_says_so(tmp_path):
    (tmp_path / FILE).write_text(template.loose_text())
    assert load_policy(tmp_path / FILE) == LOOSE
    assert template.loose_text().startswith("# LOOSE: with this policy, try feddcd on data that")
    assert all(getattr(Policy(), name) != value for name, value in LOOSENED.items())


def test_the_defaults_are_careful():
    careful = Policy()
    assert (careful.min_support, careful.min_sites, careful.max_parameters_per_row) == (5, 3, 0.1)
    assert (careful.answers, careful.approve, careful.constants) == ("sum", "job", "codebook")
    assert (careful.max_share, careful.max_leverage) == (0.5, 0.5)
    assert careful.min_rows == careful.min_per_class == careful.min_per_level == 5
    assert Policy(ask_before_sending=True).approve == "answer"


def test_every_algorithm_and_every_rule_has_its_setting():
    assert set(rules.methods()) == set(ALGORITHMS) | set(_methods.TABLES)
    assert set(RULES) <= {field.name for field in fields(Policy)}


def lines(folder):
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


class Watching(QuickDisk):
    """What is durable at which fsync."""

    def __init__(self):
        self.synced: list[tuple[str, bytes]] = []

    def fsync(self, file):
        self.synced.append((Path(file.name).name, Path(file.name).read_bytes()))


def loose(folder, **settings):
    (folder / FILE).write_text(tomli_w.dumps(LOOSENED | settings | {"complete": True}))


def check_door(folder):
    door = Release(folder, "north", disk=(disk := Watching()))
    loose(folder, columns=["age", "sex", "outcome"])
    assert door.release(b"answer", BASE, b"question") == b"answer"
    assert (folder / LOG).exists()
    told = lines(folder)[-1]
    assert told["arrays"]["g"]["shape"] == [4]
    assert (told["line"], told["rows"], told["bytes"]) == (1, 100, 6)
    durable = [data for name, data in disk.synced if name == LOG]
    assert durable == [(folder / LOG).read_bytes()]
    assert disk.synced[-1][0].endswith(".head.tmp")
    assert json.loads(disk.synced[-1][1])["lines"] == 1
    loose(folder, min_rows=101)  # counts at once
    assert refusal(lambda: door.release(b"", BASE, b"q")) == (Refused, f"north: {RULED}")
    told = lines(folder)[-1]
    assert (told.get("refused"), told.get("rule")) == (RULED, "min_rows")
    assert told["why"] == "its policy does not allow fewer than 101 rows (min_rows = 101)"
    assert verify_log(folder).lines == 2
    (folder / FILE).write_text("min_rows = 1")
    assert (refusal(lambda: door.release(b"", BASE, b"q")) or "?")[0] is PolicyError
    assert verify_log(folder).lines == 2
    loose(folder)
    full = Release(folder, "north", disk=FailingDisk(2, "disk full"))
    assert (refusal(lambda: full.release(b"", BASE, b"q")) or "?")[0] is LogError


def check_asking(folder):
    loose(folder)
    prompts = []
    door = lambda said: Release(
        folder, "north", lambda text: prompts.append(text) or said, QuickDisk()
    )
    for word in ("yes", " Y\n"):
        assert door(word).release(b"a", BASE, b"q") == b"a"
    no = (Refused, f"north: {RULED}")
    for word in ("", "no", "yesterday"):
        assert refusal(lambda w=word: door(w).release(b"a", BASE, b"q")) == no
    again = [text for text in prompts if "is neither yes nor no" in text]
    assert [text.partition(" is")[0] for text in again] == ["''", "'yesterday'"]
    whole = [text for text in prompts if text not in again]
    assert len(whole) == 5
    assert all(text.startswith("At the site north:\n") for text in whole)
    assert all("'g': float64 (4,), from 0 to 3: 0, 1, 2, 3\n" in text for text in whole)
    gone = Release(folder, "north", _nobody, QuickDisk())
    assert refusal(lambda: gone.release(b"a", BASE, b"q")) == no
    assert ["refused" in line for line in lines(folder)] == [False] * 2 + [True] * 4


def _nobody(text):
    raise EOFError


def check_holding(folder):
    door = Release(folder, "north", disk=QuickDisk())
    loose(folder, ask_before_sending=True)
    waits = (Waits, f"north: {waits_for('an answer')}")
    for _ in range(2):
        assert refusal(lambda: door.release(b"a", BASE, b"q")) == waits
    (id,) = waiting(folder)
    held = json.loads((folder / "outgoing" / f"{id}.json").read_text())
    assert held["numbers"] == {"g": [0, 1, 2, 3]}
    approve(folder, id)
    assert door.release(b"a", BASE, b"q") == b"a"
    other = BASE._replace(arrays={"g": np.arange(4.0) + 1})
    assert refusal(lambda: door.release(b"a", other, b"q")) == waits
    assert refusal(lambda: door.release(b"a", BASE, b"another")) == waits
    assert len(waiting(folder)) == 2
    assert id not in waiting(folder)
    with limited(approval, "MOST_WAITING", 2):
        assert refusal(lambda: door.release(b"a", BASE, b"a third")) == waits
    assert len(waiting(folder)) == 2
    logged = [line for line in lines(folder) if "waits" in line]
    assert len(logged) == 3  # once each, however often it is asked for
    assert not any("refused" in line for line in lines(folder))
    deny(folder, waiting(folder)[0])
    no = (Refused, f"north: {RULED}")
    assert no in [refusal(lambda q=q: door.release(b"a", BASE, q)) for q in (b"another", b"q")] + [
        refusal(lambda: door.release(b"a", other, b"q"))
    ]
    loose(folder)
    assert door.release(b"a", other, b"q") == b"a"


@contextmanager
def limited(module, name, value):
    old = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, old)


def test_only_what_waits_can_be_approved(tmp_path):
    for id in ("../site", "0123456789abcdef"):
        with pytest.raises(SpecError, match="does not wait for approval"):
            approve(tmp_path, id)


def test_the_description_is_safe_for_a_terminal_and_takes_any_numbers():
    odd = {"\x1b[2J": np.array([np.nan, np.inf]), "none": np.zeros((0, 3)), "b": np.array(True)}
    text = log.describe(BASE._replace(arrays=odd, columns=("\x1b[31m",), method="\r"))
    assert all(line.isprintable() for line in text.splitlines())
    assert "'none': float64 (0, 3): " in text
    with pytest.raises(TypeError, match="only numbers may leave a site, got object"):
        log.record(BASE._replace(arrays={"x": np.array([None])}), b"", b"")


def test_who_reads_the_log_cannot_try_guesses_on_what_left(tmp_path):
    """A count of patients is one of few hundred numbers: a plain digest of it tells which."""
    loose(tmp_path)
    one = BASE._replace(arrays={"moments.y": np.array([120.0])})
    for question in (b"first", b"second"):
        Release(tmp_path, "north").release(b"answer", one, question)
    first, second = (line["arrays"]["moments.y"] for line in lines(tmp_path))
    assert first == second  # one secret, so equal numbers can be recognised at the site
    guesses = (np.array([float(count)]).tobytes() for count in range(1000))
    digests = {hashlib.sha256(guess).hexdigest() for guess in guesses}
    assert not digests & set(map(str, first.values()))
    key = (tmp_path / "rules" / "salt").read_bytes()
    right = hmac.digest(key, np.array([120.0]).tobytes(), "sha256").hex()
    assert first["hmac-sha256"] == right
    assert stat.S_IMODE((tmp_path / "rules" / "salt").stat().st_mode) & 0o077 == 0


def logged(folder, count):
    for i in range(count):
        log.append(folder, {"kind": "gradient", "rows": i}, QuickDisk())
    return (folder / LOG).read_bytes()


def broken(folder, data):
    (folder / LOG).write_bytes(data)
    return (refusal(lambda: verify_log(folder)) or "?")[0] is LogError


def check_chain(folder):
    assert verify_log(folder) == log.Head()
    data = logged(folder, 3)
    each = data.splitlines(keepends=True)
    assert verify_log(folder).lines == 3
    for i, line in enumerate(each):
        assert broken(folder, b"".join(each[:i] + each[i + 1 :])), f"line {i} deleted"
        changed = line.replace(b'"rows": %d' % i, b'"rows": 7')
        assert broken(folder, b"".join([*each[:i], changed, *each[i + 1 :]])), f"line {i} changed"
    assert broken(folder, b"".join([each[1], each[0], each[2]]))
    assert broken(folder, data + b"{}\n{}\n")
    assert broken(folder, b"")
    (folder / LOG).write_bytes(data.replace(b'"rows": 2', b'"rows": 7'))
    assert (refusal(lambda: logged(folder, 1)) or "?")[0] is LogError  # and nothing is added to it
    (folder / LOG).write_bytes(data)
    held = Disk().lock(lock_file(folder / LOG))
    with held, limited(outlog, "WAIT_S", 0):
        assert (refusal(lambda: logged(folder, 1)) or "?")[0] is LogError
    head = log._head_file(folder / LOG)
    saved = head.read_bytes()
    for wrong in (None, b"", b"[]", b'{"lines": -1}', b'{"start": 5}'):
        head.unlink() if wrong is None else head.write_bytes(wrong)
        assert broken(folder, data), wrong
    head.write_bytes(saved)
    (folder / LOG).write_bytes(data + each[2][:30])  # torn by a crash
    assert verify_log(folder).lines == 3
    logged(folder, 1)
    assert verify_log(folder).lines == 4


def test_the_person_reads_how_many_rows_are_complete():
    """The levels of a formula are counted without the rows that lack a value."""
    told = lambda **levels: describe(
        BASE._replace(kind="columns", rows=130, classes={}, levels=levels)
    )
    assert "  rows: 130, of which 124 are complete (the others lack a" in told(
        sex={"m": 67, "f": 57}
    )
    for levels in ({"sex": {"m": 70, "f": 60}}, {}, {"sex": {}}, {"a": {"x": 5}, "b": {"y": 6}}):
        assert "  rows: 130\n" in f"{told(**levels)}\n"


def test_a_changed_line_anywhere_stops_all_answers_and_approvals(tmp_path):
    """Also where the file keeps its length, and after any other line was added."""
    each = logged(tmp_path, 9).splitlines(keepends=True)
    longer, other = (each[3].replace(b'"rows": 3', b'"rows": ' + by) for by in (b"3000", b"8"))
    link = each[3].replace(b'"previous": "', b'"previous": "0')
    for wrong, line in (
        ([*each[:3], other, *each[4:]], "line 4 was changed"),
        ([*each[:3], longer, *each[4:]], "line 4 was changed"),
        ([*each[:3], link, *each[4:]], "line 4 was changed or removed"),
        (each[:3] + each[4:], "line 4 was changed or removed"),
        ([*each[:7], each[7].replace(b'"rows": 7', b'"rows": 8'), each[8]], "line 8 was changed"),
        ([*each[:8], each[8].replace(b'"rows": 8', b'"rows": 9')], "line 9 was changed"),
        ([each[0].replace(b'"rows": 0', b'"rows": 1'), *each[1:]], "line 1 was changed"),
        ([*each[:8], each[8][:-1]], "line 9 was changed or removed"),
        (each[:8], "line 9 was removed"),
        (each[:7], "the lines 8 to 9 were removed"),
    ):
        (tmp_path / LOG).write_bytes(b"".join(wrong))
        told = refusal(lambda: verify_log(tmp_path))
        assert f"outgoing.jsonl was changed or damaged: {line}. This site" in str(told)
        assert "find out what changed outgoing.jsonl: a disk error, a person" in str(told)
        assert "`feddcd federation verify --site` cannot check earlier studies" in str(told)
        assert told == refusal(lambda: logged(tmp_path, 1))
        assert (tmp_path / LOG).read_bytes() == b"".join(wrong)


def test_a_noted_digest_shows_that_the_end_was_cut_or_forged(tmp_path):
    """Whoever can write the log and its head can make lines that fit together."""
    each = logged(tmp_path, 5).splitlines(keepends=True)
    noted = verify_log(tmp_path).hash
    logged(tmp_path, 2)
    assert verify_log(tmp_path, noted).lines == 7
    for kept, added in ((3, 0), (4, 1), (1, 9)):
        log._head_file(tmp_path / LOG).unlink()
        (tmp_path / LOG).unlink()
        head = log.Head()
        for line in each[:kept]:
            head = log._next(head, line)
        (tmp_path / LOG).write_bytes(b"".join(each[:kept]))
        save(QuickDisk(), log._head_file(tmp_path / LOG), head._asdict())
        logged(tmp_path, added)
        assert verify_log(tmp_path).lines == kept + added, "without the digest nobody notices"
        told = "somebody cut or changed the log later"
        assert told in str(refusal(lambda: verify_log(tmp_path, noted)))


def test_any_changed_byte_of_the_log_is_found(tmp_path):
    data = logged(tmp_path, 3)
    for place in range(len(data)):
        wrong = bytes([data[place] ^ 1])
        assert broken(tmp_path, data[:place] + wrong + data[place + 1 :]), place


def test_a_line_torn_anywhere_is_cut_off_and_a_whole_one_stays(tmp_path):
    before = logged(tmp_path, 2)
    head = log._head_file(tmp_path / LOG)
    saved, line = head.read_bytes(), logged(tmp_path, 1)[len(before) :]
    for size in range(0, len(line) + 1):
        (tmp_path / LOG).write_bytes(before + line[:size])
        head.write_bytes(saved)
        whole = 2 + (size == len(line))
        assert verify_log(tmp_path).lines == whole
        logged(tmp_path, 1)
        assert verify_log(tmp_path).lines == whole + 1


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_fails_nothing_leaves_unlogged(tmp_path, fault):
    for at in range(40):
        folder = tmp_path / str(at)
        folder.mkdir()
        loose(folder)
        logged_before = Release(folder, "north", disk=QuickDisk())
        logged_before.release(b"first", BASE, b"q")
        disk, left = FailingDisk(at, fault, keep=0.5, undo=True), None
        try:
            left = Release(folder, "north", disk=disk).release(b"second", BASE, b"q")
        except (LogError, Crash):
            assert len(disk.operations) > at
        known = {line["sha256"] for line in lines(folder)}
        assert left is None or len(known) == 2
        logged_before.release(b"third", BASE, b"q")
        assert verify_log(folder).lines in (2, 3)
        assert verify_log(folder).lines == 3 or left is None
        if len(disk.operations) <= at:
            assert left == b"second"
            return
    raise AssertionError("the operations were not all tried")


def test_answers_at_the_same_time_are_all_logged(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: logged(tmp_path, 5), range(4)))
    assert verify_log(tmp_path).lines == 20
    assert os.stat(tmp_path / LOG).st_mode & 0o777 == 0o600


CHECKS = {
    "rules": lambda folder: check_rules(),
    "files": check_files,
    "door": check_door,
    "asking": check_asking,
    "holding": check_holding,
    "chain": check_chain,
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_guards_hold(name, tmp_path):
    CHECKS[name](tmp_path)


LIMITS = {"min_rows": 1, "min_per_class": 1, "min_per_level": 1, "min_sites": 1}
LIMITS["max_parameters_per_row"] = 0.0001


def _shifted(rule, name, by):
    move = lambda policy: replace(policy, **{name: getattr(policy, name) + by})
    return lambda policy, outgoing: rule(move(policy), outgoing)


RULE_MUTANTS = {
    f"{name} {how}": (name, mutant)
    for name, rule in RULES.items()
    for how, mutant in {
        "deleted": lambda policy, outgoing: "",
        "inverted": lambda p, o, rule=rule: "" if rule(p, o) else "the inverse",
        **({"looser": _shifted(rule, name, -LIMITS[name])} if name in LIMITS else {}),
        **({"stricter": _shifted(rule, name, LIMITS[name])} if name in LIMITS else {}),
    }.items()
}


@pytest.mark.parametrize("mutant", RULE_MUTANTS)
def test_a_mutant_of_a_rule_is_found(mutant, monkeypatch):
    name, rule = RULE_MUTANTS[mutant]
    monkeypatch.setitem(RULES, name, rule)
    with pytest.raises(AssertionError):
        check_rules()


_CHECKED, _READ = "self.check(outgoing, question)", "load_policy(self.folder / FILE)"
_LOOSE = "__import__('feddcd.federation.site.policy', fromlist=['']).LOOSE"
_LOGGED = "append(self.folder, record(outgoing, question, key) | content, self.disk)"
_QUIET = "with __import__('contextlib').suppress(Exception): "
_OPEN, _ELSE = "except ", ":\n        return {'complete': True}\n    "
_OFF = "(lambda *_: None)"
_ONLY = "(lambda v, names, *_: {k: x for k, x in v.items() if k in names})"
MUTANTS = [  # group that finds it, owner, function, text, its mutant
    ("rules", Policy, "check", "in RULES.items()", "in ()"),
    ("rules", Policy, "check", "raise Ruled(name, story) if", "str(story) if"),
    ("rules", Policy, "check", "name in OF_VALUES else Refused(story)", "True else 0"),
    ("files", rules, "load_policy", "if path.is_symlink():", "if False:"),
    ("files", rules, "read_toml", "except OSError", f"{_OPEN}OSError{_ELSE}{_OPEN}EOFError"),
    ("files", rules, "read_toml", "except Value", f"{_OPEN}ValueError{_ELSE}except Value"),
    ("files", rules, "load_policy", "!= [\"complete\"] or", "== [\"complete\"] and"),
    ("files", rules, "load_policy", "is not True", "is None"),
    ("files", rules, "load_policy", "check_names(values,", f"values = {_ONLY}(values,"),
    ("files", Policy, "__post_init__", "or value < 0", ""),
    ("files", Policy, "__post_init__", "type(value) is not int or", ""),
    ("files", Policy, "__post_init__", "not most > 0", "most == 7"),
    ("files", Policy, "__post_init__", "not in choices:", "is None:"),
    ("files", Policy, "__post_init__", "is not bool", "is None"),
    ("files", rules, "_check_names", "not isinstance(value, tuple) or", ""),
    ("files", rules, "_check_names", "not all(isinstance(v, str) for v in value)", "False"),
    ("files", rules, "_check_names", "if not _is_known(name, item):", "if False:"),
    ("door", Release, "release", _CHECKED, _READ),
    ("door", Release, "release", _LOGGED, "pass"),
    ("door", Release, "release", _LOGGED, _QUIET + _LOGGED),
    ("door", Release, "check", "self.policy()", _LOOSE),
    ("door", Release, "_guard", "raise self.named(reason) from None", "pass"),
    ("door", Release, "_guard", "self.refuse(", f"{_OFF}("),
    ("door", Release, "refuse", "append(", f"{_OFF}("),
    ("door", Release, "refuse", "if isinstance(reason, Ruled):", "if False:"),
    ("door", log, "append", "disk.fsync(file)", "pass"),
    ("door", log, "append", "save(disk, _head_file(path)", f"{_OFF}(disk, _head_file(path)"),
    ("asking", Release, "release", "if self.ask is not None:", "if self.ask is None and False:"),
    ("asking", log, "confirm", "if reply not in YES", "if reply in YES"),
    ("asking", log, "confirm", "not in (", "in ("),
    ("asking", log, "confirm", 'reply = ""', 'reply = "yes"'),
    ("asking", log, "confirm", "raise Ruled(", "max("),
    ("holding", Release, "release", 'elif policy.approve == "answer":', "elif False:"),
    ("holding", log, "require", "if _is_approved(", "if not _is_approved("),
    ("holding", approval, "_check_denied", "raise Ruled(", "max("),
    ("holding", log, "require", "raise Waits(", "str("),
    ("holding", log, "require", "append(folder", f"{_OFF}(folder"),
    ("holding", log, "require", "< MOST_WAITING", ">= 0"),
    ("holding", log, "record", 'plain | {"question"', 'plain or {"question"'),
    ("holding", log, "_fingerprint", '"hmac-sha256": content', '"hmac-sha256": ""'),
    ("chain", log, "hash_of", "hashlib.sha256(line).hexdigest()", '"0"'),
    ("chain", log, "_follows", "return line", "return True or line"),
    ("chain", log, "_follows", "and line.endswith(last.encode())", ""),
    ("chain", log, "_heads", "if b\"\\n\" in (line + rest)[:-1]:", "if False:"),
    ("chain", log, "_heads", "if not known:", "if False:"),
    ("chain", log, "_read_head", "if data is None and", "if False and"),
    ("chain", log, "append", "file.truncate(head.end)", "pass"),
    ("chain", log, "append", "with lock(disk, path):", "if True:"),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m[2]}: {m[3][:30]} -> {m[4][:30]}")
def test_a_mutant_of_a_guard_is_found(mutant, monkeypatch, tmp_path):
    group, owner, name, text, other = mutant
    function, made = getattr(owner, name), {}
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(text) == 1
    exec(source.replace(text, other), function.__globals__, made)
    monkeypatch.setattr(function, "__code__", made[name].__code__)
    with pytest.raises((AssertionError, Refused, LogError)):
        CHECKS[group](tmp_path)


COUNTS = st.dictionaries(st.text("abc", min_size=1), st.integers(0, 60), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(rows=st.integers(0, 300), parameters=st.integers(0, 20), a=COUNTS, b=COUNTS)
def test_refusals_do_not_tell_counts_or_values(rows, parameters, a, b):
    """Only the limits, the names asked for and the parameters are said: known to who asked."""
    secret = lambda counts: {f"secret {key}": n for key, n in counts.items()}
    this = BASE._replace(rows=rows, parameters=parameters)
    this = this._replace(classes=secret(a), levels={"sex": secret(b)})
    told = refusal(lambda: STRICT.check(this))
    least = -(-parameters * 100 // 7)
    possible = {
        None,
        "fewer than 50 rows (min_rows = 50)",
        "a class with fewer than 10 rows (min_per_class = 10)",
        "rows of only one class (min_per_class = 10)",
        "the column 'sex' with a level of fewer than 10 rows (min_per_level = 10)",
        f"{parameters} parameters from fewer than {least} rows (max_parameters_per_row = 0.07)",
    }
    assert (told and told[1].removeprefix("its policy does not allow ")) in possible
    few = any(0 < n < 10 for n in (*a.values(), *b.values())) or sum(n > 0 for n in a.values()) < 2
    assert (told is not None) == (rows < 50 or rows < least or few)


def test_the_policy_of_the_checklist_is_one_that_a_site_reads(tmp_path):
    """The page on security has one policy to sign. It is stricter than the careful one."""
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    [text] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "policy.toml").write_text(text)
    assert load_policy(tmp_path / "policy.toml") == Policy(
        min_sites=5,
        rare_values="refuse",
        max_jobs_per_month=3,
        methods=("newton", "describe"),
    )


def test_a_policy_is_loose_until_its_loose_part_is_gone(tmp_path):
    """One changed number ended the warning, with all other loose settings in the file."""
    path = tmp_path / FILE
    assert not template.is_loose(path)
    loose, careful = template.loose_text(), template.template()
    emptied = re.sub(r"(?s)(--- loose: .*?---\n).*?\n\n", r"\1", loose)
    changed = loose.replace("min_sites = 2", "min_sites = 3")
    for text, told in ((loose, True), (changed, True), (careful, False), (emptied, False)):
        path.write_text(text)
        assert template.is_loose(path) is told
