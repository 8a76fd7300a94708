"""What a run says of its own speed: kappa may be a wrong setting, or the rounds are too few."""

import dataclasses
import json
import math
import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddcd
from feddcd.algorithms import AbstractAlgorithm, AccFedDCD, FedAvg, FedDCD
from feddcd.cli.app import main
from feddcd.history import COLUMNS, History
from feddcd.paper import theory
from feddcd.participation import AbstractParticipation, Everyone, Lossy
from feddcd.runs._advice import advice
from feddcd.runs._diverged import in_python
from feddcd.runs._ending import _is_flat
from feddcd.solvers import SGD

RIGHT = 1e-3  # α/β


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def walk(kappa: float, rounds: int) -> np.ndarray:
    """The gap after each iteration of Algorithm 2 with τ = N where all curvatures of the dual are
    α/β, as a square: the gradient steps are α/β times v."""
    root = math.sqrt(kappa)
    a = root / (1 + root)
    b = a * kappa
    s = b / (a**2 + b)
    y, z, gaps = 1.0, 1.0, []
    for _ in range(rounds):
        v = (1 - a) * y + a * z
        y, z = v - RIGHT * v, (1 - s) * z + s * v - a / (a**2 + b) * RIGHT * v
        gaps.append(v**2)
    return np.array(gaps)


def told(
    kappa: float,
    gaps: np.ndarray,
    target: float | None = None,
    who: AbstractParticipation | None = None,
    **settings,
) -> str:
    """With a certificate every fifth round."""
    algorithm = AccFedDCD(2, 2, kappa=kappa, sets=1, **settings)
    fed = federation(algorithm, who or Everyone(2))
    return advice(fed, algorithm.init_server(np.zeros(2)), recorded(gaps), target)


def federation(algorithm: AbstractAlgorithm, who: AbstractParticipation) -> Any:
    return SimpleNamespace(participation=who, algorithm=algorithm, weights=np.ones(2))


def recorded(gaps: np.ndarray) -> History:
    n = len(gaps)
    columns = {name: np.zeros(n) for name in COLUMNS} | {"round": 1 + np.arange(n)}
    seen = np.where(np.arange(1, n + 1) % 5 == 0, gaps, np.nan)
    return History(columns | {"certified_gap": seen})


def test_a_kappa_that_changes_promises_what_its_iterations_do():
    algorithm, N, tau = AccFedDCD(3, 8), 8, 3
    kappas = np.geomspace(0.2, 0.001, 16)
    server = algorithm.init_server(np.zeros(2))._replace(kappas=jnp.asarray(kappas))
    t = np.array([1, 2, 3, 18, 64])
    promise = algorithm.promised(server, t)
    assert promise is not None
    gains = [theory.acceleration(N, tau, x, 1.0).a for x in kappas]
    by_round = [-math.log1p(-gains[(k // 2).bit_length()]) / 2 for k in range(64)]
    np.testing.assert_allclose(promise.power, np.cumsum(by_round)[t - 1])


@pytest.mark.parametrize("times", [1.6, 2, 4, 16])
def test_a_kappa_that_is_too_large_is_named_with_a_better_one(times):
    kappa = times * RIGHT
    said = told(kappa, walk(kappa, 300))
    assert said.startswith(f"kappa = {kappa:.3g} may be a wrong setting")
    assert float(said.split("--set kappa=")[1].split(",")[0]) == pytest.approx(RIGHT, rel=0.2)
    assert "pointsaga" in said


@pytest.mark.parametrize("rounds", [140, 300])
@pytest.mark.parametrize("share", [1, 0.5, 0.25])
def test_a_kappa_that_is_right_or_small_is_not_in_doubt(share, rounds):
    n = round(rounds / math.sqrt(share))
    assert told(share * RIGHT, walk(share * RIGHT, n)) == ""


def test_a_gap_that_grows():
    said = told(RIGHT, np.linspace(1, 2, 300))
    assert 0 < float(said.split("--set kappa=")[1].split(",")[0]) < RIGHT / 10


def test_what_is_not_judged():
    """A short run; the last digits, where only rounding is left; lost uploads; steps of other
    lengths than the theorem's; a method that promises nothing."""
    slow = walk(4 * RIGHT, 300)
    assert told(4 * RIGHT, slow) != ""
    assert told(4 * RIGHT, slow[:60]) == ""
    assert told(RIGHT, np.append(walk(RIGHT, 600), np.full(600, 1e-15))) == ""
    assert told(4 * RIGHT, slow, who=Lossy(Everyone(2), 0.1)) == ""
    assert told(4 * RIGHT, slow, eta=0.9) == ""
    assert advice(federation(FedDCD(), Everyone(2)), None, recorded(slow), 1e-9) == ""


@pytest.mark.parametrize("rounds", [60, 150])
def test_a_target_that_was_not_reached_gets_an_estimate(rounds):
    gaps, target = walk(RIGHT, 1000), 1e-9
    reached = 1 + int(np.argmax(gaps <= target))
    said = told(RIGHT, gaps[:rounds], target)
    more = int(re.findall(r"about ([\d,]+) more rounds", said)[0])
    assert 0.7 < (reached - rounds) / more < 1.4
    assert told(RIGHT, gaps[: reached + 5], target) == ""


def diverging(said: str) -> Any:
    return pytest.warns(feddcd.DivergedWarning, match=said) if said else nullcontext()


FEW = {"clients": 5, "tau": 2, "rounds": 4, "certify_every": 2}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"algorithm": "fedavg", "settings": {"lr": 1e3}},
            r"objective was 1.0986 at the start.*A smaller step size usually helps: --set lr=\.",
        ),
        (
            {"algorithm": "fedqn", "l2": 0.0, "rounds": 40, "certify_every": 40},
            "predicts every training row correctly, and there is no penalty .l2 = 0.*--l2 1e-4",
        ),
        (
            {"algorithm": "pointsaga", "target_gap": 1e-30},
            "target gap 1e-30: after 4 rounds the certified gap is .*Rounding errors are larger",
        ),
        ({"algorithm": "pointsaga", "target_gap": 1e-9}, "gap 1e-09: after 4 .*More rounds may"),
        (
            {"algorithm": "fedavg", "target_gap": 1e-9},
            "With the method fedavg, the gap may stay above this target, .* use --algorithm fedqn",
        ),
        (
            {"algorithm": "scaffold", "rounds": 300, "settings": {"batch_size": 4, "lr": 0.5}}
            | {"target_gap": 1e-9},
            "The gap does not fall any more, so more rounds will not help: use --algorithm fedqn",
        ),
        (
            {"algorithm": "fedavg", "l2": 0.0, "target_gap": 1e-9},
            "because feddcd can prove a bound o",
        ),
        ({"algorithm": "fedqn", "model": "mlp:4"}, "FedQN is made for convex models"),
        ({"algorithm": "pointsaga", "target_gap": 10.0}, ""),
        ({"algorithm": "feddcd", "model": "mlp:4"}, ""),
    ],
)
def test_a_run_says_that_it_diverges_or_missed_its_target(options, said):
    with diverging("diverges" if "at the start" in said else ""):
        advice = feddcd.run("wine", **FEW | options).summary.get("advice", "")
    assert re.search(said, advice) if said else not advice


def test_python_warns_of_a_run_that_diverges_with_advice_in_its_own_words(tmp_path):
    """In the line of the caller, once for each run; what is printed stays short."""
    step = {"settings": {"lr": 1e3}}
    with pytest.warns(
        feddcd.DivergedWarning, match=r'^fedavg: .*settings=\{"lr": \.\.\.\}$'
    ) as told:
        result = feddcd.run("wine", algorithm="fedavg", out=tmp_path / "run", **FEW, **step)
    assert [one.filename for one in told] == [__file__]
    huge = result.certificate._replace(gap=1.4423e288)
    assert repr(dataclasses.replace(result, certificate=huge)).endswith("certified gap 1.5e288)")
    with pytest.warns(feddcd.DivergedWarning) as told:
        feddcd.resume(tmp_path / "run")
    assert [one.filename for one in told] == [__file__]
    named = r'settings=\{"fedavg": \{"lr": \.\.\.\}\}$'
    few = FEW | {"algorithms": ["fedavg", "mbsgd"], "settings": {"fedavg": step["settings"]}}
    with pytest.warns(feddcd.DivergedWarning, match=named) as told:
        feddcd.compare("wine", **few)
    assert [one.filename for one in told] == [__file__]
    with pytest.warns(feddcd.DivergedWarning) as told:
        feddcd.run("wine", algorithm="fedavg", seeds=2, **FEW, **step)
    assert [one.filename for one in told] == [__file__] * 2


def test_the_advice_for_python_has_no_option_of_the_command_line():
    said = in_python(
        "This can help: more clients in a round (--tau, now 5 of 20), a larger penalty (--l2, now "
        "0.1), a small penalty (for example --l2 1e-4) or another method (--algorithm fedqn)."
    )
    assert said == (
        "This can help: more clients in a round (tau, now 5 of 20), a larger penalty (l2, now "
        '0.1), a small penalty (for example l2=1e-4) or another method (algorithm="fedqn").'
    )


def test_a_gap_that_goes_up_and_down_is_flat_and_a_slow_one_is_not():
    k = np.arange(1, 41)
    assert _is_flat(1e-3 + 2e-4 * (-1.0) ** k)
    assert not _is_flat(1 / k)
    assert not _is_flat(0.98**k)
    assert not _is_flat(np.ones(4))


def test_the_advice_for_a_run_that_diverges_names_only_what_its_method_has():
    """FedNewton has no step size: with a part of the clients and no penalty it can run away."""
    some = {"data": "digits", "algorithm": "fednewton", "certify_every": 5, "rounds": 5}
    with pytest.warns(feddcd.DivergedWarning):
        found = feddcd.run(**some, l2=0.0).summary
    assert found["diverged"] is True
    assert "--set" not in found["advice"]
    assert "more clients in a round (--tau, now 5 of 20)" in found["advice"]
    assert "a small penalty (for example --l2 1e-4)" in found["advice"]
    assert "another method (--algorithm fedqn)" in found["advice"]
    assert "may be no finite optimum" in found["advice"]


def test_an_own_method_that_diverges_is_not_asked_for_a_setting_by_name():
    options = {"algorithm": FedAvg(SGD(lr=1e3)), "l2": 0.1}
    with pytest.warns(feddcd.DivergedWarning):
        found = feddcd.run("wine", **FEW, **options).summary["advice"]
    assert "a smaller step size (if the method has a step size), more clients in a round" in found
    assert "a larger penalty (--l2, now 0.1)" in found


@pytest.mark.parametrize(
    ("lr", "code"), [("1e3", "0"), ("1e300", "1")], ids=["large", "not finite"]
)
def test_in_a_comparison_the_advice_is_a_setting_of_the_method(lr, code, tmp_path, capsys):
    few = "--data wine --clients 5 --tau 2 --rounds 4 --certify-every 2 --algorithm fedavg"
    race = [*few.split(), "--set", f"fedavg.lr={lr}", "--out", str(tmp_path / lr)]
    with pytest.raises(SystemExit, match=code):
        main(["compare", *race])
    said = "".join(capsys.readouterr())
    assert "step size usually helps: --set fedavg.lr=..." in " ".join(said.split())
    once = [*few.split(), "--seeds", "1", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit, match="0"):  # of one method, too
        main(["run", *once, "--set", "fedavg.lr=0.1"])
    assert feddcd.Repeats.load(tmp_path / "run")[0]["fedavg"].spec.settings == {"lr": 0.1}


def test_in_a_comparison_a_refusal_names_a_setting_of_the_method():
    counts = {"data": (np.ones((8, 2)), np.arange(8)), "model": "poisson", "clients": 2}
    for methods in (["fedavg"], ["fedqn", "fedavg"]):
        with pytest.raises(ValueError, match=r"for example --set fedavg\.lr=0\.01"):
            feddcd.compare(**counts, algorithms=methods)


def test_a_run_that_diverges_has_an_exit_code_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])  # no pictures
    few = "--data wine --clients 5 --tau 2 --algorithm fedavg --rounds 4 --certify-every 2"
    for lr, code in (("0.01", "0"), ("1e3", "1"), ("1e300", "1")):
        with pytest.raises(SystemExit, match=code):
            main(["run", *few.split(), "--set", f"lr={lr}", "--out", str(tmp_path / lr)])
    with pytest.raises(SystemExit, match="0"):  # more rounds may help: it can go on
        main(["run", *few.split(), "--target-gap", "1e-9", "--out", str(tmp_path / "missed")])


def test_a_run_that_was_stopped_did_not_miss_its_target():
    stop = lambda progress: True
    found = feddcd.run("wine", algorithm="pointsaga", target_gap=1e-9, watch=stop, **FEW)
    assert "advice" not in found.summary


def test_the_command_prints_it_and_the_files_hold_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])  # no pictures
    options = "--data synthetic:n=60,d=4,groups=6 --model ridge --clients 6 --tau 3 --l2 0.01"
    options += " --algorithm accfeddcd --rounds 60 --set kappa=1"
    with pytest.raises(SystemExit, match="0"):
        main(["run", *options.split(), "--out", str(tmp_path / "run")])
    said = json.loads((tmp_path / "run" / "summary.json").read_text())["advice"]
    assert "kappa = 1 may be a wrong setting" in said
    assert f"accfeddcd: {said}" in capsys.readouterr().out
    assert "kappa = 1 may be a wrong setting" in (tmp_path / "run" / "report.html").read_text()
