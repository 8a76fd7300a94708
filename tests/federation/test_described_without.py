"""A Table 1 without a site names the site wherever the table can be read, and is proven."""

import csv

import numpy as np
import pandas as pd
import pytest

from disks import in_memory
from feddcd._errors import Refused
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from feddcd.federation.verify import check_table, verify_proof
from feddcd.sums.proof import JobProof
from local_network import LocalNetwork

NO_TABLES = 'approve = "none"\nmethods = ["newton"]\ncomplete = true\n'
GONE = "Not part of this table: "
FILES = ("summary.txt", "table1.csv", "table1.tex", "table1.md", "report.html")


@pytest.fixture(scope="module")
def described():
    """The folder with the table of four sites, one of which refused, and its proof."""
    rng, n = np.random.default_rng(3), 160
    d = pd.DataFrame({"age": rng.integers(20, 90, n), "sex": rng.choice(["f", "m"], n)})
    site = np.array(["a", "b", "c", "the_west"])[np.arange(n) % 4]
    data = {name: d[site == name] for name in sorted(set(site.tolist()))}
    config = Config("test", plan=DescribePlan(["age", "sex"]), patience=5.0)
    with in_memory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PAUSE_S", 0.01)
        home = create(folder / "fed", list(data), config, data=data)
        (home.site("the_west") / "policy.toml").write_text(NO_TABLES)
        network = LocalNetwork([load_place(home.site(name)) for name in home.invited()])
        coordinate(network, {"folder": str(home.path)}, lambda event: None)
        found = verify_proof(JobProof.read(home.server / "proof"))
        yield home.server / "describe", found


def test_every_file_of_a_table_names_who_has_no_rows_in_it(described):
    folder, _ = described
    text = {name: (folder / name).read_text("utf-8") for name in FILES}
    (line,) = [x for x in text["summary.txt"].splitlines() if x.startswith(GONE)]
    assert "the_west: " in line
    assert "the_west" in text["report.html"]
    rows = list(csv.reader(text["table1.csv"].splitlines()))
    (own,) = [row for row in rows if row[1].startswith(GONE)]
    assert own[0] == "the_west"
    assert f"\n{GONE}'the\\_west'.\n" in text["table1.md"]
    assert f"\n{GONE}'the\\_west'.\n" in text["table1.tex"]
    assert "\n120 rows at 3 sites.\n" in text["table1.md"]


def test_the_proof_holds_although_it_does_not_know_who_refused(described):
    folder, found = described
    compared = check_table(found, folder / "numbers.csv")
    assert {*FILES} - {"report.html"} <= {*compared}


@pytest.mark.parametrize("name", FILES[:-1])
def test_a_reason_is_no_place_for_another_table(described, name):
    """Neither a number may change, nor may a reason hold what looks like rows."""
    folder, found = described
    path = folder / name
    kept = path.read_text("utf-8")
    changed = [
        kept.replace("120", "999", 1),
        kept.replace(GONE, f"{GONE}x{' ' * 40}age 9.9 ", 1),
        kept.replace("the_west", "x\x85age 9.9", 1).replace("the\\_west", "x\x85age 9.9", 1),
    ]
    try:
        for text in changed:
            assert text != kept
            path.write_text(text, "utf-8")
            with pytest.raises(Refused, match=f"{name} disagrees with the proof"):
                check_table(found, folder / "numbers.csv")
    finally:
        path.write_text(kept, "utf-8")


def test_cells_beside_a_reason_are_empty(described):
    folder, found = described
    path = folder / "table1.csv"
    kept = path.read_text("utf-8")
    try:
        lines = kept.splitlines()
        at = next(i for i, line in enumerate(lines) if GONE in line)
        lines[at] = lines[at].removesuffix(",") + ",9.9"
        path.write_text("\n".join(lines) + "\n", "utf-8")
        with pytest.raises(Refused, match=r"table1.csv disagrees with the proof"):
            check_table(found, folder / "numbers.csv")
    finally:
        path.write_text(kept, "utf-8")


@pytest.mark.parametrize("more", ["\\input{x}", "$9.9$", "'a' & 9.9", "<b>9.9</b>", "'a', 'b'\n"])
@pytest.mark.parametrize("name", ["table1.tex", "table1.md"])
def test_a_name_in_a_paper_is_no_command(described, name, more):
    folder, found = described
    path = folder / name
    kept = path.read_text("utf-8")
    try:
        path.write_text(kept.replace(GONE, GONE + more, 1), "utf-8")
        with pytest.raises(Refused, match=f"{name} disagrees with the proof"):
            check_table(found, folder / "numbers.csv")
    finally:
        path.write_text(kept, "utf-8")
