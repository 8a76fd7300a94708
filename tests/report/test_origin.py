"""Each report says when, by which version and command, and from which data it was made."""

import datetime
import html
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import feddcd
from feddcd._origin import typed, with_origin
from feddcd.analysis import report
from feddcd.cli.app import main
from feddcd.report.page import footer

RUN = "--data wine --clients 4 --rounds 2"
COMMANDS = {  # what is typed, where the report is, and the data that it names
    "glm": ("glm 'my file.csv' --formula 'y~age' --group site --out a", "a", "my file.csv"),
    "describe": ("describe 'my file.csv' --group site --out a", "a", "my file.csv"),
    "run": (f"run {RUN} --algorithm mbsgd --out a", "a", "wine"),
    "compare": (f"compare {RUN} --algorithm mbsgd --algorithm fedavg --out a", "a", "wine"),
    "race": (
        "race --problem wine-iid-2 --algorithm mbsgd --share 1 --bits 64 --seeds 1 --limit 5",
        "race",
        "wine-iid-2",
    ),
    "federation": (
        "federation simulate fed",
        "fed/server/glm",
        "federation here, sites site-1, site-2, site-3",
    ),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows().to_csv("my file.csv", index=False)


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(60, 9, 90).round(1), "y": np.arange(90) % 2})
    return frame.assign(site=[f"site-{i % 3 + 1}" for i in range(90)])


def feddcd_(line: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    assert stop.value.code == 0


def told(page: str) -> list[str]:
    """The last lines of a page, as people read them."""
    (note,) = re.findall(r'<footer>.*<p class="note">(.*)</p></footer>', page, re.DOTALL)
    return [
        html.unescape(re.sub(r"</?code>|</?span[^>]*>", "", line)) for line in note.split("<br>")
    ]


MADE = f"Made on {datetime.date.today():%Y-%m-%d} by feddcd {feddcd.__version__}."


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_report_says_its_command_and_its_data(kind):
    line, folder, data = COMMANDS[kind]
    if kind == "federation":
        feddcd_("glm 'my file.csv' --formula y~age --group site --out plan")
        feddcd_(
            "federation init fed --job plan/job.toml --data 'my file.csv' --group site --name here"
        )
    feddcd_(line)
    page = Path(folder, "report.html").read_text()
    assert told(page) == [MADE, f"Command: feddcd {line}", f"Data: {data}"]


def test_in_python_a_report_names_no_command():
    model = feddcd.FederatedGLM("binomial", "y ~ age").fit(rows(), groups="site")
    assert told(report.write(model, "r.html").read_text()) == [MADE]


def test_a_command_and_a_file_are_text_in_the_page():
    with with_origin(command=typed(["glm", "<b>.csv", "--label", "a\nb"]), data="<b>.csv"):
        page = footer({}, datetime.date(2026, 3, 1))
    assert "<b>" not in page
    assert told(page)[1:] == ["Command: feddcd glm '<b>.csv' --label 'a\\nb'", "Data: <b>.csv"]
    assert "Command" not in footer({})
