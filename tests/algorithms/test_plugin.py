"""A method of somebody else's package: the one that docs/adding.md builds, word by word."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import jax
import numpy as np
import pytest

import feddcd
from disks import in_memory
from docs_blocks import DOCS, blocks
from feddcd._errors import PolicyError, SpecError
from feddcd.algorithms import catalogue
from feddcd.cli.app import main
from feddcd.federation.site import _training as answer
from feddcd.federation.site.policy import load_policy
from feddcd.federation.site.template import loose_text
from feddcd.participation import Lossy, UniformSubset
from feddcd.report.methods import look, title
from federations import DIRECT, TAU, D, N, play, quadratics, solution
from local_network import LocalNetwork, events, make, model, places, quick, reasons, train, wine
from test_federation import RIDGE, optimum, simulated

FIT = RIDGE | {"settings": {"a": 8.0}}
PAGE = DOCS / "adding.md"
COMMANDS = [line for b in blocks(PAGE) if not b.language for line in b.code.splitlines()]
SETUP = "import setuptools; setuptools.setup()"


def run(*command, cwd, **more):
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=os.environ | more, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The page's package, in a folder of its own."""
    source = tmp_path_factory.mktemp("fedsplit")
    files = {block.title: block.code for block in blocks(PAGE) if block.title}
    assert set(files) == {"fedsplit.py", "pyproject.toml", "test_fedsplit.py"}
    for name, code in files.items():
        (source / name).write_text(code)
    run("-W", "ignore", "-c", SETUP, "-q", "egg_info", cwd=source)  # as `pip install -e .` does
    return source


def _makes_wheels() -> bool:
    """Setuptools does so by itself since 70.1, and needs the package wheel before."""
    import setuptools

    version = tuple(map(int, setuptools.__version__.split(".")[:2]))
    return version >= (70, 1) or importlib.util.find_spec("wheel") is not None


@pytest.fixture(scope="module")
def imported(folder):
    """Once: what is compiled for its class serves all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        module = importlib.import_module("fedsplit")
    return sys.modules.pop("fedsplit", module)


@pytest.fixture
def fedsplit(folder, imported, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, "fedsplit", imported)
    monkeypatch.chdir(tmp_path)
    catalogue._installed.cache_clear()
    yield catalogue.get_method("fedsplit")
    catalogue._installed.cache_clear()


def test_a_new_process_lists_what_pip_installed(folder, tmp_path):
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
    if _makes_wheels():
        run(*pip, "--target", str(tmp_path), ".", cwd=folder)
    lists(tmp_path if _makes_wheels() else folder)


def lists(folder):
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    shown = run("-m", "feddcd", "list", "algorithms", cwd=folder, PYTHONPATH=path)
    assert "fedsplit    reflections between local solutions and their mean" in shown
    assert "left out" not in shown


@pytest.mark.usefixtures("fedsplit")
def test_the_page_tests_it_well(folder):
    """The page's own test."""
    (code,) = [block.code for block in blocks(PAGE) if block.title == "test_fedsplit.py"]
    names: dict = {}
    exec(compile(code, "test_fedsplit.py", "exec"), names)
    names["test_it_reaches_the_optimum"]()


@pytest.mark.chaos
@pytest.mark.usefixtures("fedsplit")
def test_the_page_would_find_a_wrong_sign(folder):
    (code,) = [block.code for block in blocks(PAGE) if block.title == "test_fedsplit.py"]
    names: dict = {}
    exec(compile(code, "test_fedsplit.py", "exec"), names)
    cls = names["FedSplit"]
    names["FedSplit"] = lambda: type("Wrong", (cls,), {"joined": cls.joined})(a=-0.5)
    with pytest.raises(AssertionError):
        names["test_it_reaches_the_optimum"]()


@pytest.mark.chaos  # the page's own test shows it with everyone
def test_it_ends_at_the_known_optimum(fedsplit):
    """w* = (sum A_i)^-1 sum b_i."""
    with jax.enable_x64(True):
        for name in ("equal", "unequal"):
            who = Lossy(UniformSubset(N, TAU), 0.1)
            played = play(fedsplit.algorithm(DIRECT), quadratics(name), who, 1000, w0=np.zeros(D))
            assert np.linalg.norm(played.model - solution(name)) < 1e-8
            assert np.max(played.records.dual_residual) < 1e-10


@pytest.mark.usefixtures("fedsplit")
@pytest.mark.parametrize("command", ["run", pytest.param("compare", marks=pytest.mark.chaos)])
def test_the_commands_of_the_page(command, monkeypatch):
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])  # no pictures
    (line,) = [line for line in COMMANDS if line.strip().startswith(f"feddcd {command} ")]
    with pytest.raises(SystemExit) as stop:
        main([*shlex.split(line)[1:], "--quiet"])
    assert not stop.value.code
    out = Path("runs/split" if command == "run" else "runs/race/fedsplit")
    summary = json.loads((out / "summary.json").read_text())
    assert summary["algorithm"] == "fedsplit"
    assert summary["certified_gap"] <= (1e-6 if command == "run" else 1e-2)
    assert summary["dual_residual"] < 1e-10
    assert "FedSplit" in (out / "report.html").read_text()
    if command == "compare":
        assert "#000000" in Path("runs/race/report.html").read_text()


def test_it_is_known_by_its_name(fedsplit):
    assert "fedsplit" in catalogue.methods()
    assert title("fedsplit") == "FedSplit"
    assert look("fedsplit") == ("FedSplit", "#000000", "-")
    few = {"clients": 6, "tau": 3, "l2": 0.01, "rounds": 2}  # and the page's program
    result = feddcd.run("wine", algorithm="fedsplit", settings={"a": 0.1}, **few)
    assert result.summary["algorithm"] == "fedsplit"
    for settings, reason in (
        ({"a": -1}, "the setting 'a' should be a finite number > 0, got -1"),
        ({"b": 1}, "fedsplit has no setting 'b'"),
    ):
        with pytest.raises(SpecError, match=reason):
            feddcd.run("wine", algorithm="fedsplit", settings=settings, clients=6, rounds=2)
    with pytest.raises(SpecError, match="fedsplit needs a penalty"):
        feddcd.run("wine", algorithm="fedsplit", l2=0.0)


@pytest.mark.usefixtures("fedsplit")
def test_a_federation_is_the_simulator():
    with in_memory() as memory, quick():
        home = make(memory / "f", data=wine(), algorithm="fedsplit", rounds=6, **FIT)
        train(home, LocalNetwork(places(home)))
        expected, residual = simulated(home)
        np.testing.assert_allclose(model(home), expected, rtol=0, atol=1e-8)
        assert residual <= 1e-10
        best = optimum(places(home), "samples")
        assert np.linalg.norm(model(home) - best) < 0.2 * np.linalg.norm(best)


@pytest.mark.usefixtures("fedsplit")
@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        pytest.param('methods = ["fedsplit"]', "", marks=pytest.mark.chaos),
        pytest.param('kinds = ["columns", "model", "gradient"]', "", marks=pytest.mark.chaos),
        pytest.param(
            'methods = ["feddcd"]',
            "does not allow the method 'fedsplit'",
            marks=pytest.mark.chaos,
        ),
        ('kinds = ["columns", "gradient"]', "does not allow answers of the kind 'model'"),
    ],
)
def test_a_site_decides(rule, reason):
    with in_memory() as memory, quick():
        home = make(memory / "f", data=wine(), algorithm="fedsplit", rounds=2, **RIDGE)
        (places(home)[0].folder / "policy.toml").write_text(f"{rule}\n{loose_text()}")
        train(home, LocalNetwork(places(home)))
        assert reason in reasons(home)
        assert bool(reason) == bool(events(home, "refused"))


@pytest.mark.usefixtures("fedsplit")
def test_a_site_without_the_package_says_so(monkeypatch):
    real = answer.check_method

    def check(terms, client):
        real(replace(terms, algorithm="missing") if client == "site-1" else terms, client)

    monkeypatch.setattr(answer, "check_method", check)
    with in_memory() as memory, quick():
        home = make(memory / "f", data=wine(), algorithm="fedsplit", rounds=2, **RIDGE)
        train(home, LocalNetwork(places(home)))
        assert reasons(home) == (
            "site-1: this site does not have the method 'missing'; install the same "
            "feddcd and the same extra packages at all sites"
        )


def test_without_the_package_it_is_unknown(tmp_path):
    catalogue._installed.cache_clear()
    (tmp_path / "policy.toml").write_text('methods = ["fedsplit"]\ncomplete = true\n')
    with pytest.raises(PolicyError, match="methods has the unknown name 'fedsplit'"):
        load_policy(tmp_path / "policy.toml")
    with pytest.raises(SpecError, match="unknown algorithm 'fedsplit'"):
        catalogue.get_method("fedsplit")


BROKEN = {
    "gone": ("nowhere:ROW", "ModuleNotFoundError: No module named 'nowhere'"),
    "feddcd": (
        "fedsplit:FEDSPLIT",
        (
            "feddcd already has a method with the name 'feddcd', and another package cannot "
            "replace it"
        ),
    ),
    "other": (
        "fedsplit:FEDSPLIT",
        "the entry point has the name 'other', but the method has the name 'fedsplit': "
        "give both the same name",
    ),
    "number": ("math:pi", "TypeError: 'float' object is not callable"),
    "text": (
        "builtins:str",
        "the entry point builtins:str must give a feddcd.algorithms.Method, but gives an "
        "object of the type str",
    ),
}


@pytest.mark.usefixtures("fedsplit")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_package_is_left_out_and_named(name, monkeypatch, capsys):
    value, reason = BROKEN[name]
    points = [EntryPoint(name, value, catalogue.GROUP)]
    points += [EntryPoint("fedsplit", "fedsplit:FEDSPLIT", catalogue.GROUP)]
    monkeypatch.setattr(catalogue, "entry_points", lambda group: points)
    catalogue._installed.cache_clear()
    assert set(catalogue.methods()) == {*catalogue.ALGORITHMS, "fedsplit"}
    assert catalogue.get_method("feddcd") is catalogue.ALGORITHMS["feddcd"]
    assert catalogue.left_out() == {name: f"{reason} (package {value})"}
    with pytest.raises(SystemExit):
        main(["list", "algorithms"])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"left out: {name}: {reason}" in shown
    if name != "feddcd":
        with pytest.raises(SpecError, match=re.escape(f"{name!r} cannot be used: {reason}")):
            feddcd.run("wine", algorithm=name)


def test_a_function_may_give_the_row(fedsplit, monkeypatch):
    monkeypatch.setattr(sys.modules["fedsplit"], "row", lambda: fedsplit, raising=False)
    points = [EntryPoint("fedsplit", "fedsplit:row", catalogue.GROUP)]
    monkeypatch.setattr(catalogue, "entry_points", lambda group: points)
    catalogue._installed.cache_clear()
    assert catalogue.get_method("fedsplit") is fedsplit
