"""The files of the coordinator's server: what is wrong with them is said before it starts."""

import os
import re
import shutil

import pytest

from feddcd._errors import SpecError
from feddcd.cli import _serving
from feddcd.federation.config import Config
from feddcd.federation.folder import FederationFolder
from feddcd.federation.machine.init import certify, create
from feddcd.federation.machine.keys import check_server
from feddcd.federation.machine.programs import opened

FILES = ("ca.crt", "server.crt", "server.key")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Made once: keys and certificates take their time."""
    top = tmp_path_factory.mktemp("two")
    return [create(top / name, [], Config(name, host="127.0.0.1")) for name in ("fed", "other")]


@pytest.fixture
def home(two, tmp_path):
    shutil.copytree(two[0].path, tmp_path / "fed")
    return FederationFolder(tmp_path / "fed")


def start(home):
    with opened(home, forget=True):
        pass


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["missing", "damaged", "of another"])
def test_a_bad_file_of_the_server_is_named_before_it_starts(home, two, monkeypatch, name, how):
    monkeypatch.setattr("feddcd.federation.machine.programs.link", lambda _: pytest.fail("started"))
    monkeypatch.setattr("feddcd.federation.machine.programs.answers", lambda *_: False)
    path = home.server / name
    if how == "missing":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(b"x" + path.read_bytes()[40:])
    else:
        shutil.copy(two[1].server / name, path)
    with pytest.raises(SpecError) as told:
        start(home)
    which = {("of another", "ca.crt"): "server.crt", ("of another", "server.crt"): "server.key"}
    said = {"missing": "cannot be read: No such file or directory", "damaged": "was changed or"}
    first = re.escape(str(home.server / which.get((how, name), name)))
    assert re.match(rf"{first} {said.get(how, 'does not belong to ')}", str(told.value))
    assert f"feddcd federation certify {home.path}" in str(told.value)
    certify(home, None)
    check_server(home.server)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_who_serves_is_warned_of_files_that_others_can_read(home, monkeypatch, capsys):
    monkeypatch.setattr(_serving, "serve", lambda *_: None)
    home.path.chmod(0o700)
    _serving.serve_command(home.path)
    assert "WARNING" not in capsys.readouterr().out
    (home.server / "server.key").chmod(0o644)
    home.path.chmod(0o755)
    _serving.serve_command(home.path)
    said = capsys.readouterr().out.replace("\n", " ")
    assert "fed has the mode 0755, so other users of this machine may read or change" in said
    assert "server.key has the mode 0644" in said
    assert "read or change the private key of the coordinator. What to do: chmod 600" in said
