"""A mistake in a job file: what people read who can correct it, and who cannot."""

import pytest

from feddcd._errors import SpecError
from feddcd.cli._studies import study_command
from feddcd.cli.app import main
from feddcd.federation._next_step import next_step
from feddcd.federation.config import Config
from feddcd.federation.coordinator._ending import TooFewSites
from feddcd.federation.coordinator._ending import next_step as next_after
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.folder import load_place, load_places
from feddcd.federation.machine.init import create
from feddcd.federation.machine.studies import note_state, want
from feddcd.federation.site.ended import ended_words
from feddcd.federation.status import study_status

SITES = ("east", "north", "south")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = create(tmp_path / "fed", list(SITES), Config("demo", host="127.0.0.1"))
    rows = "".join(f"{50 + i % 23},{i % 7}\n" for i in range(60))
    for name in SITES:
        (made.site(name) / "data.csv").write_text(f"age,y\n{rows}")
        path = made.site(name) / "site.toml"
        lines = [line for line in path.read_text().splitlines() if "data" not in line]
        path.write_text("\n".join([*lines, 'data = "data.csv"', ""]))
    return made


def test_a_column_that_no_site_has_is_a_mistake_in_the_job(home):
    study = want(home, "s1", '[glm]\nformula = "y ~ age + bmi"\nfamily = "gaussian"\n')
    exchange = LocalExchange([load_place(home.site(name)) for name in SITES])
    with pytest.raises(TooFewSites) as told:
        coordinate(exchange, {"folder": str(home.path), "study": "s1"}, lambda event: None)
    said = "Next: check the name 'bmi' in the job file, because east, north and south have no "
    assert said in str(told.value)
    note_state(study, "failed", reason=str(told.value))
    sites = [{"site": name, "state": "connected", "confirmed": True} for name in SITES]
    held = {"sites": sites, "studies": [study_status(study)], "open": True}
    assert next_step(home, held) == (
        "study 's1' ended without a result, because east, north and south have no column 'bmi'. "
        "Check this name in the job file, then start the study again: feddcd federation study fed "
        "s1 --job FILE. If the name is right, ask the people at these sites to add the column"
    )
    for name in SITES:
        ((_, _, how),) = ended_words(home.site(name))
        assert "only the person at the coordinator can correct it, in the job file" in how
        assert "After you have solved this problem" not in how


def test_one_site_without_a_column_is_asked_to_repair_it():
    lacks = "{}: there is no column 'bmi', which the formula names"
    assert "check the name" not in next_after({"east": lacks.format("east")})
    other = {"east": lacks.format("east"), "north": "north: the data file does not exist"}
    assert "check the name" not in next_after(other)
    assert "check the name 'bmi'" in next_after({n: lacks.format(n) for n in SITES[:2]})


def test_a_mistake_is_named_in_the_file_that_was_given(home):
    """And the job that feddcd keeps stays as it was."""
    good, bad = home.path.parent / "good.toml", home.path.parent / "bad.toml"
    good.write_text('[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    bad.write_text(good.read_text().replace("[glm]", "dead = 3\n[glm]"))
    with pytest.raises(SpecError, match=r"^bad.toml: unknown setting 'dead'"):
        study_command(home.path, "b1", bad, False)
    assert home.studies() == []
    study_command(home.path, "b1", good, False)
    study = home.of_study("b1")
    note_state(study, "failed", reason="x")
    kept = (study.results / "study.toml").read_text()
    with pytest.raises(SpecError, match=r"^bad.toml: unknown setting 'dead'"):
        study_command(home.path, "b1", bad, False)
    assert (study.results / "study.toml").read_text() == kept


def test_a_job_without_the_codebook_of_the_federation_gets_a_note(home, capsys):
    job = home.path.parent / "job.toml"
    job.write_text('[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n')
    study_command(home.path, "b1", job, False)
    assert "codebook" not in "".join(capsys.readouterr())
    (home.path / "codebook.toml").write_text('[columns.age]\ntype = "number"\ncap = [18, 90]\n')
    study_command(home.path, "b2", job, False)
    said = " ".join("".join(capsys.readouterr()).split())
    assert "codebook.toml, but the job has none. A site refuses a job without a codebook if" in said


def test_a_trial_of_sites_on_other_machines_says_how_they_are_asked(home):
    (home.path / "sites" / "east").rename(home.path / "elsewhere")
    for words in (["up", "fed"], ["simulate", "fed"]):
        with pytest.raises(SystemExit) as stop:
            main(["federation", *words, "--json"])
        assert stop.value.code == 2
    told = r"^fed/sites has no folder of 'east'\. .* other machines, use: "
    with pytest.raises(SpecError, match=told):
        load_places(home)
