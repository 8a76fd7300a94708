"""What leaves a site, in words that a person reads before and after it; and a site's own check of
a proof."""

import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
import tomli_w

from docs_blocks import DOCS
from feddcd._errors import Refused
from feddcd.analysis import _describe_rows, _sums, blocks
from feddcd.analysis.protocol import converse, in_process
from feddcd.analysis.registry import ANALYSES, read_plan
from feddcd.cli import _site
from feddcd.federation.following import COUNTED
from feddcd.federation.site import answer as site
from feddcd.federation.site import approval
from feddcd.federation.site.approval import approve, waiting
from feddcd.federation.site.ended import ended_studies
from feddcd.federation.site.log import append, read_log
from feddcd.federation.site.log_words import block_lines, told
from feddcd.federation.site.policy import Policy
from feddcd.federation.site.rules import budget_lines
from feddcd.federation.verify import _same_text, check_own
from feddcd.federation.wire import Envelope, pack_message, unpack_message


def test_no_block_leaves_without_plain_words():
    """A block is made by its kind, and each kind has words."""
    assert {*_sums.KINDS} == {*blocks.TABLE}
    assert {*_describe_rows.KINDS} == {*blocks.DESCRIPTION}
    assert {*COUNTED} == {*blocks.COUNTED}
    assert {*blocks.WORDS} == {each.method for each in ANALYSES.values()}
    every = [*blocks.TABLE.values(), *blocks.DESCRIPTION.values(), *blocks.COUNTED.values()]
    assert len({*every}) == len(every)


PARTS = {
    "before the first exchange:": blocks.COUNTED,
    "in the first exchange of a regression table:": {
        name: words for name, words in blocks.TABLE.items() if name.startswith(blocks.TABLE_FIRST)
    },
    "in each exchange of a regression table:": {
        name: words
        for name, words in blocks.TABLE.items()
        if not name.startswith(blocks.TABLE_FIRST) and name not in blocks.TABLE_LATER
    },
    "in each exchange of a regression table after the first:": {
        name: words for name, words in blocks.TABLE.items() if name in blocks.TABLE_LATER
    },
    "in the exchanges of a description:": blocks.DESCRIPTION,
}


def test_the_page_on_security_lists_every_block_in_the_words_of_the_approval():
    """Neither more nor less, so that nobody reads another list before the decision."""
    page = (DOCS / "security.md").read_text("utf-8")
    section = page.partition("### Every number of a table")[2].partition("\n### ")[0]
    for head, held in PARTS.items():
        below = section.partition(f"**{head[:-1].capitalize()}:**\n\n")[2].partition("\n\n")[0]
        listed = [" ".join(each.split()) for each in re.split(r"^- ", below, flags=re.M)[1:]]
        only = {"own": " (only in mode `each`)"}
        assert listed == [words + only.get(name, "") for name, words in held.items()], head


def patients(n=150):
    draw = np.random.default_rng(3)
    d = pd.DataFrame({"age": draw.normal(60, 9, n).round(), "sex": draw.choice(["f", "m"], n)})
    d["dead"] = (draw.random(n) < 1 / (1 + np.exp((62 - d.age) / 9))).astype(int)
    d["visits"] = draw.poisson(2, n)
    d["crp"] = draw.lognormal(1, 0.5, n).round(2)
    d["grade"] = draw.choice(["a", "b", "c"], n)
    d.loc[:9, "crp"] = np.nan
    return d


PLANS = [
    {"formula": "dead ~ age + sex", "family": "binomial"},
    {"formula": "dead ~ age + sex", "family": "binomial", "firth": True},
    {"formula": "dead ~ age", "family": "binomial", "link": "probit", "covariance": "HC3"},
    {"formula": "visits ~ age", "family": "negative_binomial"},
    {"formula": "grade ~ age", "family": "multinomial"},
    {"formula": "crp ~ age + sex", "family": "gaussian", "covariance": "HC0"},
    {"analysis": "describe", "columns": ["age", "crp", "grade"], "by": "sex"},
    {"analysis": "describe", "columns": ["age", "crp"], "quantiles": "none", "by_site": True},
]


@pytest.mark.parametrize("values", PLANS, ids=lambda v: v.get("formula", v.get("quantiles", "")))
@pytest.mark.parametrize("mode", ["each", "sum"])
def test_what_leaves_was_in_the_words_before(values, mode):
    plan = read_plan(
        values | ({"by_site": False} if values.get("by_site") and mode == "sum" else {})
    )
    analysis, table = ANALYSES[plan.analysis], patients()
    offer = analysis.offer(table, plan).offer
    agreed, _ = analysis.agree(dict.fromkeys("abc", offer), plan)
    rows = {name: analysis.rows(table[i::3], plan, agreed, name) for i, name in enumerate("abc")}
    ask, left = in_process(analysis, rows), {}

    def exchange(questions):
        replies = ask(questions)
        for each in replies.values():
            sent = {name: block for name, block in each.items() if np.size(block.value)}
            assert left or plan.analysis == "describe" or not {*sent} & {*blocks.TABLE_LATER}
            left.update(sent)
        return replies

    converse(analysis.talk(plan, agreed), exchange)
    shown = {line.strip() for line in blocks.may_leave(plan, mode, careful=False)}
    words = blocks.words_of(analysis.method, left)
    if mode == "sum":
        left.pop("own", None)  # looked at site by site, so it is in no sum
    assert {words[name] for name in left} <= shown
    assert not any(text.startswith("the numbers '") for text in words.values())


def entry(**shapes):
    arrays = {name: {"shape": shape} for name, shape in shapes.items()}
    return {"kind": "hessian", "method": "newton", "columns": ["age"], "rows": 9, "sites": 3,
            "of_job": "ab" * 16, "arrays": arrays}  # fmt: skip


def test_the_list_of_a_job_names_every_block_and_says_that_the_log_has_digests():
    two = [entry(g=[3], H=[6], bins=[3, 100], residuals=[50], F=[0])] * 2
    counted = entry(n=[1], support=[3], dropped=[1])
    lines = block_lines([counted, *two, two[0] | {"refused": "by a rule"}])
    assert lines[0] == "All numbers that this site sent for this job:"
    assert "  in 2 answers, 3 numbers each: the gradient: one sum for each coefficient" in lines
    assert any(line.startswith("  in 2 answers, 300 numbers each: rows by pred") for line in lines)
    assert "  in 1 answer, 1 number: the number of rows" in lines
    assert len(lines) == 1 + 3 + 4 + 1
    assert "digests of these numbers, and not the numbers" in lines[-1]
    more = "; also counts of rows by prediction and by residual, and other numbers (numbers: 359; "
    assert more in told(two[0])
    first = entry(g=[3], H=[6], bins=[3, 0], residuals=[0])
    assert "by prediction" not in told(first), "the first answer has none"
    assert block_lines([{"waits": "ab"}]) == []


def home(tmp_path, **policy):
    folder = tmp_path / "north"
    folder.mkdir()
    patients().to_csv(folder / "data.csv", index=False)
    (folder / "policy.toml").write_text(tomli_w.dumps({**policy, "complete": True}))
    return site.SitePlace("north", folder, folder / "data.csv")


def test_names_of_columns_are_approved_for_one_study(tmp_path):
    place, plan = home(tmp_path), read_plan(PLANS[0]).to_dict()

    def ask(study):
        meta = {"plan": plan, "about": {"study": study}}
        return unpack_message(site.answer(pack_message(Envelope("columns", meta, {})), place)).kind

    for study in ("one", "two"):
        assert ask(study) == "refusal"
        (id,) = waiting(place.folder)
        approve(place.folder, id)
        assert ask(study) == "columns"
    assert ask("one") == "refusal"  # the person read it for two last


def test_the_text_before_and_the_log_have_exactly_the_names_and_levels_that_left(tmp_path):
    """Columns that are only needed complete send nothing; declared levels leave as declared."""
    place = home(tmp_path)
    values = {**PLANS[0], "complete": ["crp", "grade"], "levels": {"sex": ["f", "m", "x"]}}
    meta = {"plan": read_plan(values).to_dict()}
    message = pack_message(Envelope("columns", meta, {}))
    site.answer(message, place)
    (id,) = waiting(place.folder)
    words = approval.words_of(place.folder, id)
    assert words[0] == "Before a job, the coordinator asks for names and levels of columns:"
    assert "  this site would send the names and types of these columns: 'age', 'sex'" in words
    assert "  this site would send these levels of 'sex': 'f', 'm', 'x'" in words
    approve(place.folder, id)
    said = unpack_message(site.answer(message, place)).meta
    assert (said["columns"], said["levels"]) == (["age", "sex"], {"sex": ["f", "m", "x"]})
    line = read_log(place.folder)[-1]
    assert told(line).startswith(
        "LEFT     the names and types of 2 columns: age and sex; the levels of 'sex': 'f', 'm', "
        "'x' [question "
    )
    assert (line["names"], line["levels"]) == (said["columns"], said["levels"])


def test_the_log_names_classes_and_says_that_a_training_tells_its_rows():
    of = {"kind": "columns", "columns": ["age"], "classes": ["no", "yes"], "levels": {}, "rows": 9}
    assert told(of | {"method": "newton"}) == (
        "LEFT     the names and types of 1 column: age; the classes: 'no', 'yes'"
    )
    assert told(of | {"method": ""}).startswith("LEFT     the number of rows, and the names of 1 c")


def test_an_approval_in_the_moment_of_the_question_counts(tmp_path, monkeypatch):
    """An administrator's program may be faster than the site that writes down what waits."""
    save = approval.save

    def and_approve(disk, path, what):
        save(disk, path, what)
        if path.suffix == ".json":
            save(disk, path.with_suffix(".approved"), {"time": 0})

    monkeypatch.setattr(approval, "save", and_approve)
    ask = lambda: approval.require(tmp_path, "a" * 32, "an answer", {"shown": ["x"]})
    with pytest.raises(approval.Waits):
        ask()
    ask()


def test_the_budget_has_its_limit(tmp_path):
    class Held:
        lately = released = lambda self: 2
        told, columns = lambda self: 44, lambda self: {"a", "b", "c"}
        most_rows = lambda self: 180

    line = budget_lines(Policy(), Held())[-1]  # pyright: ignore
    assert line.startswith(
        "numbers that all jobs released: 44 of at most 540 (180 rows times 3 columns). "
    )
    assert "The log counts all numbers of each answer, so the log has more" in line
    line = budget_lines(Policy(max_numbers_per_value=float("inf")), Held())[-1]  # pyright: ignore
    assert line.endswith("44 (no limit)")


@pytest.mark.parametrize(("last", "part"), [({}, True), ({"refused": "no"}, False)])
def test_a_site_that_answered_by_itself_took_part(tmp_path, last, part):
    """In mode each there is no file of a job; the log says that sums left."""
    place = home(tmp_path)
    line = {"kind": "moments", "study": "one"}
    append(place.folder, {"kind": "columns", "study": "one"})
    append(place.folder, line)
    append(place.folder, line | last)
    message = pack_message(Envelope("ended", {"study": "one", "why": "done", "sites": {}}, {}))
    for _ in range(2):
        assert unpack_message(site.answer(message, place)).kind == "ended"
        ((_, ended),) = [each[:2] for each in ended_studies(place.folder)]
        assert ended.why == ("part" if part else "done")
    logged = (place.folder / "outgoing.jsonl").read_text().splitlines()
    assert sum('"ended"' in each for each in logged) == 1
    append(place.folder, {"kind": "columns", "study": "one"})  # once more, without this site
    site.answer(message, place)
    assert ended_studies(place.folder)[0][1].why == "done"


def test_a_table_names_its_formula_and_one_of_the_version_before_need_not(tmp_path):
    own, written = tmp_path / "own.txt", tmp_path / "written.txt"
    own.write_text("title\nFormula: y ~ age\nage 1\n")
    for text, same in (
        ("title\nFormula: y ~ age\nage 1\n", True), ("title\nage 1\n", True),
        ("title\nFormula: y ~ sex\nage 1\n", False), ("title\nage 2\n", False),
    ):  # fmt: skip
        written.write_text(text)
        assert _same_text(written, own) is same


class Proof:
    """As much of a proof as a site compares with its log."""

    class job:
        cohort, digest, short = ("north", "south"), b"ab", "6162"

    def __init__(self, *words):
        answer = lambda each: type("A", (), {"answers": {"north": type("W", (), {"words": each})}})
        self.exchanges = [answer(each) for each in words]


def test_a_site_finds_its_answers_in_a_proof():
    found = type("V", (), {"proof": Proof(b"one", b"two")})
    digest = lambda words: hashlib.sha256(words).hexdigest()
    line = lambda number, words, run="r": {
        "job": run, "exchange": number, "name": b"ab".hex(), "sha256": digest(words), "study": "s"
    }  # fmt: skip
    both = [line(0, b"one"), line(1, b"two")]
    other = [line(0, b"x", "q"), {"waits": "ab"}, {"job": "r", "exchange": -1, "digest": "ab"}]
    assert check_own(found, "north", other + both) == "s"
    for wrong in ([both[0], line(1, b"changed")], [*both, line(2, b"more")], both[:1]):
        with pytest.raises(
            Refused, match="the proof and the log of the site 'north' contain different answers"
        ):
            check_own(found, "north", wrong)
    with pytest.raises(Refused, match="the site 'north' has no answer to the job 6162"):
        check_own(found, "north", [])
    with pytest.raises(Refused, match="the site 'west' takes no part"):
        check_own(found, "west", both)


def test_the_list_of_one_job_ends_with_its_blocks(tmp_path, monkeypatch):
    place = home(tmp_path)
    (place.folder / "site.toml").write_text("")
    append(place.folder, entry(g=[3]) | {"time": "2026-01-01T00:00:00"})
    said = []
    monkeypatch.setattr(_site, "say", said.append)
    _site.outgoing_command(place.folder, "abab", [], False, False)
    assert said[1:3] == [
        "All numbers that this site sent for this job:",
        "  in 1 answer, 3 numbers: the gradient: one sum for each coefficient",
    ]
    assert json.loads((place.folder / "outgoing.jsonl").read_text())["arrays"]
