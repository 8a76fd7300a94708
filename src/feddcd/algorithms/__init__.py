"""The federated algorithms, one file each."""

from ._base import AbstractAlgorithm as AbstractAlgorithm
from ._base import Upload as Upload
from .accfeddcd import AccFedDCD as AccFedDCD
from .fedavg import FedAvg as FedAvg
from .fedavg import FedProx as FedProx
from .feddcd import FedDCD as FedDCD
from .fednewton import FedNewton as FedNewton
from .mbsgd import MinibatchSGD as MinibatchSGD
from .pointsaga import PointSAGA as PointSAGA
from .scaffold import Scaffold as Scaffold

ALGORITHMS: dict[str, str] = {
    "feddcd": "federated dual coordinate descent, the paper's Algorithm 1",
    "accfeddcd": "the same with Nesterov's acceleration, Algorithm 2",
    "pointsaga": "proximal FedDCD: the fewest uploads of the dual methods",
    "fednewton": "Newton with remembered curvature; IRLS when everyone is present",
    "fedavg": "local SGD and averaging (biased when clients differ)",
    "fedprox": "FedAvg with a proximal term (biased when clients differ)",
    "scaffold": "local SGD corrected by control variates",
    "mbsgd": "one mini-batch gradient step a round",
}
