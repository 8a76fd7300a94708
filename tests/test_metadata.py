"""What pyproject.toml says to pip and to a package index."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

SAID = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
EXTRAS = {
    extra: {wish.name: wish for wish in map(Requirement, wishes)}
    for extra, wishes in SAID["project"]["optional-dependencies"].items()
}


def test_tests_have_what_builds_the_package():
    """tests/test_readme.py makes the metadata as they will be on an index."""
    built = {wish.name: wish for wish in map(Requirement, SAID["build-system"]["requires"])}
    assert built.keys() == {"setuptools"}
    assert EXTRAS["dev"]["setuptools"] == built["setuptools"]


def test_commands_keep_the_help_of_their_arguments_beside_flower():
    """Flower wants typer < 0.21, for which click 8.5 is too new."""
    assert not EXTRAS["flower"]["click"].specifier.contains("8.5.0")
    assert all("click" in of or "feddcd" in of for of in EXTRAS.values() if "flwr" in of)


def test_an_index_shows_where_help_is():
    urls = SAID["project"]["urls"]
    assert urls.keys() == {"Homepage", "Documentation", "Issues", "Changelog"}
    assert all(url.startswith("https://") for url in urls.values())
