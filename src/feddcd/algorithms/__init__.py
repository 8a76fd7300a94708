"""The federated algorithms, one file each, and the catalogue of their names."""

from .._settings import number as number
from .._settings import whole as whole
from .._settings import word as word
from ._base import AbstractAlgorithm as AbstractAlgorithm
from ._base import AbstractStateless as AbstractStateless
from ._base import Given as Given
from ._base import Method as Method
from ._base import Sends as Sends
from ._base import Stateless as Stateless
from ._base import Upload as Upload
from .accfeddcd import AccFedDCD as AccFedDCD
from .catalogue import ALGORITHMS as ALGORITHMS
from .fedavg import FedAvg as FedAvg
from .fedavg import FedProx as FedProx
from .feddcd import FedDCD as FedDCD
from .fednewton import FedNewton as FedNewton
from .mbsgd import MinibatchSGD as MinibatchSGD
from .pointsaga import PointSAGA as PointSAGA
from .scaffold import Scaffold as Scaffold
