"""The command line as a person uses it: what it writes, what it prints, what it takes."""

import contextlib
import csv
import dataclasses
import io
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import jax
import numpy as np
import pytest

import feddcd as package
from feddcd.algorithms import ALGORITHMS, AbstractStateless
from feddcd.cli._spec_options import HELP as HELP_TEXTS
from feddcd.cli.app import main
from feddcd.data import PARTITIONS, available
from feddcd.data.federate import MODELS, WEIGHTINGS
from feddcd.history import History
from feddcd.participation import PARTICIPATIONS
from feddcd.runs.build import build
from feddcd.runs.spec import Spec
from feddcd.solvers import SOLVERS
from slices import sliced

QUICK = "--clients 4 --tau 3 --rounds 4 --certify-every 2"  # equal shapes are compiled once
NAMES = list(ALGORITHMS)
PROMISED = {"feddcd", "accfeddcd", "pointsaga", "fednewton", "fedavg", "fedprox", "scaffold"}
FOLDER = {"config.toml", "history.csv", "summary.json", "model.npz", "report.html"}
SUMMARY = {
    "algorithm", "rounds", "uploads", "bytes_up", "objective", "lower_bound", "certified_gap",
    "accuracy", "dual_residual", "seconds",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A finished comparison, and what it printed."""
    folder = tmp_path_factory.mktemp("raced")
    command = f"compare --data wine {QUICK} --algorithm mbsgd --algorithm fedavg"
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        feddcd(f"{command} --set fedavg.lr=0.1 --set mbsgd.lr=0.05 --out race")
    return folder / "race", said.getvalue()


@pytest.fixture
def race(raced):
    """A copy of it in the current folder."""
    shutil.copytree(raced[0], "race")
    return raced[1]


@pytest.fixture
def words_only(monkeypatch):
    """Reports without their pictures, where others look at those."""
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])


plain = pytest.mark.usefixtures("words_only")


def feddcd(command: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    assert stop.value.code == 0


def summary(folder: str) -> dict:
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(Path(folder, "summary.json").read_text(), parse_constant=refuse)


def history(folder: str) -> History:
    return History.load(Path(folder, "history.csv"))


def config(folder: str) -> dict:
    return tomllib.loads(Path(folder, "config.toml").read_text())


def same_rounds(a: str, b: str) -> bool:
    """Equal in every column but the clock."""
    x, y = history(a), history(b)
    return all(np.array_equal(x[k], y[k], equal_nan=True) for k in x if k != "seconds")


class Words(HTMLParser):
    """The visible text of a page."""

    def __init__(self, path: str):
        super().__init__()
        self.text = ""
        self.feed(Path(path).read_text())

    def handle_data(self, data):
        self.text += data


def test_run_writes_a_folder(capsys):
    feddcd("run --data wine --clients 4 --rounds 4 --certify-every 2 --algorithm feddcd --out a")
    shown = capsys.readouterr().out
    assert "model: softmax, 3 classes" in shown
    assert {path.name for path in Path("a").iterdir()} == FOLDER | {"checkpoint.npz"}
    found, rows = summary("a"), history("a")
    assert found.keys() >= SUMMARY
    assert (found["algorithm"], found["status"], found["rounds"]) == ("feddcd", "finished", 4)
    assert list(rows["round"]) == [1, 2, 3, 4]
    # tau = max(2, 4/4) clients upload a 13 x 3 matrix of doubles in each of 4 rounds
    assert found["uploads"] == 8
    assert found["bytes_up"] == 8 * 13 * 3 * 8
    for name in ("objective", "lower_bound", "certified_gap", "accuracy"):
        assert found[name] == rows.last(name)
    assert found["objective"] - found["lower_bound"] == pytest.approx(found["certified_gap"])
    assert found["certified_gap"] > 0
    assert np.array_equal(np.isnan(rows["certified_gap"]), [True, False, True, False])
    assert found["accuracy_of"] == "test data"
    assert "feddcd" in shown
    assert "report: a/report.html" in shown
    assert "wine" in Words("a/report.html").text
    with np.load("a/model.npz", allow_pickle=False) as model:
        assert model["w"].shape == (13, 3)
        assert list(model["classes"]) == [0, 1, 2]


@plain
def test_a_run_from_its_own_config_is_the_same_run():
    feddcd(f"run --data wine {QUICK} --algorithm mbsgd --set lr=0.1 --seed 7 --out a -q")
    feddcd("run a/config.toml --out b -q")
    assert config("a") == config("b")
    assert same_rounds("a", "b")
    with np.load("a/model.npz") as a, np.load("b/model.npz") as b:
        assert np.array_equal(a["w"], b["w"])
    # options come before the file: another seed asks others, a setting replaces one of the file's
    feddcd("run a/config.toml --seed 8 --rounds 2 --set lr=0.2 --set batch_size=9 --out c -q")
    changed = {"seed": 8, "rounds": 2, "settings": {"lr": 0.2, "batch_size": 9}}
    assert config("c") == config("a") | changed
    assert history("c").rounds == 2
    assert history("c")["objective"][0] != history("a")["objective"][0]


@plain
def test_a_setting_without_a_method_says_whose_it_is_and_bits_choose_no_method(capsys):
    few = "run --data wine --clients 4 --rounds 2"
    feddcd(f"{few} --set eta=0.5 --out a")
    shown = " ".join(capsys.readouterr().out.split())
    why = "the command has a setting of a method, but no --algorithm, and feddcd is then the "
    why += "default; to use"
    assert f"method: feddcd, because {why}" in shown
    feddcd(f"{few} --bits 16 --out b")
    assert "method: fedqn, because the model is convex" in capsys.readouterr().out
    assert summary("b")["bits"] == 16
    found = package.run("wine", clients=4, rounds=2, bits=16)
    assert found.summary["algorithm"] == "fedqn"


def test_out_has_a_default_that_is_never_taken_twice(capsys):
    lines = 'data = "wine"\nclients = 4\ntau = 3\nrounds = 2\nalgorithm = "mbsgd"\n'
    Path("small.toml").write_text(lines)
    feddcd("run small.toml")
    feddcd("run small.toml")
    assert {path.name for path in Path("runs").iterdir()} == {"mbsgd-wine", "mbsgd-wine-2"}
    assert "report: runs/mbsgd-wine-2/report.html" in capsys.readouterr().out


@plain
def test_quiet_prints_nothing(capsys):
    feddcd(f"run --data wine {QUICK} --algorithm mbsgd --out a -q")
    assert capsys.readouterr() == ("", "")


@plain
def test_a_target_ends_the_run_early():
    feddcd(
        "run --data wine --clients 4 --rounds 90 --certify-every 2 --target-gap 1 "
        "--algorithm fedavg --out a -q"
    )
    found = summary("a")
    assert found["certified_gap"] <= 1
    assert found["rounds"] < 90
    assert found["status"] == "finished"


def test_compare_writes_runs_and_a_comparison(race):
    for name in ("mbsgd", "fedavg"):
        assert {path.name for path in Path("race", name).iterdir()} >= FOLDER
        assert summary(f"race/{name}")["algorithm"] == name
        assert name in race
    assert config("race/mbsgd")["settings"] == {"lr": 0.05}
    assert config("race/fedavg")["settings"] == {"lr": 0.1}
    with open("race/compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["mbsgd", "fedavg"]
    for row in rows:
        found = summary(f"race/{row['label']}")
        assert float(row["objective"]) == found["objective"]
        assert int(row["uploads"]) == found["uploads"] == 12
    assert Path("race/compare.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    text = Words("race/report.html").text
    assert "mbsgd" in text
    assert "fedavg" in text
    # one of them alone gives the same rounds: the others do not disturb it
    feddcd(f"run race/fedavg/config.toml {QUICK} --out alone -q")
    assert same_rounds("alone", "race/fedavg")


@pytest.mark.chaos
@plain
def test_compare_takes_the_config_of_a_run():
    lines = 'data = "wine"\nclients = 4\ntau = 3\nrounds = 2\nalgorithm = "fedavg"\n'
    Path("one.toml").write_text(f"{lines}[settings]\nlr = 0.1\n")
    feddcd("compare one.toml --algorithm fedavg --algorithm mbsgd --out race -q")
    assert config("race/fedavg")["settings"] == {"lr": 0.1}
    assert config("race/mbsgd")["settings"] == {}
    assert history("race/mbsgd").rounds == 2


def test_the_issue_and_the_table_agree_on_the_algorithms():
    assert set(NAMES) >= PROMISED | {"mbsgd"}


USUAL = {"mbsgd"}  # others above are of a dual one
STATELESS = {
    name for name, row in ALGORITHMS.items() if issubclass(row.algorithm, AbstractStateless)
}


@plain
@pytest.mark.parametrize("name", sliced(NAMES, USUAL))
def test_every_algorithm_runs(name):
    tau = 4 if ALGORITHMS[name].needs_everyone else 3
    feddcd(f"run --data wine {QUICK} --tau {tau} --l2 0.01 --algorithm {name} --out a -q")
    found, rows = summary("a"), history("a")
    assert found["algorithm"] == name
    assert found["uploads"] == 4 * tau
    assert np.isfinite(rows["objective"]).all()
    # log 3 is the objective at w = 0, where every method starts; one step of Newton is damped
    assert found["objective"] < math.log(3)
    assert found["lower_bound"] <= found["objective"]
    dual = name not in STATELESS | {"fednewton"}
    assert (found["dual_residual"] is not None) == dual


USUAL_KINDS = {"uniform --loss 0.5"}
COUNTS = "".join(
    f"{int(3 + 2 * np.sin(i))} 1:1 2:{np.sin(i):.3f} 3:{np.cos(3 * i):.3f}\n" for i in range(40)
)
MODEL_RUNS = {
    "softmax": "--data wine --algorithm mbsgd",
    "logistic": "--data breast-cancer --l2 0.01 --algorithm mbsgd",
    "ridge": "--data counts.svm --algorithm mbsgd",
    "poisson": "--data counts.svm --algorithm mbsgd --set lr=0.01",
    "mlp": "--data wine --dtype float32 --algorithm mbsgd --set lr=0.1",
    "mlp:8x4": "--data wine --algorithm mbsgd --set lr=0.1",
}


@plain
@pytest.mark.parametrize("model", sliced(MODEL_RUNS, {"softmax", "poisson"}))
def test_every_model_runs(model):
    Path("counts.svm").write_text(COUNTS)
    feddcd(f"run {MODEL_RUNS[model]} --model {model} {QUICK} --out a -q")
    found, rows = summary("a"), history("a")
    convex = not model.startswith("mlp")
    assert (found["certified_gap"] is not None) == convex
    assert np.isfinite(rows["objective"]).all()
    with np.load("a/model.npz", allow_pickle=False) as arrays:
        weights = [arrays[name] for name in arrays.files if name != "classes"]
        assert {w.dtype for w in weights} == {np.dtype("float64" if convex else "float32")}
        if model == "mlp:8x4":
            shapes = {w.shape for w in weights if w.ndim == 2}
            assert shapes == {(13, 8), (8, 4), (4, 3)}
        elif convex:
            columns = {"softmax": 3}.get(model, 1)
            assert weights[0].shape[1] == columns
        assert ("classes" in arrays.files) == (model not in ("ridge", "poisson"))


@plain
@pytest.mark.chaos
def test_counts_are_run_by_the_method_that_is_chosen():
    Path("counts.svm").write_text(COUNTS)
    feddcd(f"run --data counts.svm --model poisson {QUICK} --out a -q")
    assert summary("a")["certified_gap"] is not None
    assert np.isfinite(history("a")["objective"]).all()


def test_the_demo_compares_methods_at_equal_bits(tmp_path, monkeypatch):
    from feddcd.cli import _run

    asked = []
    monkeypatch.setattr(_run, "race", lambda *wish: asked.append(wish))
    _run.demo_command(tmp_path / "demo", quiet=True)
    _, methods, settings, *_ = asked[0]
    assert {name: settings[name]["bits"] for name in methods} == dict.fromkeys(_run.DEMO, 8)
    written = tomllib.loads((tmp_path / "demo" / "compare.toml").read_text())
    assert written["settings"] == settings
    (tmp_path / "demo" / "fedqn").mkdir()
    _run.demo_command(tmp_path / "demo", quiet=True)
    assert not (tmp_path / "demo" / "fedqn").exists(), "it replaces its own folder"


def test_the_demo_deletes_no_comparison_of_the_user(tmp_path, monkeypatch):
    from feddcd._errors import FolderError
    from feddcd.cli import _run
    from feddcd.runs.folder import save_race

    monkeypatch.setattr(_run, "race", lambda *wish: None)
    for k, text in enumerate(("", "no toml [", None)):
        mine = tmp_path / f"mine{k}"
        save_race(mine, {"data": "wine", "clients": 3}, ["fedqn"], {})
        if text is not None:
            (mine / "compare.toml").write_text(text)
        with pytest.raises(FolderError):
            _run.demo_command(mine, quiet=True)
        assert (mine / "compare.toml").exists()


def test_all_models_are_run():
    assert {name.partition(":")[0] for name in MODEL_RUNS} == set(MODELS)


@plain
@pytest.mark.parametrize("scheme", sliced([*PARTITIONS, "dirichlet:5", "group:1"], {"group:1"}))
def test_every_partition_runs(scheme):
    Path("grouped.svm").write_text("".join(f"{i % 2} 1:{i % 3} 2:{i}\n" for i in range(30)))
    data, clients = "wine", "--clients 4"
    if scheme == "group":
        data = "synthetic:n=80,d=3,groups=4"
    elif scheme == "group:1":
        data, clients = "grouped.svm", "--clients 3"
    feddcd(f"run --data {data} --partition {scheme} {QUICK} {clients} --algorithm mbsgd --out a -q")
    assert config("a")["partition"] == scheme
    assert summary("a")["clients"] == int(clients.split()[1])
    assert np.isfinite(history("a")["objective"]).all()


@plain
@pytest.mark.parametrize(
    "kind", sliced([*PARTICIPATIONS, "available", "uniform --loss 0.5"], USUAL_KINDS)
)
def test_every_participation_runs(kind):
    kind = kind.replace(":P", ":0.9")
    feddcd(
        f"run --data wine {QUICK} --participation {kind} --rounds 20 --algorithm mbsgd --out a -q"
    )
    uploads = np.diff(history("a")["uploads"], prepend=0)
    if kind == "everyone":
        assert set(uploads) == {4}
    elif kind in ("uniform", "importance"):
        assert set(uploads) == {3}
    elif kind.startswith("available"):
        assert set(uploads) <= {2, 3, 4}
        assert len(set(uploads)) > 1
    else:  # a round with fewer than two uploads is lost
        assert set(uploads) == {0, 2, 3}


@pytest.mark.chaos
@plain
def test_every_weighting_runs():
    """Unequal clients: the two weightings mean different objectives."""
    for weighting in WEIGHTINGS:
        feddcd(
            f"run --data wine {QUICK} --partition dirichlet:0.5 --algorithm mbsgd "
            f"--weighting {weighting} --out {weighting} -q"
        )
    assert not same_rounds("clients", "samples")


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_has_its_name(solver):
    spec = Spec(data="wine", clients=4, settings={"solver": solver})
    kind = {"newton": "NewtonCG", "gd": "GradientDescent", "adam": "Optax"}
    with jax.enable_x64(True):
        chosen = build(spec).federation.algorithm.solver
    assert type(chosen).__name__ == kind.get(solver, solver.upper())


@pytest.mark.chaos
@plain
def test_a_solver_by_name_runs():
    feddcd(f"run --data wine {QUICK} --set solver=svrg --set epochs=3 --set lr=0.01 --out a -q")
    assert history("a")["objective"][-1] < math.log(3)


@pytest.mark.chaos
@plain
def test_accuracy_is_of_the_test_data_where_there_are_any():
    lines = [f"{i % 2} 1:{i % 2} 2:1\n" for i in range(20)]
    Path("train.svm").write_text("".join(lines))
    Path("test.svm").write_text("1 1:1 2:1\n0 1:1 2:1\n0 2:1\n1 1:1 2:1\n")
    options = f"--data train.svm {QUICK} --rounds 20 --algorithm mbsgd --tau 4 -q"
    feddcd(f"run {options} --out alone")
    feddcd(f"run {options} --test-data test.svm --out scored")
    assert summary("alone")["accuracy_of"] == "training data"
    assert summary("alone")["accuracy"] == 1.0
    # x_1 tells the class in training; one of the four test rows is wrong about it
    assert summary("scored")["accuracy_of"] == "test data"
    assert summary("scored")["accuracy"] == 0.75


@pytest.mark.usefixtures("race")
def test_report_is_written_again(capsys, request):
    for old, new in (("mbsgd", "a"), ("fedavg", "b")):
        Path("race", old).rename(new)
    first = Path("a/report.html").read_text()
    Path("a/report.html").unlink()
    feddcd("report a")
    again = Path("a/report.html").read_text()
    assert "Command: <code>feddcd report a</code>" in again
    command = re.compile("Command: <code>.*</code>")
    assert command.sub("", again) == command.sub("", first)
    request.getfixturevalue("words_only")
    feddcd("report a b --out both.html")
    text = Words("both.html").text
    assert "mbsgd" in text
    assert "fedavg" in text
    feddcd("report a a --out twice.html")  # the same label twice: told apart by folder
    assert "report: twice.html" in capsys.readouterr().out


@pytest.mark.usefixtures("race")
def test_report_of_a_comparison():
    Path("race/report.html").unlink()
    feddcd("report race")
    assert "fedavg" in Words("race/report.html").text


GROUPS = {
    "algorithms": NAMES,
    "data": list(available()),
    "models": list(MODELS),
    "partitions": list(PARTITIONS),
    "participation": list(PARTICIPATIONS),
    "solvers": list(SOLVERS),
    "weightings": list(WEIGHTINGS),
}


def test_list_names_everything(capsys):
    feddcd("list")
    words = capsys.readouterr().out.split()
    for group, names in GROUPS.items():
        assert group in words
        assert set(names) <= set(words)


@pytest.mark.parametrize("group", GROUPS)
def test_list_of_one_kind(group, capsys):
    feddcd(f"list {group}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [group]
    assert [line.split()[0] for line in lines if re.match(r"  \S", line)] == GROUPS[group]


@pytest.mark.parametrize("name", NAMES)
def test_list_of_one_method_shows_its_formulas(name, capsys):
    """An installed package has no source folder in which a person would look for them."""
    feddcd(f"list {name}")
    said = capsys.readouterr().out
    assert said.startswith(f"{name}: {ALGORITHMS[name].about}")
    formulas = sys.modules[ALGORITHMS[name].algorithm.__module__].__doc__ or ""
    assert " = " in formulas
    assert formulas.strip() in said
    assert not re.search(r"`[A-Z]+`|\w+\.py", said)  # a name of the source tells a user nothing
    assert "settings: " in said


HELP = {
    "": ["run", "compare", "list", "report", "demo"],
    "run": ["--data", "--algorithm", "--set", "--tau", "--l2", "--rounds", "--resume", "--out"],
    "compare": ["--data", "--algorithm", "--set", "--rounds", "--resume", "--out"],
    "list": [
        "algorithms, data, models, partitions, participation, solvers, weightings or problems"
    ],
    "report": ["--out", "folders of runs"],
    "demo": ["--out", "--quiet"],
}


@pytest.mark.parametrize("command", HELP)
def test_help(command, capsys):
    feddcd(f"{command} --help")
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in HELP[command]:
        assert words in shown


# without the objects, which Python alone can give
FIELDS = {field.name for field in dataclasses.fields(Spec)} - {"given"}


def given(name: str) -> tuple[str, object]:
    """A value for the option of a field of Spec: as typed, and as it should arrive."""
    kind = {f.name: f.type for f in dataclasses.fields(Spec)}[name]
    own = {"test_data": ("t.csv", Path("t.csv")), "settings": ("a=1", ["a=1"]), "na": ("-", ["-"])}
    if name in own:
        return own[name]
    for number in (int, float):
        if kind in (number, number | None):
            return "7", number(7)
    return "word", "word"


@pytest.mark.parametrize("command", ["run", "compare"])
def test_every_field_of_a_spec_is_an_option_and_arrives(command, monkeypatch):
    values = {name: given(name) for name in FIELDS}
    arrived = []
    target = f"feddcd.cli._run.{command}_command"
    monkeypatch.setattr(target, lambda *arguments: arrived.extend(arguments))
    flags = {"settings": "--set"}
    line = " ".join(
        f"{flags.get(name, '--' + name.replace('_', '-'))} {typed}"
        for name, (typed, _) in values.items()
    )
    feddcd(f"{command} {line}")
    expected = {name: value for name, (_, value) in values.items()}
    settings, algorithm = expected.pop("settings"), expected["algorithm"]
    if command == "compare":
        expected.pop("algorithm")
        assert arrived == [expected, None, [algorithm], settings, None, None, None, False]
    else:
        assert arrived == [expected, None, settings, None, None, None, False]


def test_help_has_the_defaults_of_a_spec(capsys):
    feddcd("run --help")
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert set(HELP_TEXTS) == FIELDS
    for name, text in HELP_TEXTS.items():
        default = "auto" if name == "algorithm" else getattr(Spec, name, None)
        tail = "" if default in (None, ()) else f" Default: {default}."
        tail = " Default: 0." if name == "loss" else tail
        assert text + tail in shown


def test_help_loads_nothing_heavy():
    script = (
        "import sys\nfrom feddcd.cli.app import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'jax', 'numpy', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "compare" in done.stdout


def test_no_arguments_show_the_help(capsys):
    with pytest.raises(SystemExit):
        main([])
    out, err = capsys.readouterr()
    assert "compare" in out + err


def test_the_version_is_the_package_s(capsys):
    feddcd("--version")
    assert capsys.readouterr().out == f"feddcd {package.__version__}\n"
