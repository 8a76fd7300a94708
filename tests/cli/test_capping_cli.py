"""Capped and rounded columns by commands: the tables are those of pooled rows, changed alike."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w

from feddcd.cli.app import main

NOTE = "age was capped to 18..90 and rounded to steps of 5 at every site."
COLUMNS = {
    "dead": {"type": "integer", "range": [0, 1]},
    "age": {"type": "integer", "unit": "years", "cap": [18, 90], "step": 5},
    "visits": {"type": "integer", "cap": ["none", 6]},
    "crp": {"type": "number"},
    "site": {"type": "category", "levels": ["east", "north", "west"], "roles": ["group"]},
}
FORMULA = "dead ~ age + visits + log(crp)"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    Path("codebook.toml").write_text(tomli_w.dumps({"columns": COLUMNS}))


def patients(n=600):
    draw = np.random.default_rng(3)
    age = draw.normal(60, 16, n).round().clip(12, 99).astype(int)
    crp = draw.lognormal(1, 0.8, n).round(2) + 0.1
    odds = 1 / (1 + np.exp(2 - 0.04 * (age - 40) - 0.3 * np.log(crp)))
    site = np.array(["east", "north", "west"])[np.arange(n) % 3]
    dead, visits = (draw.random(n) < odds).astype(int), draw.poisson(2, n)
    return pd.DataFrame({"dead": dead, "age": age, "visits": visits, "crp": crp, "site": site})


def pooled():
    """The same change by other means: floor of whole numbers, and a loop."""
    d = patients()
    whole = lambda a: min(18 + 5 * ((min(max(a, 18), 90) - 18 + 2) // 5), 90)
    return d.assign(age=[whole(int(a)) for a in d.age], visits=d.visits.clip(upper=6))


def feddcd(line, capsys, code=0):
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    out, err = capsys.readouterr()
    assert (stop.value.code or 0) == code, out + err
    return out + err


def reference(d):
    """Logistic regression by Newton's method, to the last bits, and its standard errors."""
    X = np.column_stack([np.ones(len(d)), d.age, d.visits, np.log(d.crp)])
    w, y = np.zeros(4), d.dead.to_numpy(float)
    for _ in range(30):
        mean = 1 / (1 + np.exp(-X @ w))
        H = (X * (mean * (1 - mean))[:, None]).T @ X
        w = w + np.linalg.solve(H, X.T @ (y - mean))
    return w, np.sqrt(np.diag(np.linalg.inv(H)))


def away(folder, d):
    """Of a coefficient from those of these rows, in standard errors; and of a standard error."""
    w, se = reference(d)
    table = pd.read_csv(Path(folder, "coefficients.csv"), index_col="name")
    return float(np.max(np.abs([table["coef"] - w, table["std_err"] - se]) / se))


def job():
    book = {name: entry for name, entry in COLUMNS.items() if name != "site"}
    plan = {"formula": FORMULA, "family": "binomial", "tol": 1e-9, "codebook": {"columns": book}}
    Path("job.toml").write_text(tomli_w.dumps({"glm": plan}))


def test_the_table_of_a_federation_is_that_of_pooled_rows_after_the_same_change(capsys):
    job()
    feddcd("federation init fed --job job.toml --data p.csv --group site", capsys)
    assert pd.read_csv("fed/sites/east/data.csv")["age"].max() > 90  # each site caps by itself
    said = feddcd("federation simulate fed", capsys)
    assert "refused" not in said
    made = Path("fed/server/glm")
    assert away(made, pooled()) < 1e-8
    assert away(made, patients()) > 0.01  # so the cap matters
    assert NOTE in (made / "summary.txt").read_text()
    assert NOTE in (made / "report.html").read_text()
    assert "visits was capped to at most 6 at every site." in said
    capped = json.loads((made / "model.json").read_text())["capped"]
    assert capped == {"age": {"cap": [18, 90], "step": 5}, "visits": {"cap": ["none", 6]}}
    verified = feddcd("federation verify fed", capsys)
    assert "VERIFIED: " in verified
    assert NOTE in verified
    summary = made / "summary.txt"
    summary.write_text(summary.read_text().replace("18..90", "18..80"))
    assert "NOT VERIFIED" in feddcd("federation verify fed", capsys, code=1)


def test_the_table_of_one_file(capsys):
    line = f"glm p.csv --formula '{FORMULA}' --family binomial --group site --tol 1e-9 --out out"
    said = feddcd(f"{line} --codebook codebook.toml --predict p.csv", capsys)
    assert NOTE in said
    assert away("out", pooled()) < 1e-8
    own = pd.read_csv("out/predictions.csv").iloc[:, -1]
    pooled().to_csv("p.csv", index=False)
    feddcd(f"{line} --force --predict p.csv", capsys)
    assert away("out", pooled()) < 1e-8
    np.testing.assert_allclose(own, pd.read_csv("out/predictions.csv").iloc[:, -1], rtol=1e-8)
    assert NOTE not in Path("out/summary.txt").read_text()


def test_a_description_of_capped_columns(capsys):
    book = {name: entry for name, entry in COLUMNS.items() if name in ("age", "visits")}
    plan = {"columns": ["age", "visits"], "quantiles": "exact", "codebook": {"columns": book}}
    Path("job.toml").write_text(tomli_w.dumps({"describe": plan}))
    feddcd("federation init fed --job job.toml --data p.csv --group site", capsys)
    said = feddcd("federation simulate fed", capsys)
    assert NOTE in said
    told = pd.read_csv("fed/server/describe/numbers.csv").set_index(["column", "statistic"]).value
    for name in ("age", "visits"):
        own = pooled()[name]
        expected = [own.mean(), own.std(), *own.quantile([0.25, 0.5, 0.75])]
        got = [told[name, each] for each in ("mean", "sd", "q0.25", "q0.5", "q0.75")]
        np.testing.assert_allclose(got, expected, rtol=1e-10)
    assert NOTE in Path("fed/server/describe/report.html").read_text()
    assert NOTE in feddcd("federation verify fed", capsys)
    said = feddcd("describe p.csv --column age --codebook codebook.toml --out out", capsys)
    assert NOTE in said


def test_a_site_reads_what_a_cap_changes(capsys):
    d = patients()
    beyond = int(((d.age < 18) | (d.age > 90)).sum())
    within = d.age[d.age.between(18, 90)]
    other = int((pooled().age[within.index] != within).sum())
    said = feddcd("site check p.csv", capsys)
    assert (
        f"column 'age': of 600 values, the cap changes {beyond} and the step changes {other}"
        in said
    )
    assert "column 'visits': of 600 values, the cap changes" in said
    assert "p.csv fits codebook.toml" in said


def test_a_draft_proposes_caps_where_it_is_asked_to(capsys):
    said = feddcd("codebook p.csv --out draft.toml --cap-rare 5", capsys)
    assert "read the caps and steps, too, because feddcd computed them from your data" in said
    text = Path("draft.toml").read_text()
    assert "cap = [" in text
    said = feddcd("site check p.csv --codebook draft.toml", capsys)
    assert "column 'age': of 600 values, the cap changes" in said
    feddcd("codebook p.csv --out plain.toml", capsys)
    assert "\ncap = [" not in Path("plain.toml").read_text()
    assert "--cap-rare" in feddcd("codebook p.csv --out no.toml --cap-rare 1", capsys, code=2)
