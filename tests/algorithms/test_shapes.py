"""The shapes in annotations are the shapes that are there: jaxtyping and beartype look at every
call while rounds are traced. Nothing is compiled or run, so all of it takes seconds.

The hook has to be there before the package, hence another process:
`python tests/algorithms/test_shapes.py all`.
"""

import subprocess
import sys

import pytest

PURE = ("tree", "problems", "solvers", "algorithms", "participation", "measure", "simulator")
CASES = (  # algorithm, settings, model, participation
    ("feddcd", {}, "softmax", "uniform"),
    ("feddcd", {"solver": "gd", "delta": 0.2, "eta": 0.25}, "logistic", "importance"),
    ("feddcd", {"solver": "lbfgs"}, "poisson", "uniform"),
    ("feddcd", {"solver": "adam", "lr": 0.01, "start": "own"}, "mlp:3", "uniform"),
    ("accfeddcd", {"solver": "svrg"}, "logistic", "uniform"),
    ("pointsaga", {"solver": "saga"}, "ridge", "available:0.5"),
    ("fednewton", {}, "softmax", "everyone"),
    ("fedqn", {}, "poisson", "available:0.5"),
    ("fedavg", {"lr": 0.1}, "softmax", "uniform"),
    ("fedprox", {"lr": 0.1, "batch_size": 2}, "mlp:3", "uniform"),
    ("scaffold", {"lr": 0.1}, "softmax", "uniform"),
    ("mbsgd", {"lr": 0.1}, "ridge", "uniform"),
)
SOME = (9, 4)  # of these; all in `make chaos`
FIELD = (
    ("fedqn", {"bits": 64}, "softmax", "uniform"),
    ("feddyn", {"solver": "gd"}, "ridge", "uniform"),
    ("fedadmm", {"solver": "gd"}, "ridge", "uniform"),
    ("fivegcs", {"solver": "gd"}, "ridge", "uniform"),
    ("tamuna", {"s": 2}, "softmax", "uniform"),
    ("scaffnew", {}, "ridge", "everyone"),
    ("fednlpp", {}, "softmax", "uniform"),
    ("giant", {}, "softmax", "everyone"),
    ("fedlbfgs", {}, "softmax", "everyone"),
    ("sdane", {"solver": "gd"}, "ridge", "everyone"),
    ("accsdane", {"solver": "gd"}, "ridge", "everyone"),
    ("mime", {"solver": "gd"}, "softmax", "uniform"),
    ("feddualavg", {}, "ridge", "uniform"),
)


@pytest.mark.parametrize("which", ["some", pytest.param("all", marks=pytest.mark.chaos)])
def test_shapes_are_as_annotated(which):
    done = subprocess.run([sys.executable, __file__, which], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_algorithm_and_solver_is_looked_at():
    from feddcd.algorithms import ALGORITHMS
    from feddcd.solvers import SOLVERS

    assert {name for name, *_ in CASES + FIELD} == set(ALGORITHMS)
    usual = {"newton", "sgd"}  # of feddcd and of fedavg
    assert usual | {case[1]["solver"] for case in CASES if "solver" in case[1]} == set(SOLVERS)


def checked(function):
    """beartype, with whole numbers where numbers go; it cannot follow `Self` outside of classes."""
    from beartype import BeartypeConf, beartype
    from beartype.roar import BeartypeDecorHintPep673Exception

    try:
        return beartype(conf=BeartypeConf(is_pep484_tower=True))(function)
    except BeartypeDecorHintPep673Exception:
        return function


def main() -> None:
    from jaxtyping import TypeCheckError, install_import_hook

    install_import_hook([f"feddcd.{name}" for name in PURE], "test_shapes.checked")
    import equinox as eqx
    import jax
    import numpy as np
    from scipy.sparse import csr_array

    from feddcd import tree
    from feddcd.data import Dataset
    from feddcd.measure import certify
    from feddcd.runs._inputs import Inputs
    from feddcd.runs.build import build
    from feddcd.runs.spec import Spec
    from feddcd.simulator.simulate import one_round, start

    try:
        tree.axpy(np.ones(2), 1.0, 2.0)
    except TypeCheckError:
        pass
    else:
        sys.exit("nothing is checked")
    jax.config.update("jax_enable_x64", True)
    chosen = CASES + FIELD if sys.argv[1] == "all" else [CASES[k] for k in SOME]
    X = np.random.default_rng(0).standard_normal((12, 4))
    for number, (algorithm, settings, model, participation) in enumerate(chosen):
        rows = csr_array(np.where(X > 0, X, 0.0)) if number % 2 else X
        data = Dataset("tiny", rows, np.arange(12) % 2).with_test(rows, np.arange(12) % 2)
        spec = Spec(
            algorithm=algorithm, settings=settings, model=model, participation=participation,
            clients=4, tau=None if participation in ("everyone", "available:0.5") else 3,
        )  # fmt: skip
        made = build(spec, Inputs(data=data))
        state = eqx.filter_eval_shape(start, made.federation, made.federated.w)
        eqx.filter_eval_shape(one_round, made.federation, state)
        if made.federated.problem.convex:
            eqx.filter_eval_shape(certify, made.federated.problem, made.federated.w, None)


if __name__ == "__main__":
    main()
