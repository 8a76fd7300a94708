"""What the cells of one problem and split share: the clients' data and the optimum."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from .. import tree
from .._errors import Diverged
from .._files import write_atomically
from .._types import Params, Scalar
from ..algorithms import AbstractAlgorithm
from ..data import Dataset, load, partition
from ..data.federate import Federated, federate
from ..participation import UniformSubset
from ..problems import AbstractProblem, mlp_params
from ..runs.build import default_dtype
from ..runs.methods import check_names, make_algorithm
from ..runs.spec import Spec
from ..simulator.simulate import Federation, federation
from ..solvers import NewtonCG, Tolerance
from .cells import Cell
from .problems import PROBLEMS, is_mlp

OPTIMUM_TOLERANCE = 1e-9


@dataclass(eq=False)
class Bench:
    """One split for all seeds: a seed moves the cohorts, the batches and an MLP's start."""

    federated: Federated
    optimum: float  # or what stands in for it
    double: bool
    prepared: dict[str, AbstractProblem] = field(default_factory=dict)

    @classmethod
    def build(cls, problem: str, data: str, split: str, folder: Path) -> "Bench":
        kind = PROBLEMS[problem]
        spec = Spec(data=data, model=kind.model, l2=kind.l2)
        dtype = default_dtype(spec)
        double = dtype is np.float64
        with jax.enable_x64(double):
            rows = load(data)
            parts = partition(rows.y, split, kind.clients, X=rows.X)
            made = federate(rows, parts, model=kind.model, l2=kind.l2, dtype=dtype)
            if kind.reference is not None:
                return cls(made, kind.reference, double)
            key = f"optimum-{problem}-{data}-{split}-{_digest(rows, parts)}"
            best = _optimum(folder / "cells" / f"{key}.json", lambda: optimum(rows, parts, kind))
        return cls(made, best, double)

    def below(self, gap: float | None) -> float | None:
        """The objective at which the gap is reached."""
        return None if gap is None else self.optimum + gap

    def algorithm(self, cell: Cell) -> AbstractAlgorithm:
        spec = cell.spec()
        check_names(spec)
        return make_algorithm(spec, PROBLEMS[cell.problem].clients, cell.tau, self.federated)

    def federation(self, cell: Cell) -> Federation:
        algorithm = self.algorithm(cell)
        participation = UniformSubset(PROBLEMS[cell.problem].clients, cell.tau)
        problem, test = self.problem(algorithm), self.federated.test
        return federation(algorithm, problem, participation, seed=0, test=test)

    def problem(self, algorithm: AbstractAlgorithm) -> AbstractProblem:
        """The clients with what the local solver computes once, which is kept."""
        key = eqx.tree_pformat(getattr(algorithm, "solver", None))
        if key not in self.prepared:
            self.prepared[key] = algorithm.prepare(self.federated.problem)
        return self.prepared[key]

    def start(self, cell: Cell, seed: int):
        """The first model: zero, or the seed's own random one."""
        w = self.federated.w
        if not is_mlp(cell.problem):
            return w
        widths = (w[0][0].shape[0], *(layer[0].shape[1] for layer in w))
        return mlp_params(widths, jax.random.key(seed), w[0][0].dtype)


def optimum(data: Dataset, parts: list[np.ndarray], kind) -> float:
    """min F/N, clients counted equally, by Newton's method on all rows together."""
    pooled = federate(data, [np.arange(len(data.y))], model=kind.model, l2=kind.l2)
    f = tree.first(pooled.problem)
    s = np.empty(len(data.y))
    for part in parts:
        s[part] = 1 / (len(part) * len(parts))
    f = eqx.tree_at(lambda f: f.s, f, jax.device_put(s))
    solver = NewtonCG(stop=Tolerance(OPTIMUM_TOLERANCE), space="parameters")
    value, grad_norm = _minimum(solver, f, pooled.w)
    if not grad_norm <= 1e3 * OPTIMUM_TOLERANCE:
        raise Diverged(f"no optimum for {data.name}: |gradient| = {grad_norm:.1e}")
    return float(value)


@eqx.filter_jit
def _minimum(solver: NewtonCG, f: AbstractProblem, w: Params) -> tuple[Scalar, Scalar]:
    """The least value of f, from w on, and how long the gradient is there."""
    w, grad_norm, _ = solver(f, w, jax.random.key(0))
    return f(w), grad_norm


def _optimum(file: Path, compute) -> float:
    if file.exists():
        return float(json.loads(file.read_text())["optimum"])
    value = compute()
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"optimum": value})
    write_atomically(file, lambda path: path.write_text(text + "\n"))
    return value


def _digest(data: Dataset, parts: list[np.ndarray]) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(data.y).data)
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:10]
