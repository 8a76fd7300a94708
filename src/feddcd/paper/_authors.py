"""Which of the authors' published runs belongs to which cell."""

from collections.abc import Mapping

from .authors import AuthorsRun

# mean form, as in their code; the MLP's is the best value they ever saw
AUTHORS_OPTIMUM = {
    "mnist-softmax": 0.558481693,
    "rcv1-softmax": 0.418584773,
    "mnist-mlp": 0.504563,
}
_NAMES = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "Scaffold"}
_NAMES |= {"feddcd": "FedDCD", "accfeddcd": "AccFedDCD"}
_DUAL = ("feddcd", "accfeddcd")


def authors_run(
    problem: str, split: str, tau: int, algorithm: str, runs: Mapping[str, AuthorsRun] | None
) -> AuthorsRun | None:
    """The run behind the paper's number; None where there is none, or no files are at hand."""
    if runs is None or algorithm not in _NAMES:
        return None
    return runs.get(_name(problem, "two-class" if split == "two-class" else "iid", tau, algorithm))


def _name(problem: str, split: str, tau: int, algorithm: str) -> str:
    name, dual = _NAMES[algorithm], algorithm in _DUAL
    match (problem, split, tau):
        case ("mnist-softmax", "iid", 30):
            return f"exp1/{name}_logReg_{'' if dual else 'mnist_'}lambda1e-2"
        case ("mnist-softmax", "iid", 10):
            return f"exp2/{name}_logReg_mnist_lambda1e-2_tau1e-1"
        case ("rcv1-softmax", "iid", 30):
            return f"exp1/{name}_{'rcv1_lambda1e-3' if dual else 'logReg_rcv1_lambda1e-2'}"
        case ("rcv1-softmax", "iid", 10):
            middle = "rcv1_lambda1e-3" if dual else "logReg_rcv1_lambda1e-2"
            return f"exp2/{name}_{middle}_tau1e-1"
        case ("mnist-mlp", "iid", 30):
            return f"exp1/{name}_{'mnist_lambda1e-2' if dual else 'MLP_mnist_lambda1e-2_lr1e-1'}"
        case ("mnist-mlp", "iid", 10):
            return f"exp2/{name}_{'' if dual else 'MLP_'}mnist_lambda1e-2_tau1e-1"
        case ("mnist-softmax", "two-class", 30):
            if dual:
                return f"exp3/{name}_logReg_MNIST_niid"
            return f"exp3/{name}_logReg_mnist_lambda1e-2_noniid"
        case ("mnist-mlp", "two-class", 30):
            if dual:
                return f"exp3/{name}_MLP_MNIST_niid_sgd_locallr1e-1_lr1e-1"
            return f"exp3/{name}_MLP_mnist_lambda1e-2_lr1e-1_noniid_2nd"
    return ""
