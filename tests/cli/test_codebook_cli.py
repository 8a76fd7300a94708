"""Odd files and codebooks by commands: `glm`, `codebook`, `site check`, `federation`."""

import json
import shlex
import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w

from feddcd._text import printable
from feddcd.cli.app import main
from feddcd.data.codebook import load_codebook
from feddcd.federation import wire
from feddcd.federation.folder import load_place
from feddcd.federation.site.answer import answer
from slices import thinned

FORMULA = 'glm p.csv --formula "low ~ age + race" --group site --out out'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def patients(rows: int = 120) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    race = draw.choice(["white", "black", "other"], rows)
    return pd.DataFrame(
        {
            "low": (draw.random(rows) < 0.3 + 0.2 * (race == "black")).astype(int),
            "age": draw.normal(30, 5, rows).round(2),
            "race": race,
            "site": np.array(["east", "north", "west"])[np.arange(rows) % 3],
            "id": [f"p{i}" for i in range(rows)],
            "day": "2024-05-01",
        }
    )


def feddcd(line: str, capsys, code: int = 0) -> str:
    """What it printed, errors included."""
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    out, err = capsys.readouterr()
    assert (stop.value.code or 0) == code, out + err
    return out + err


def coefficients(folder: str = "out") -> pd.DataFrame:
    return pd.read_csv(Path(folder, "coefficients.csv"), index_col="name")


BOOK = {
    "columns": {
        "low": {"type": "integer", "range": [0, 1], "roles": ["outcome"]},
        "age": {"type": "number"},
        "race": {"type": "category", "levels": ["white", "black", "other"]},
        "site": {"type": "category", "levels": ["east", "north", "west"], "roles": ["group"]},
        "id": {"type": "identifier"},
        "day": {"type": "date"},
    }
}


def write_book(**changes: dict) -> None:
    columns = {name: values | changes.get(name, {}) for name, values in BOOK["columns"].items()}
    Path("codebook.toml").write_text(tomli_w.dumps({"columns": columns}))


WRITTEN = {
    "write.csv": lambda d: d.to_csv("p.csv", index_label=""),
    "write.csv2": lambda d: d.to_csv("p.csv", index_label="", sep=";", decimal=","),
    "tabs": lambda d: d.to_csv("p.csv", index=False, sep="\t"),
    "UTF-16": lambda d: d.to_csv("p.csv", index=False, encoding="utf-16"),
    "Latin-1": lambda d: d.assign(id="ä").to_csv("p.csv", index=False, encoding="latin-1"),
}


@pytest.mark.parametrize("write", thinned(WRITTEN.values(), 2), ids=WRITTEN)
def test_a_table_is_the_same_however_it_is_written(write, capsys):
    patients().to_csv("p.csv", index=False)
    feddcd(FORMULA, capsys)
    plain = coefficients()
    write(patients())
    said = feddcd(f"{FORMULA} --force", capsys)
    assert "note: p.csv: " in said
    pd.testing.assert_frame_equal(coefficients(), plain)


def changed(column: str, value: str, row: int = 4) -> pd.DataFrame:
    frame = patients().astype({column: object})
    frame.loc[row, column] = value
    return frame


REFUSED = {
    "a word for missing": (
        changed("age", "n/a"),
        "",
        "p.csv: column 'age' has 'n/a' on line 6, but other values of this column are "
        "numbers: correct this value. If 'n/a' means a missing value, give --na n/a. If the column",
    ),
    "a full stop, as SAS writes it": (
        changed("age", "."),
        "",
        "correct this value. If '.' means a missing value, give --na '.'. If the column",
    ),
    "one with a blank": (
        changed("age", "not known"),
        "",
        "missing value, give --na 'not known'. If",
    ),
    "a percent sign": (
        patients().assign(age="45%"),
        "",
        "p.csv: column 'age' has '45%' on line 2: ",
    ),
    "a date": (
        patients(),
        "day",
        "p.csv: column 'day' has '2024-05-01' on line 2, which is a date or a time",
    ),
    "an outcome of dates": (
        patients().assign(low="2024-05-01"),
        "",
        "column 'low' has '2024-05-01'",
    ),
}


@pytest.mark.parametrize(("frame", "more", "message"), REFUSED.values(), ids=REFUSED)
def test_columns_that_are_refused_where_they_are_used(frame, more, message, capsys):
    frame.to_csv("p.csv", index=False)
    line = FORMULA.replace("race", f"race + {more}") if more else FORMULA
    assert message in feddcd(line, capsys, code=2)


def test_a_word_for_missing_is_named(capsys):
    changed("age", "n/a").to_csv("p.csv", index=False)
    assert (
        "feddcd leaves out 1 of 120 rows, because values are missing in these columns: age (1)"
        in feddcd(f"{FORMULA} --na n/a", capsys)
    )


def test_none_is_a_level_unless_it_is_named(capsys):
    """Rows of that level were lost without a word."""
    patients().replace({"race": {"other": "None"}}).to_csv("p.csv", index=False)
    assert "no value in a column" not in feddcd(FORMULA, capsys)
    assert list(coefficients().index[2:]) == ["race[T.None]", "race[T.white]"]
    said = feddcd(f"{FORMULA} --force --na None", capsys)
    assert "rows, because values are missing in these columns: race (" in said


def test_names_are_found_in_either_spelling(capsys):
    """A Mac types umlauts as two letters; files have them in either way."""
    patients().rename(columns={"site": "größe", "age": "m²"}).to_csv("p.csv", index=False)
    typed = unicodedata.normalize("NFD", "größe")
    said = feddcd(f"glm p.csv --formula 'low ~ `m²`' --group {typed} --out out", capsys)
    assert "m²" in said


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--decimal ;", "p.csv: --decimal must be '.' or ',' but is ';'"),
        ("--sep ab", "--sep must be one character, such as ';' or '\\t' for a tab; got 'ab'"),
        (
            "--encoding klingon",
            "p.csv: there is no text encoding 'klingon'; --encoding can be, for example, utf-8,",
        ),
        ("--sheet one", "p.csv: --sheet works only for .xlsx files"),
        (
            "--codebook no.toml",
            "no.toml: no such file; to make a first version, use `feddcd codebook DATA",
        ),
        ("--sep :", "p.csv: there is no column 'site' for --group"),
    ],
)
def test_options_that_are_refused(option, message, capsys):
    patients().to_csv("p.csv", index=False)
    assert message in feddcd(f"{FORMULA} {option}", capsys, code=2)


@pytest.mark.parametrize("command", ["glm p.sav", "codebook p.sav", "run --data p.sav"])
def test_files_of_other_programs(command, capsys):
    Path("p.sav").write_bytes(b"$FL2")
    assert "in R with write.csv(haven::read_sav(FILE)" in feddcd(command, capsys, code=2)


def test_run_takes_the_same_options(capsys):
    table = patients().drop(columns=["race", "id", "day"])
    table["age2"] = table["age"] ** 2
    changed = table.astype({"age": object})
    changed.loc[3, "age"] = "n/a"
    changed.to_csv("p.csv", index=False, sep=":")
    line = (
        "run --data p.csv --label low --group site --model logistic --rounds 1 --tau 2 -q --sep :"
    )
    said = feddcd(line, capsys, code=2)
    assert "p.csv: column 'age' has no value" not in said
    assert (
        "p.csv: the column 'age' must contain numbers, but has 'n/a' on line 5: correct this "
        "value, or remove the column"
    ) in said
    assert "codebook" not in said  # which a training does not use
    assert "column 'age' has no value on line 5" in feddcd(f"{line} --na n/a", capsys, code=2)


def test_a_draft_is_not_written_over(capsys):
    patients().to_csv("p.csv", index=False)
    assert "read this codebook before you send it to others" in feddcd("codebook p.csv", capsys)
    assert load_codebook("codebook.toml").columns["id"].type == "identifier"
    said = feddcd("codebook p.csv", capsys, code=2)
    assert "codebook.toml exists already; choose another --out, or move the old file away" in said
    assert "p.csv fits codebook.toml: 120 rows, 6 columns" in feddcd("site check p.csv", capsys)


def test_a_site_is_told_what_does_not_fit(capsys):
    write_book(race={"levels": ["white", "black"]}, age={"range": [0, 10]})
    patients().assign(extra=1).to_csv("p.csv", index=False)
    said = feddcd("site check p.csv --codebook codebook.toml", capsys, code=1)
    assert (
        "note: the codebook does not have the column 'extra', so no study can use this column"
        in said
    )
    assert "p.csv: in the column 'race', " in said
    assert "are not a level; the first is 'other' on line" in said
    assert "p.csv: in the column 'age', 120 values are outside 0 to 10; the first is " in said
    assert "2 of 6 columns do not fit codebook.toml" in said


def test_references_come_from_the_codebook(capsys):
    patients().to_csv("p.csv", index=False)
    write_book()
    feddcd(f"{FORMULA} --codebook codebook.toml", capsys)
    assert list(coefficients().index) == ["Intercept", "age", "race[T.black]", "race[T.other]"]


@pytest.mark.parametrize(
    ("formula", "changes", "message"),
    [
        (
            "low ~ age + id",
            {},
            (
                "the codebook does not allow the role 'predictor' for the column 'id', because an "
                "identifier"
            ),
        ),
        ("low ~ age + bmi", {}, "the codebook has no column 'bmi'"),
        (
            "age ~ race",
            {"age": {"roles": ["predictor"]}},
            "does not allow the role 'outcome' for the column 'age'",
        ),
        ("low ~ race", {"race": {"levels": ["white"]}}, "p.csv: in the column 'race', "),
        ("low ~ age", {"low": {"range": [0, 0]}}, "column 'low', "),
        (
            "low ~ age",
            {"site": {"roles": ["predictor"]}},
            "does not allow the role 'group' for the column 'site'",
        ),
    ],
)
def test_what_a_codebook_does_not_allow(formula, changes, message, capsys):
    patients().to_csv("p.csv", index=False)
    write_book(**changes)
    line = f"glm p.csv --formula '{formula}' --group site --out out --codebook codebook.toml"
    assert message in feddcd(line, capsys, code=2)
    assert not Path("out").exists()


def federation(capsys) -> None:
    patients().to_csv("p.csv", index=False)
    write_book()
    feddcd(f"{FORMULA} --codebook codebook.toml", capsys)
    feddcd("federation init fed --job out/job.toml --data p.csv --group site", capsys)


def site(name: str, change) -> None:
    path = Path("fed", "sites", name, "data.csv")
    change(pd.read_csv(path)).to_csv(path, index=False)


def test_a_site_without_the_reference_is_no_outcast(capsys):
    """Each site without a level was ejected: 141 of 189 rows."""
    federation(capsys)
    site("east", lambda d: d[d.race != "white"])
    own = Path("fed", "sites", "west", "policy.toml")
    own.write_text(own.read_text().replace("max_jobs_per_month = 0", "max_jobs_per_month = 9"))
    said = " ".join(feddcd("federation simulate fed", capsys).split())
    assert "refused" not in said
    assert "policy.toml of each site allows almost everything" in said
    table = patients()
    table[(table.site != "east") | (table.race != "white")].to_csv("p.csv", index=False)
    feddcd(f"{FORMULA} --force --codebook codebook.toml", capsys)
    together, alone = coefficients("fed/server/glm"), coefficients()
    assert list(together.index) == list(alone.index)
    np.testing.assert_allclose(together["coef"], alone["coef"], rtol=1e-6)


@pytest.mark.parametrize("family", ["gaussian", "multinomial"])
def test_levels_without_a_row_are_named_in_one_file_as_over_sites(family, capsys):
    """Those of predictors: the first one would be the reference, and one of a site has no rows."""
    levels = ["none", "white", "black", "never", "other"]
    sites = [*BOOK["columns"]["site"]["levels"], "nowhere"]
    change = {"type": "category", "levels": ["0", "1"]} if family == "multinomial" else {}
    table = patients()
    table.loc[table.race == "other", "age"] = np.nan  # its rows are left out
    table.to_csv("p.csv", index=False)
    write_book(race={"levels": levels}, site={"levels": sites})
    book = tomllib.loads(Path("codebook.toml").read_text())["columns"]
    book["low"] = {"roles": ["outcome"]} | (change or {"type": "integer"})
    Path("codebook.toml").write_text(tomli_w.dumps({"columns": book}))
    line = f"{FORMULA} --family {family} --codebook codebook.toml"
    said = feddcd(line, capsys)
    told = "no row has the levels 'none', 'never', 'other', so the table has no coefficients for"
    assert told in " ".join(said.split())
    feddcd("federation init fed --job out/job.toml --data p.csv --group site", capsys)
    assert told in " ".join(feddcd("federation simulate fed --mode each", capsys).split())
    found = [json.loads(Path(at, "model.json").read_text()) for at in ("out", "fed/server/glm")]
    assert [one["empty_levels"] for one in found] == [{"race": ["none", "never", "other"]}] * 2
    assert [one["references"] for one in found] == [{"race": "white"}] * 2
    np.testing.assert_allclose(
        coefficients()["coef"], coefficients("fed/server/glm")["coef"], rtol=1e-6
    )


REASONS = {  # what the coordinator reads, and what the site's own log has
    "a level": (lambda d: d.replace({"race": {"other": "s3cret"}}),
                "its column 'race' has a level that is not in the codebook", "'s3cret' on line"),
    "a type": (lambda d: d.assign(age="s3cret"),
               "its column 'age' contains values that are not numbers", "the first is "
               "'s3cret' on line 2"),
    "no column": (lambda d: d.drop(columns="age"), "there is no column 'age'", None),
    "a range": (lambda d: d.assign(low=7), "this site cannot use its data; the file "
                                           "site.log at the site says why",
                "column 'low', 40 values are outside 0 to 1; the first is 7 on line 2"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "public", "logged"), thinned(REASONS.values(), 2), ids=REASONS)
def test_a_reason_reaches_the_coordinator_and_a_value_does_not(change, public, logged, capsys):
    federation(capsys)
    site("west", change)
    said = feddcd("federation simulate fed --mode each", capsys)
    assert f"refused: west: {public}" in said
    events = Path("fed/server/events.jsonl").read_text()
    assert "s3cret" not in said + events
    assert "Error" not in said
    log = Path("fed/sites/west/site.log")
    assert logged is None or logged in log.read_text()


def test_which_levels_a_site_has_is_not_told(capsys):
    federation(capsys)
    site("east", lambda d: d[d.race == "black"])
    plan = tomllib.loads(Path("out/job.toml").read_text())["glm"]
    question = wire.pack_message(wire.Envelope("columns", {"plan": plan}, {}))
    reply = wire.unpack_message(answer(question, load_place(Path("fed/sites/east"))))
    assert reply.meta["levels"] == {"race": ["white", "black", "other"]}


def test_booleans_are_written_in_many_ways_and_mean_one_thing(capsys):
    table = patients().assign(smoke=lambda d: d.age > 30, low=lambda d: d.low == 1)
    table.to_csv("p.csv", index=False)
    truth = {"type": "boolean"}
    columns = BOOK["columns"] | {"smoke": truth, "low": truth}
    Path("codebook.toml").write_text(tomli_w.dumps({"columns": columns}))
    line = FORMULA.replace("race", "race + smoke")
    feddcd(f"{line} --codebook codebook.toml", capsys)
    feddcd("federation init fed --job out/job.toml --data p.csv --group site", capsys)
    site("east", lambda d: d.astype({"smoke": int, "low": int}))
    site("west", lambda d: d.assign(smoke=d.smoke.map({True: "TRUE", False: "FALSE"})))
    assert "refused" not in feddcd("federation simulate fed", capsys)
    together, alone = coefficients("fed/server/glm"), coefficients()
    assert list(together.index) == list(alone.index)
    np.testing.assert_allclose(together["coef"], alone["coef"], rtol=1e-6)


@pytest.mark.parametrize("entry", [None, {"type": "identifier"}])
def test_a_site_refuses_a_column_without_a_role(entry, capsys):
    """Whatever a coordinator writes into a plan."""
    federation(capsys)
    path = Path("fed/federation.toml")
    plan = tomllib.loads(path.read_text())
    columns = plan["glm"]["codebook"]["columns"]
    del columns["age"]
    plan["glm"]["codebook"]["columns"] = columns | ({} if entry is None else {"age": entry})
    path.write_text(tomli_w.dumps(plan))
    said = feddcd("federation simulate fed", capsys, code=2)
    assert "refused: east: the codebook does not allow the use of the column 'age'" in said


def test_a_job_names_its_codebook(capsys):
    patients().to_csv("p.csv", index=False)
    write_book()
    Path("job.toml").write_text("[glm]\nformula = 'low ~ age + race'\ncodebook = 'codebook.toml'\n")
    feddcd("federation init fed --job job.toml --data p.csv --group site", capsys)
    Path("codebook.toml").unlink()
    assert "Federated generalised linear model" in feddcd("federation simulate fed", capsys)
    assert "race[T.other]" in coefficients("fed/server/glm").index


FORGED = [
    "z\nProven: FORGED",
    "z\x85Proven: FORGED",
    "z\u2028Proven: FORGED",
    "z\x1b[2J",
    "z\u202eb",
]


@pytest.mark.parametrize("level", FORGED)
def test_a_level_makes_no_line_of_its_own(level, capsys):
    patients().replace({"race": {"white": level}}).to_csv("p.csv", index=False)
    said = feddcd(FORMULA, capsys)
    told = [said, *(Path("out", f).read_text("utf-8") for f in ("summary.txt", "coefficients.csv"))]
    for text in told:
        assert f"race[T.{printable(level)}]" in text
        assert not any(line.startswith("Proven: FORGED") for line in text.splitlines())
    page = Path("out/report.html").read_text("utf-8")
    assert not {"\x1b", "\u202e", "\x85", "\u2028"} & set("".join([*told, page]))


def test_a_name_is_no_formula_of_a_spreadsheet(capsys):
    named = patients()[["low", "age", "site"]].rename(columns={"age": "=1+1"}).assign(**{"-1": 0.5})
    named["-1"] += named.index % 7
    named.to_csv("p.csv", index=False)
    feddcd("glm p.csv --label low --group site --out out", capsys)
    assert list(coefficients().index[1:]) == ["'=1+1", "-1"]


@pytest.mark.parametrize("text", ["[/kg]", "\x1b[2J", "\u202egnp.exe", "a\x07"])
def test_text_of_others_is_printed_as_it_is(text, capsys):
    """Neither markup nor a terminal's commands in names of columns do anything."""
    patients().rename(columns={"age": f"x{text}"}).to_csv("p.csv", index=False)
    said = feddcd("glm p.csv --label low --group nothing", capsys, code=2)
    assert printable(text).strip() in said or repr(text)[1:-1] in said
    assert not {"\x1b", "\u202e", "\r", "\x07"} & set(said)
    feddcd("codebook p.csv", capsys)
    Path("codebook.toml").write_text(tomli_w.dumps({"columns": {f"y{text}": {"type": "number"}}}))
    said = feddcd("site check p.csv", capsys, code=1)
    assert not {"\x1b", "\u202e", "\r", "\x07"} & set(said)


@pytest.mark.parametrize("missing", [False, True])
def test_a_column_named_like_markup_is_simulated_and_inspected(missing, capsys):
    """`[/kg]` closes what was never opened; a site that lacks the column says so in these words."""
    named = patients()[["low", "age", "site"]].rename(columns={"age": "dose [/kg]"})
    named.to_csv("p.csv", index=False)
    Path("job.toml").write_text("[glm]\nformula = 'low ~ `dose [/kg]`'\nfamily = 'binomial'\n")
    feddcd("federation init fed --job job.toml --data p.csv --group site", capsys)
    if missing:
        data = load_place(Path("fed/sites/east")).data
        data.write_text(data.read_text().replace("dose [/kg]", "dose"))
    said = feddcd("federation simulate fed", capsys, code=2 if missing else 0)
    assert "dose [/kg]" in said
    for _ in range(2):
        shown = feddcd("federation inspect fed", capsys)
    assert "dose [/kg]" in shown
