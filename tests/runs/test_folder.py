"""Run folders: killed runs go on bit for bit, damaged files are named. tests/test_smoke.py stops a
run with Ctrl-C."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import feddcd
from feddcd._errors import FolderError
from feddcd.cli import _ending, _stopping
from feddcd.cli import _run as _commands
from feddcd.cli.app import main
from feddcd.history import COLUMNS, History
from feddcd.runs import folder as disk
from feddcd.runs import run as run_module
from feddcd.runs.build import build
from feddcd.runs.folder import origin
from feddcd.runs.spec import Spec
from feddcd.simulator.simulate import start

# as the installed command, but with a checkpoint every tenth of a second
SCRIPT = (
    "import feddcd.runs.run as run; run.SAVE_EVERY_S = 0.1; from feddcd.cli.app import main; main()"
)
QUICK = "--data wine --clients 4 --certify-every 2"
SMALL = "--data synthetic:n=80,d=3,groups=4 --clients 4"  # needs no scikit-learn, slow to import


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    # pictures take most of the time, and tests/report/test_report.py looks at them
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])
    monkeypatch.setattr("feddcd.report.curves", lambda entries: None)
    monkeypatch.setattr("feddcd.report.save_png", lambda figure, path: path.write_bytes(b""))
    monkeypatch.setattr("feddcd.report.save_pdf", lambda figure, path: path.write_bytes(b""))


def command(text: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(text))
    assert stop.value.code == code


def started(text: str, sign: str) -> subprocess.Popen:
    """A real process, once the file `sign` is there."""
    arguments = [sys.executable, "-c", SCRIPT, *shlex.split(text)]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for _ in range(6000):  # the machine may be busy
        if Path(sign).exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[0]
    return process


def ended(process: subprocess.Popen, number: int) -> str:
    process.send_signal(number)
    return process.communicate(timeout=300)[0]


def rounds_done(folder: str) -> int:
    with np.load(Path(folder, "checkpoint.npz"), allow_pickle=False) as arrays:
        return int(arrays["t"])


def goes_on_as_if_nothing_had_happened(folder: str) -> None:
    """30 rounds more, against one run without a break."""
    total = rounds_done(folder) + 30
    command(f"run --resume {folder} --rounds {total} -q")
    command(f"run {folder}/config.toml --out whole -q")
    a, b = History.load(Path(folder, "history.csv")), History.load(Path("whole/history.csv"))
    assert list(a["round"]) == list(range(1, total + 1))
    for name in COLUMNS:
        if name != "seconds":
            assert np.array_equal(a[name], b[name], equal_nan=True), name
    assert (np.diff(a["seconds"]) >= 0).all()
    with np.load(f"{folder}/model.npz") as x, np.load("whole/model.npz") as y:
        assert np.array_equal(x["w"], y["w"])
    assert disk.read_summary(Path(folder))["status"] == "finished"


def test_a_killed_run_goes_on_from_its_last_checkpoint():
    process = started(
        f"run {SMALL} --algorithm scaffold --certify-every 10 --rounds 1000000 --out a -q",
        "a/checkpoint.npz",
    )
    ended(process, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert disk.read_history(Path("a")).rounds >= rounds_done("a") > 0
    goes_on_as_if_nothing_had_happened("a")


def test_a_run_killed_before_its_first_checkpoint_says_so(capsys):
    few = {"clients": 4, "certify_every": 2, "rounds": 2}
    disk.create(Path("a"), Spec(data="wine", algorithm="mbsgd", **few))
    command("run --resume a -q", code=2)
    expected = (
        r"error: a/checkpoint.npz is missing, so the run cannot .* again from a/config.toml\n"
    )
    assert re.fullmatch(expected, capsys.readouterr().err)
    command("run a/config.toml --out a -q")  # which is what the message advises


def pressing(monkeypatch, name: str, after: int, times: int = 1) -> None:
    """Ctrl-C once the method `name` has done `after` rounds."""
    compare = _commands.compare

    def pressed(*, watch, **options):
        def press(method, step):
            watch(method, step)
            if (method, step.round) == (name, after):
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)

        return compare(watch=press, **options)

    monkeypatch.setattr(_commands, "compare", pressed)


@pytest.mark.chaos
def test_compare_goes_on_where_it_was_stopped(monkeypatch, capsys):
    names = ("mbsgd", "fedavg", "scaffold")
    race = f"compare {QUICK} --rounds 6 " + " ".join(f"--algorithm {name}" for name in names)
    with monkeypatch.context() as patch:
        pressing(patch, "fedavg", 4)
        command(f"{race} --out race", code=130)
    assert "stopped after round 4 of fedavg; to continue: feddcd compare --resume race" in (
        capsys.readouterr().out
    )
    first = Path("race/mbsgd/history.csv").read_bytes()
    assert disk.read_summary(Path("race/mbsgd"))["status"] == "finished"
    assert disk.read_summary(Path("race/fedavg"))["status"] == "stopped"
    assert disk.read_history(Path("race/fedavg")).rounds == 4
    assert not Path("race/scaffold").exists()

    command("compare --resume race -q")
    assert Path("race/mbsgd/history.csv").read_bytes() == first  # to the clock: not done again
    command(f"{race} --out whole -q")
    for name in names:
        assert disk.read_summary(Path("race", name))["status"] == "finished"
        a, b = disk.read_history(Path("race", name)), disk.read_history(Path("whole", name))
        assert a.rounds == 6
        assert np.array_equal(a["objective"], b["objective"])
    lines = Path("race/compare.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["label", *names]

    command("compare --resume race --rounds 8 -q")
    for name in names:
        assert disk.read_history(Path("race", name)).rounds == 8
        assert disk.read_spec(Path("race", name)).rounds == 8


def test_a_comparison_is_not_overwritten(capsys):
    race = f"compare {QUICK} --rounds 2 --algorithm mbsgd --algorithm fedavg --out race -q"
    command(race)
    command(race, code=2)
    assert (
        "the folder race already contains a comparison. Continue this comparison with --resume race"
        in capsys.readouterr().err
    )
    Path("race/compare.toml").write_text("algorithms = [")
    command("compare --resume race", code=2)
    assert "race/compare.toml is damaged" in capsys.readouterr().err
    Path("race/compare.toml").write_text("algorithm = []")
    command("compare --resume race", code=2)
    assert "race/compare.toml: unknown setting 'algorithm'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run", "compare"])
def test_printed_commands_can_be_pasted(name, monkeypatch, capsys):
    stopping_in_report(monkeypatch, 1)
    methods = "--algorithm mbsgd" + " --algorithm fedavg" * (name == "compare")
    line = f"{name} {QUICK} --rounds 2 {methods} --out 'my runs/a'"
    command(line, code=130 if name == "compare" else 0)
    if name == "compare":
        assert "to continue: feddcd compare --resume 'my runs/a'\n" in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit), _stopping.stoppable(Path("my runs/a"), "run"):
            raise KeyboardInterrupt
        assert "to continue: feddcd run --resume 'my runs/a'\n" in capsys.readouterr().out
        with pytest.raises(SystemExit):
            _stopping.exit_stopped("after round 2", Path("my runs/a"), "run")
        assert "round 2; to continue: feddcd run --resume 'my runs/a'\n" in capsys.readouterr().out
    command(line, code=2)
    assert "with --resume 'my runs/a', or choose another --out" in capsys.readouterr().err


def test_ctrl_c_while_a_run_is_compiled_stops_before_the_first_round(monkeypatch, capsys):
    compiled = run_module.compiled

    def pressed(*args):
        os.kill(os.getpid(), signal.SIGINT)
        return compiled(*args)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "compiled", pressed)
        command(f"run {QUICK} --rounds 4 --algorithm mbsgd --out a", code=130)
    said = capsys.readouterr()
    assert "stopped after round 0; to continue: feddcd run --resume a" in said.out
    assert said.err.count("feddcd stops soon; to stop at once, press Ctrl-C again") == 1
    command("run --resume a -q")
    assert rounds_done("a") == 4


def stopping_in_report(monkeypatch, after: int) -> None:
    """Ctrl-C while the files of this run are written: between its last round and the next run."""
    write, written = run_module.Result.write, []

    def pressed(result, folder):
        write(result, folder)
        written.append(folder)
        if len(written) == after:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(run_module.Result, "write", pressed)


@pytest.mark.parametrize(
    ("seeds", "after", "where"),
    [
        ("", 1, "after mbsgd"),
        ("--seeds 2", 1, "after mbsgd with seed 0"),
        ("--seeds 2", 2, "after seed 0"),
    ],
)
def test_ctrl_c_between_two_runs_says_how_to_continue(monkeypatch, capsys, seeds, after, where):
    race = f"compare {QUICK} --rounds 2 --algorithm mbsgd --algorithm fedavg --out race {seeds}"
    with monkeypatch.context() as patch:
        stopping_in_report(patch, after)
        command(race, code=130)
    said = capsys.readouterr().out
    assert f"stopped {where}; to continue: feddcd compare --resume race" in said
    if seeds:
        assert f"{after - 1} of 2 seeds {'is' if after == 2 else 'are'} finished" in said
    command("compare --resume race -q")
    assert len(list(Path("race").glob("**/checkpoint.npz"))) == (4 if seeds else 2)


def test_ctrl_c_after_the_last_round_lets_the_run_end(monkeypatch):
    stopping_in_report(monkeypatch, 1)
    command(f"run {QUICK} --rounds 2 --algorithm mbsgd --out a -q")
    assert disk.read_summary(Path("a"))["status"] == "finished"


@pytest.mark.parametrize("name", ["run", "compare"])
def test_ctrl_c_before_a_folder_is_there_says_that_nothing_is_saved(name, monkeypatch, capsys):
    def pressed(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_commands, "merge", pressed)
    command(f"{name} {QUICK} --rounds 2 --algorithm mbsgd --out a", code=130)
    assert "feddcd stopped before the first round, so nothing is saved." in capsys.readouterr().out


def test_ctrl_c_while_libraries_are_imported_is_not_swallowed(monkeypatch, capsys):
    left, before = [], signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(_ending, "leave", left.append)
    with _ending.importing():
        os.kill(os.getpid(), signal.SIGINT)
    assert left == [130]
    assert "nothing is saved" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_at_once(monkeypatch, capsys):
    before = signal.getsignal(signal.SIGINT)
    pressing(monkeypatch, "mbsgd", 2, times=2)
    command(f"compare {QUICK} --rounds 50 --algorithm mbsgd --out race", code=130)
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert "stopped; to continue: feddcd compare --resume race" in said.out
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Four rounds of SCAFFOLD, whose clients keep something."""
    folder = tmp_path_factory.mktemp("runs") / "scaffold"
    feddcd.run("wine", algorithm="scaffold", clients=4, rounds=4, certify_every=2, out=folder)
    return folder


@pytest.fixture
def run(finished, tmp_path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_no_more_rounds_than_asked(run):
    before = (run / "history.csv").read_bytes()
    result = feddcd.resume(run, rounds=2)  # fewer than there are: nothing to do
    assert (run / "history.csv").read_bytes() == before
    assert result.summary["rounds"] == 4


def test_a_stopped_run_is_not_changed_where_nothing_is_to_be_done(run, capsys):
    """Its next continuation goes on to the rounds that it had."""
    command(f"run --resume {run} --rounds 2000 --target-gap 1e-3 -q")  # long, and ends early
    spec = disk.read_spec(run)
    done = disk.read_history(run).rounds
    assert (spec.rounds, spec.target_gap) == (2000, 1e-3)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    command(f"run --resume {run} --rounds {done - 1}")
    assert f"The run already has {done} rounds." in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_comparison_does_not_end_before_one_of_its_runs(capsys):
    """The medians would be of runs of different lengths."""
    race = f"compare {QUICK} --algorithm mbsgd --algorithm fedavg --seeds 2 --rounds 4 --out race"
    command(f"{race} -q")
    shutil.rmtree("race/seed-1")
    before = Path("race/compare.toml").read_bytes()
    command("compare --resume race --rounds 2", code=2)
    assert (
        "race/seed-0/fedavg already has 4 rounds, so the comparison cannot end after 2 rounds: "
        "give --rounds with 4 or more"
    ) in capsys.readouterr().err
    assert Path("race/compare.toml").read_bytes() == before
    assert not Path("race/seed-1").exists()
    wine = {"clients": 4, "certify_every": 2, "rounds": 3, "algorithms": ["mbsgd", "fedavg"]}
    for more in ({"out": "race", "seeds": 2}, {"out": "race/seed-0"}):
        with pytest.raises(ValueError, match=r"already has 4 rounds.*give rounds with 4 or more"):
            feddcd.compare("wine", resume=True, **wine, **more)


def test_rounds_after_the_checkpoint_are_done_again(run):
    """Killed between the two files, the history is ahead of the checkpoint."""
    whole = disk.read_history(run)
    with open(run / "history.csv", "a") as file:
        file.write("5,5,10,1,1,99.0,,,0.5,0.0,1,1.0\n")
    result = feddcd.resume(run)
    assert result.history.rounds == 4
    assert np.array_equal(result.history["objective"], whole["objective"])


def arrays_of(run: Path) -> dict[str, np.ndarray]:
    with np.load(run / "checkpoint.npz", allow_pickle=False) as file:
        return dict(file)


def rewrite(run: Path, arrays: dict[str, np.ndarray], **meta) -> None:
    """A checkpoint with these arrays, and a checksum that fits them."""
    known = json.loads(bytes(arrays.pop("meta")))
    known |= {"digest": disk._digest(arrays)} | meta
    arrays["meta"] = np.frombuffer(json.dumps(known).encode(), np.uint8)
    np.savez(run / "checkpoint.npz", **arrays)


def truncate(run):
    raw = (run / "checkpoint.npz").read_bytes()
    (run / "checkpoint.npz").write_bytes(raw[: len(raw) // 2])


def flip(run):
    raw = bytearray((run / "checkpoint.npz").read_bytes())
    raw[len(raw) // 2] ^= 1
    (run / "checkpoint.npz").write_bytes(raw)


def drop(run):
    arrays = arrays_of(run)
    del arrays["server.w"]
    rewrite(run, arrays)


def reshape(run):
    arrays = arrays_of(run)
    rewrite(run, arrays | {"server.w": np.zeros((5, 3))})


def narrow(run):
    arrays = arrays_of(run)
    rewrite(run, arrays | {"server.w": arrays["server.w"].astype(np.float32)})


def change(run):
    arrays = arrays_of(run)
    meta = json.loads(bytes(arrays["meta"]))
    rewrite(run, arrays | {"server.w": arrays["server.w"] + 1}, digest=meta["digest"])


def pickle(run):
    arrays = arrays_of(run)
    arrays["server.w"] = np.array([{"a": 1}], object)
    np.savez(run / "checkpoint.npz", **arrays)


def replace(name, old, new):
    def edit(run):
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new))

    return edit


def shorten(run):
    lines = (run / "history.csv").read_text().splitlines(keepends=True)
    (run / "history.csv").write_text("".join(lines[:3]))


def line(text):
    def edit(run):
        lines = (run / "history.csv").read_text().splitlines()
        lines[2] = text
        (run / "history.csv").write_text("\n".join(lines) + "\n")

    return edit


DAMAGE = {
    "truncated": (truncate, r"checkpoint.npz is damaged"),
    "a flipped bit": (flip, r"checkpoint.npz is damaged"),
    "missing": (lambda run: (run / "checkpoint.npz").unlink(), r"checkpoint.npz is missing"),
    "empty": (lambda run: (run / "checkpoint.npz").write_bytes(b""), r"checkpoint.npz is damaged"),
    "text": (lambda run: (run / "checkpoint.npz").write_text("hello"), r"npz is damaged"),
    "missing array": (drop, "the array server.w is missing"),
    "wrong shape": (
        reshape,
        r"server\.w has the type and shape float64\(5, 3\), but float64\(13, 3\) was expected",
    ),
    "wrong type": (
        narrow,
        r"server\.w has the type and shape float32\(13, 3\), but float64\(13, 3\) was expected",
    ),
    "changed values": (change, r"damaged: its checksum does not match its contents"),
    "pickled": (pickle, r"checkpoint.npz is damaged: Object arrays cannot be loaded"),
    "future format": (
        lambda run: rewrite(run, arrays_of(run), format=2),
        r"checkpoint.npz has the format 2, but this version of feddcd reads the format 1",
    ),
    "no meta": (
        lambda run: np.savez(run / "checkpoint.npz", t=np.zeros(())),
        r"checkpoint.npz is damaged: .*meta",
    ),
    "meta is a list": (
        lambda run: np.savez(run / "checkpoint.npz", meta=np.frombuffer(b"[1]", np.uint8)),
        r"checkpoint.npz is damaged",
    ),
    "another seed": (
        replace("config.toml", "seed = 0", "seed = 1"),
        r"checkpoint.npz was written with other settings\. .*config.toml",
    ),
    "another algorithm": (
        replace("config.toml", '"scaffold"', '"fedavg"'),
        r"checkpoint.npz was written with other settings\. .*config.toml",
    ),
    "unknown setting": (
        replace("config.toml", "seed", "sead"),
        r"is not a run folder: .*config.toml: unknown setting 'sead'; did you mean 'seed'",
    ),
    "no config": (
        lambda run: (run / "config.toml").unlink(),
        r"is not a run folder: .*config.toml: no such file",
    ),
    "no history": (lambda run: (run / "history.csv").unlink(), r"cannot read .*history.csv"),
    "short history": (shorten, r"history.csv ends at round 2, but the checkpoint is at round 4"),
    "cut line": (
        line("2,2,4,5"),
        r"history.csv: line 3 must have a number in the column 'bytes_down', but has nothing",
    ),
    "word in a line": (
        line("2,2,4,1,1,much,,,0.5,0.0,1,1.0"),
        r"history.csv: line 3 must have a number in the column 'objective', but has 'much'",
    ),
    "no count": (
        line("2,2,,1,1,1.0,,,0.5,0.0,1,1.0"),
        r"history.csv: line 3 must have a number in the column 'uploads', but has an empty entry",
    ),
    "empty line": (
        line(""),
        (
            r"history\.csv: line 3 must have a number in the column 'round', but has "
            r"nothing"
        ),
    ),
    "other columns": (
        replace("history.csv", "objective", "loss"),
        r"history.csv: the first line must be round,iteration,",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named(damage, message, run, capsys):
    damage(run)
    files = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(FolderError, match=message):
        feddcd.resume(run, rounds=6)
    command(f"run --resume {shlex.quote(str(run))} --rounds 6 -q", code=2)
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in run.iterdir()} == files


def test_no_flipped_bit_goes_unseen(run):
    """Every 11th byte, one bit: refused as damaged, or read as what was written."""
    spec, path = disk.read_spec(run), run / "checkpoint.npz"
    raw, seen = path.read_bytes(), 0
    with jax.enable_x64(True):
        built = build(spec)
        like = start(built.federation, built.federated.w)
        mark = origin(built)
        whole = jax.tree.leaves(disk.load_checkpoint(run, spec, like, mark))
        for at in range(0, len(raw), 11):
            damaged = bytearray(raw)
            damaged[at] ^= 1 << at % 8
            path.write_bytes(damaged)
            try:
                found = jax.tree.leaves(disk.load_checkpoint(run, spec, like, mark))
            except FolderError:
                seen += 1
            else:
                assert all(map(np.array_equal, found, whole))
    assert seen > len(raw) // 11 // 2


@pytest.mark.parametrize("algorithm", ["feddcd", None])  # or as feddcd chooses, and says why
def test_a_resumed_run_has_the_whole_summary_of_one_without_a_stop(algorithm):
    small = {"clients": 4, "certify_every": 2, "rounds": 6, "algorithm": algorithm}
    whole = feddcd.run("wine", out="whole", **small).summary
    stop = lambda progress: progress.round == 2
    assert feddcd.run("wine", out="a", watch=stop, **small).summary["status"] == "stopped"
    resumed, again = (feddcd.resume("a").summary for _ in range(2))  # the second has nothing to do
    timeless = lambda summary: {k: x for k, x in summary.items() if not k.startswith("seconds")}
    assert timeless(resumed) == timeless(again) == timeless(whole)
    assert "why" in whole if algorithm is None else whole["worst_local_gradient"] > 0


def test_report_names_what_it_cannot_read(run, capsys):
    replace("summary.json", "{", "[")(run)
    command(f"report {shlex.quote(str(run))}", code=2)
    assert re.match(r"error: cannot read .*summary.json: ", capsys.readouterr().err)


def test_nothing_temporary_stays(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {
        "checkpoint.npz", "config.toml", "history.csv", "model.npz", "report.html", "summary.json"
    }  # fmt: skip


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(temporary: Path):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        disk.write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_ever_unpickled():
    source = Path(feddcd.__file__).parent
    text = {path.name: path.read_text() for path in source.rglob("*.py")}
    for name, code in text.items():
        assert "import pickle" not in code, name
        assert "allow_pickle=True" not in code, name
        for call in re.findall(r"np\.load\([^)]*\)", code):
            assert "allow_pickle=False" in call, (name, call)
