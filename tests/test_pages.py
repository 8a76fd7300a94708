"""The code of the pages runs, with nothing installed but what each page names."""

import json
import os
import subprocess
import sys
from collections import defaultdict

import pytest

import apart
import page_process
from docs_blocks import DOCS, blocks, printed, run_page, runs

PAGES = [page for page in sorted(DOCS.glob("*.md")) if any(map(runs, blocks(page)))]
# how many blocks of a page run here: tests/analysis/test_regress.py has the like of the others,
# of sites that refuse, wait and leave
FIRST = {"tutorial.md": 5}
# these commands end sooner with a word more
SHORTER = {"race": " --seeds 1 --limit 10", "run": " --rounds 5", "compare": " --rounds 5"}


def by_extras() -> dict[tuple[str, ...], dict]:
    """What each process has to run."""
    found = defaultdict(dict)
    for page in sorted({*PAGES, *(DOCS / name for name in apart.COMMANDS)}):
        starts = apart.COMMANDS.get(page.name, ())
        lines = [line for line in printed(page) if line.startswith(starts)]
        lines = [line + SHORTER.get(line.split()[1], "") for line in lines]
        found[apart.named(page)][page.name] = (FIRST.get(page.name), lines)
    return found


def run_apart(pages: dict, extras: tuple[str, ...], folder) -> dict[str, str]:
    environment = os.environ | {"FEDDCD_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, page_process.__file__, json.dumps(pages)],
        env=apart.without(apart.hidden(extras), folder / "start", environment),
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("extras", sorted(by_extras()), ids=",".join)
def test_pages_run_with_the_extras_that_they_name(extras, tmp_path):
    found = run_apart(by_extras()[extras], extras, tmp_path)
    assert not found, "\n".join(found.values())


def test_what_extras_bring_is_hidden():
    plain, train, race = (apart.hidden(extras) for extras in ((), ("train",), ("race",)))
    assert {"jax", "sklearn", "joblib", "matplotlib", "flwr", "statsmodels", "pytest"} <= plain
    assert not plain & {"feddcd", "numpy", "pandas", "dateutil", "rich", "typer", "click"}
    assert {"flwr", "statsmodels", "pytest"} <= train
    assert not train & {"jax", "jaxlib", "sklearn", "joblib", "matplotlib", "equinox"}
    assert race < train < plain


def test_a_page_that_names_too_little_is_found(tmp_path):
    """The page on estimators needs scikit-learn."""
    found = run_apart({"estimators.md": (None, [])}, (), tmp_path)
    assert "ModuleNotFoundError: No module named 'sklearn" in found["estimators.md"]


@pytest.mark.chaos
@pytest.mark.parametrize("name", FIRST)
def test_all_code_of_a_long_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(DOCS / name, tmp_path)
