"""Two descriptions of one file, or one beside a table: who has both can subtract. A site remembers
which rows each counted together, and refuses where few would be left."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from feddcd._errors import SpecError
from feddcd.analysis._describe_rows import DescribeQuestion
from feddcd.analysis.protocol import arrays
from feddcd.analysis.registry import ANALYSES, read_plan
from feddcd.federation import wire
from feddcd.federation.site import _overlaps, _tables
from feddcd.federation.site._overlaps import few_apart
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.approval import approve, waiting, words_of
from feddcd.federation.site.told import REFUSED
from site_world import SITES, asked

K = 5
POLICY = 'answers = "each"\napprove = "none"\nmax_numbers_per_value = inf\ncomplete = true\n'
RULED = f"north: {REFUSED}"


def patients(n=160):
    """One patient's sex is not known, and two lack a crp."""
    rng = np.random.default_rng(3)
    d = pd.DataFrame({"age": rng.integers(20, 95, n), "bmi": rng.normal(26, 4, n).round(1)})
    d["crp"], d["y"] = rng.gamma(4, 3, n).round(2), rng.normal(size=n).round(3)
    d["sex"], d["ward"] = rng.choice(["f", "m"], n), rng.choice(["a", "b"], n)
    d["stage"] = np.where(d.sex == "f", rng.choice(["i", "ii"], n), "i")
    d.loc[np.flatnonzero(d.sex == "m")[:3], "stage"] = "ii"  # three men
    d.loc[17, ["sex", "age"]] = [None, 93]
    d.loc[np.flatnonzero(d.sex == "f")[:2], "crp"] = np.nan
    return d


@pytest.fixture
def place(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    patients().to_csv(tmp_path / "data.csv", index=False)
    return SitePlace("north", tmp_path, tmp_path / "data.csv")


def describe(place, columns, by=None, centre=None, open=True, **more):
    """Counts, then sums about 0; or the reason why there are none."""
    asks = {"columns": columns, "by": by, "answers": "each", **more}
    plan = read_plan({"analysis": "describe", **asks})
    analysis = ANALYSES["describe"]
    offer = analysis.offer(pd.read_csv(place.data), plan).offer
    agreed, _ = analysis.agree(dict.fromkeys(SITES, offer), plan)
    cells = 1 if by is None else len(agreed.levels[by]) + 2
    shape = len(agreed.numbers), cells
    sums = DescribeQuestion(open=np.full(shape, open), centre=np.zeros(shape))
    found = {}
    for question in (DescribeQuestion(counts=True), *([sums] if shape[0] else [])):
        meta = {"plan": plan.to_dict() | {"analysis": "describe"}, "agreed": agreed.to_dict()}
        told = wire.Envelope("sums", meta, arrays(question))
        said = wire.unpack_message(answer(wire.pack_message(told), place))
        if said.kind == "refusal":
            return wire.read_refusal(said).reason
        found |= said.arrays
    return found


def table(place, formula, **plan):
    said = wire.unpack_message(answer(asked(place, formula, **plan), place))
    return wire.read_refusal(said).reason if said.kind == "refusal" else said.arrays


def last_line(place):
    return json.loads((place.folder / "outgoing.jsonl").read_text().splitlines()[-1])


def forget(patch):
    """As it was before: nothing of earlier descriptions is looked at."""
    patch.setattr(_overlaps, "_differ", lambda *_: iter(()))
    patch.setattr(_tables, "earlier_jobs", lambda *_: [])


def subtract_groups(place):
    """The age of the one whose sex is not known: the total less all groups."""
    one, other = describe(place, ["age"]), describe(place, ["age"], "sex")
    return other if isinstance(other, str) else one["s1"].sum() - other["s1"][0, -1]


def subtract_levels(place):
    """How many men are in stage ii: 3, which the groups alone do not tell."""
    one, other = describe(place, ["stage"], "sex"), describe(place, ["ward"], "stage")
    if isinstance(other, str):
        return other
    levels = one["levels"].reshape(3, 3)  # i, ii, missing by f, m, none
    return other["n"][1] - levels[1, 0]


def subtract_table(place):
    """The same age again, from a table over all rows."""
    one, other = describe(place, ["age"], "sex"), table(place, "y ~ age")
    return other if isinstance(other, str) else other["moments.x"][1] - one["s1"][0, -1]


ATTACKS = {subtract_groups: 93.0, subtract_levels: 3, subtract_table: 93.0}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_difference_of_two_jobs_tells_of_nobody(place, attack, monkeypatch):
    with monkeypatch.context() as patch:
        forget(patch)
        assert attack(place) == pytest.approx(ATTACKS[attack])  # so it was
    (place.folder / "rules").rename(place.folder / "forgotten")
    assert attack(place) == RULED
    assert last_line(place)["rule"] == "descriptions"
    assert "fewer than 5 rows" in str(last_line(place))


def test_what_nobody_can_subtract_is_told(place):
    """The same again, more columns, other groups of which none is left out."""
    patients().assign(sex=["f", "m"] * 80, crp=7.0).to_csv(place.data, index=False)
    for columns, by in ((["age"], "sex"), (["age", "bmi", "ward"], "sex"), (["age"], "ward")):
        assert not isinstance(describe(place, columns, by), str)
    assert not isinstance(describe(place, ["age", "bmi"]), str)
    assert not isinstance(table(place, "y ~ age + bmi"), str)


def test_table_1_and_a_model_have_the_same_rows_where_both_name_the_columns(place):
    """Two patients lack a crp: without `complete` the model has two rows fewer."""
    assert describe(place, ["age", "bmi"]) != RULED
    assert table(place, "y ~ bmi + crp") == RULED
    other = place._replace(folder=place.folder / "other")
    other.folder.mkdir()
    (other.folder / "policy.toml").write_text(POLICY)
    told = describe(other, ["age", "bmi", "crp"], complete=["crp"])
    assert told["n"].ravel()[-1] == len(patients()) - 2
    assert table(other, "y ~ bmi + crp") != RULED
    with pytest.raises(SpecError, match="list of columns"):
        read_plan({"analysis": "describe", "columns": ["age"], "complete": "crp"})


def test_a_new_export_does_not_make_it_forget(place):
    assert not isinstance(describe(place, ["age"], "sex"), str)
    rows = patients().sample(frac=1, random_state=0)
    rows.assign(exported="2026-12").to_csv(place.data, index=False)
    assert describe(place, ["age"]) == RULED
    assert last_line(place)["rule"] == "descriptions"


def test_what_it_remembers_is_there_or_nothing_leaves(place):
    describe(place, ["age"], "sex")
    [held] = (place.folder / "rules" / "told").iterdir()
    assert held.parent.stat().st_mode & 0o077 == 0
    held.write_bytes(held.read_bytes()[:-1])
    assert "s1" not in describe(place, ["bmi"], "sex")


def test_that_it_would_be_refused_is_told_to_a_person_alone(place):
    """Otherwise two jobs would be a question about the difference."""
    place.folder.joinpath("policy.toml").write_text(POLICY.replace("none", "job"))
    said = {}
    for by in ("sex", None):
        for _ in range(2):  # to names and levels, then to the job
            said[by] = describe(place, ["age"], by)
            for id in waiting(place.folder) if by else ():
                approve(place.folder, id)
        said[by] = describe(place, ["age"], by)
    assert "s1" in said["sex"]
    assert "waits for approval" in said[None]
    [id] = waiting(place.folder)
    told = "\n".join(words_of(place.folder, id))
    assert "the rules of this site refuse this request" in told
    assert "descriptions" in told
    approve(place.folder, id)
    assert describe(place, ["age"]) == RULED


def unions(labels):
    cells = [labels == cell for cell in np.unique(labels[labels >= 0])]
    for chosen in itertools.product([False, True], repeat=len(cells)):
        picked = [cell for cell, take in zip(cells, chosen, strict=True) if take]
        yield np.logical_or.reduce([np.zeros(len(labels), bool), *picked])


@pytest.mark.parametrize("seed", range(4))
def test_the_thinnest_cut_is_the_smallest_difference_of_unions(seed):
    draw, seen = np.random.default_rng(seed), set()
    for _ in range(25):
        n, k = int(draw.integers(4, 60)), int(draw.integers(2, 7))
        a = draw.integers(-1, draw.integers(1, 5), n)
        b = np.where(draw.random(n) < draw.choice([0.1, 0.5]), draw.integers(-1, 3, n), a)
        apart = {int(np.sum(x ^ y)) for x in unions(a) for y in unions(b)}
        small = any(0 < rows < k for rows in apart)
        assert few_apart(a, b, k) == small
        seen.add(small)
    assert seen == {True, False}
