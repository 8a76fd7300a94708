"""Run one method: chunks of rounds, certificates and files between them."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .._errors import Diverged
from .._files import write_atomically
from ..history import COLUMNS, History
from ..measure import certify, is_convex
from ..simulator.simulate import Federation, Record, start
from ..simulator.threads import compiled
from . import folder as disk
from ._advice import advice
from ._ending import Ending, ending, remedy, unproven
from ._inputs import Inputs
from .auto import shown
from .build import NOTHING, Built, build, choose_dtype
from .interrupt import patient_interrupt
from .result import Certified, Result
from .sizes import bits_of, message_sizes
from .spec import Spec, errors_of, of_method

SAVE_EVERY_S = 5.0
SHARED = 64  # rounds at a time, up to which the length of a run is no part of its program


class Progress(NamedTuple):
    round: int
    rounds: int
    objective: float
    certified_gap: float
    rows: list[dict[str, float]]  # of history.csv, since the last time


Watcher = Callable[[Progress], object]  # True stops the run


def execute(
    spec: Spec,
    *,
    folder: Path | None = None,
    resume: bool = False,
    watch: Watcher = lambda progress: None,
    given: Inputs = NOTHING,
    label: str | None = None,
    chosen: Callable[[str, str], object] = lambda method, why: None,
) -> Result:
    """Runs `spec` in its own precision, without touching JAX's configuration; `given` are the
    objects that it can only name, `label` what the method is called in tables, and `chosen` hears
    at the start which method `auto` took, and why."""
    with jax.enable_x64(choose_dtype(spec, given) is np.float64):
        began = time.perf_counter()
        with errors_of(label):
            built = build(spec, given)
        spec = built.spec
        if folder is not None and not resume:
            disk.create(folder, spec)
        if built.why:
            chosen(spec.algorithm, built.why)
        run = RunLoop(built, folder, given, label)
        if folder is not None and resume:
            run.restore(folder)
            if spec.rounds >= run.history.rounds:  # else nothing runs, and nothing changes
                write_atomically(folder / "config.toml", spec.save)
        run.seconds["setup"] = time.perf_counter() - began
        return run.to_the_end(watch)


class RunLoop:
    """The host's side of a run."""

    def __init__(self, built: Built, folder: Path | None, given: Inputs, label: str | None):
        self.spec, self.built, self.folder = built.spec, built, folder
        self.given, self.label, self.name = given, label, shown(label, self.spec.algorithm)
        self.fed: Federation = built.federation
        self.state = start(self.fed, built.federated.w)
        self.history, self.lower_bound = History.empty(), -math.inf
        self.bytes = message_sizes(self.fed, built.federated.w)
        self.seconds = {"setup": 0.0, "compile": 0.0}
        self.worst_solve, self.status, self.why = 0.0, "finished", built.why
        self.saved_at = time.perf_counter()
        self.origin = disk.origin(built)

    def restore(self, folder: Path) -> None:
        self.state, known = disk.load_checkpoint(folder, self.spec, self.state, self.origin)
        self.worst_solve, self.why = known.get("worst", 0.0), known.get("why", self.why)
        history, done = disk.read_history(folder), int(self.state.t)
        if history.rounds < done:
            raise disk.FolderError(
                f"{folder}: history.csv ends at round {history.rounds}, but the checkpoint "
                f"is at round {done}, so the run cannot continue. Start the run again from "
                f"{folder / 'config.toml'}"
            )
        self.history = History({name: column[:done] for name, column in history.items()})
        self.lower_bound = float(np.nanmax(np.append(self.history["lower_bound"], -np.inf)))

    def to_the_end(self, watch: Watcher) -> Result:
        every, at = self.spec.certify_every, self.history.rounds
        # runs of other lengths share the program: rows that are not used cost little
        room = every if every <= SHARED else min(every, self.spec.rounds)
        asked, more = False, self.spec.rounds >= at
        with patient_interrupt() as stop:
            began = time.perf_counter()
            advance = compiled(self.fed, self.state, room)
            self.seconds["compile"] = time.perf_counter() - began
            while at < self.spec.rounds and not self._reached() and not (asked or stop()):
                began = time.perf_counter()
                rounds = min(every - at % every, self.spec.rounds - at)
                self.state, trace, sound = advance(self.fed, self.state, rounds)
                self._record(trace, sound, time.perf_counter() - began)
                if not sound:
                    self._give_up()
                self._certify()
                asked = self._watched(watch, at)
                at = self.history.rounds
                self._save(at_once=False)
            early = at < self.spec.rounds and not self._reached()
            self.status = "stopped" if (asked or stop()) and early else "finished"
            result = self._result()
            if more:
                self._save(at_once=True)
            if more and self.folder is not None:
                result.write(self.folder)
        return result

    def _watched(self, watch: Watcher, told: int) -> bool:
        """Whether the watcher wants to stop. If it raises, the run is saved and can go on."""
        try:
            return watch(self._progress(told)) is True
        except BaseException:
            self._save(at_once=True)
            raise

    def _reached(self) -> bool:
        target = self.spec.target_gap
        return target is not None and self.history.last("certified_gap") <= target

    def _record(self, trace: Record, sound: bool, seconds: float) -> None:
        """Append the rounds of a chunk; a last one that is not finite is left out."""
        before = self.history.rounds
        n = int(self.state.t) - before - (not sound)
        asked, arrived, steps, extra, worst, objective, score, residual = (
            np.asarray(column, float)[:n] for column in trace[:-1]
        )
        last = lambda name: float(self.history[name][-1]) if before else 0.0
        rounds = before + 1 + np.arange(n)
        nothing = np.full(n, np.nan)
        columns = {
            "round": rounds,
            "iteration": -(-rounds // self.fed.algorithm.rounds_per_iteration),
            "uploads": last("uploads") + np.cumsum(arrived),
            "bytes_up": last("bytes_up") + np.cumsum(arrived * self.bytes.up + extra),
            "bytes_down": last("bytes_down")
            + np.cumsum(asked * self.bytes.down + arrived * self.bytes.answer),
            "objective": objective,
            "lower_bound": nothing,
            "certified_gap": nothing.copy(),
            "accuracy": score if self.given.own_model else np.minimum(score, 1.0),  # sums round
            "dual_residual": residual,
            "solver_steps": last("solver_steps") + np.cumsum(steps),
            "seconds": last("seconds") + seconds * (1 + np.arange(n)) / max(n, 1),
        }
        self.history = self.history.plus(History({k: columns[k] for k in COLUMNS}))
        self.worst_solve = float(max([self.worst_solve, *worst]))

    def _certify(self) -> None:
        """The proven gap at the end of a chunk, from one exchange with everyone."""
        if not is_convex(self.built.federated.problem) or not self.history.rounds:
            return
        algorithm, problem = self.fed.algorithm, self.built.federated.problem
        points = algorithm.witness(self.state.clients)
        found = certify(problem, algorithm.model(self.state.server), points)
        self.lower_bound = max(self.lower_bound, float(found.lower_bound))
        if math.isfinite(self.lower_bound):
            objective = self.history["objective"][-1]
            if math.isnan(objective):  # it was not the round's turn to be looked at
                objective = self.history["objective"][-1] = float(found.objective)
            self.history["lower_bound"][-1] = self.lower_bound
            self.history["certified_gap"][-1] = max(objective - self.lower_bound, 0.0)

    def _progress(self, told: int) -> Progress:
        history, last = self.history, self.history.last
        now = (history.rounds, self.spec.rounds, last("objective"), last("certified_gap"))
        return Progress(*now, history.rows(told))

    def _save(self, *, at_once: bool) -> None:
        now = time.perf_counter()
        if self.folder is None or (not at_once and now - self.saved_at < SAVE_EVERY_S):
            return
        write_atomically(self.folder / "history.csv", self.history.save)
        known = {"worst": self.worst_solve, "why": self.why}
        disk.save_checkpoint(self.folder, self.spec, self.state, self.origin, known)
        self.saved_at = now

    def _give_up(self) -> None:
        if self.folder is not None:
            write_atomically(self.folder / "history.csv", self.history.save)
        where = f"; the folder {str(self.folder)!r} has the earlier rounds" if self.folder else ""
        raise Diverged(
            f"{self.name}: the objective is not finite after round "
            f"{self.history.rounds + 1}{where}. "
            f"{of_method(remedy(self.built, self.given), self.label)}"
        )

    def _result(self) -> Result:
        last = self.history.last
        numbers = (last("objective"), last("lower_bound"), last("certified_gap"))
        certificate = Certified(*numbers, self._unproven())
        w = jax.tree.map(np.asarray, self.fed.algorithm.model(self.state.server))
        federated, names = self.built.federated, self.built.names
        model, summary = federated.assemble(w), self._summary()
        return Result(
            self.spec, self.history, model, certificate, summary, federated.classes, names
        )

    def _summary(self) -> dict[str, Any]:
        counts = ("uploads", "bytes_up", "bytes_down", "solver_steps")
        values = ("objective", "lower_bound", "certified_gap", "accuracy", "dual_residual")
        test = self.built.federated.test is not None
        certificates = int(np.sum(~np.isnan(self.history["lower_bound"])))
        chosen = self.fed.algorithm.chosen(self.state.server)
        said = advice(self.fed, self.state.server, self.history, self.spec.target_gap)
        end = self._ending()
        said = of_method(said or end.said, self.label)
        return {
            "algorithm": self.name,
            **({"why": self.why} if self.why else {}),
            **({"advice": said} if said else {}),
            **({"diverged": True} if end.diverged else {}),
            **({"unproven": why} if (why := self._unproven()) else {}),
            "status": self.status,
            "rounds": self.history.rounds,
            "iterations": int(self.history["iteration"][-1]) if self.history.rounds else 0,
            **{name: int(self.history[name][-1]) if self.history.rounds else 0 for name in counts},
            **{name: _number(self.history.last(name)) for name in values},
            "accuracy_of": f"{'test' if test else 'training'} data",
            "accuracy_is": self._score_means(),
            "seconds": self.history.last("seconds") if self.history.rounds else 0.0,
            "seconds_setup": self.seconds["setup"],
            "seconds_compile": self.seconds["compile"],
            "clients": self.built.N,
            "tau": self.built.tau,
            "bits": bits_of(self.fed.algorithm, self.built.federated.w),
            "certificates": certificates,
            "certificate_uploads": certificates * self.built.N,
            "certificate_bytes_up": certificates * self.built.N * self.bytes.certificate,
            "worst_local_gradient": _number(self.worst_solve),
            **{name: _number(float(value)) for name, value in chosen.items()},
        }  # fmt: skip

    def _ending(self) -> Ending:
        return ending(
            self.built, self.given, self.history, self.fed.algorithm.model(self.state.server),
            unproven=self._unproven(), start=self._start,
            target=self.spec.target_gap if self.status == "finished" else None,
        )  # fmt: skip

    def _start(self) -> float:
        """The objective of the first model, by the program that makes certificates."""
        algorithm = self.fed.algorithm
        model = algorithm.model(algorithm.init_server(self.built.federated.w))
        points = algorithm.witness(self.state.clients)
        return float(certify(self.built.federated.problem, model, points).objective)

    def _unproven(self) -> str:
        proven = math.isfinite(self.lower_bound)
        return "" if proven else unproven(self.history, self.built.federated.problem)

    def _score_means(self) -> str:
        if self.given.own_model:
            return f"score of {self.spec.model}"
        labels = self.built.federated.classes is not None
        return "share of right labels" if labels else "share of the deviance explained"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
