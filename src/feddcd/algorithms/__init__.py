"""The federated algorithms, one file each, and the catalogue of their names."""

from .._extras import needs
from .._settings import number as number
from .._settings import whole as whole
from .._settings import word as word

with needs("train"):
    from ._base import AbstractAlgorithm as AbstractAlgorithm
    from ._base import AbstractStateless as AbstractStateless
    from ._base import Given as Given
    from ._base import Method as Method
    from ._base import Sends as Sends
    from ._base import Stateless as Stateless
    from ._base import Upload as Upload

from ._coding import BITS as BITS
from ._coding import Bits as Bits
from ._coding import Coded as Coded
from ._coding import Extra as Extra
from ._coding import arrived as arrived
from ._coding import code as code
from ._coding import extra_bytes as extra_bytes
from ._coding import extra_sent as extra_sent
from ._coding import filled as filled
from ._coding import no_parts as no_parts
from ._coding import opened as opened
from ._coding import opened_now as opened_now
from ._coding import parts_of as parts_of
from ._coding import travelling as travelling
from ._coding import usual_bytes as usual_bytes
from ._coding import with_parts as with_parts
from ._promise import Promise as Promise
from ._recalling import AbstractRecalling as AbstractRecalling
from ._recalling import Recalled as Recalled
from ._recalling import first_mean as first_mean
from ._shortened import Shortened as Shortened
from ._shortened import in_bits as in_bits
from .accfeddcd import AccFedDCD as AccFedDCD
from .accsdane import AccSDANE as AccSDANE
from .catalogue import ALGORITHMS as ALGORITHMS
from .fedadmm import FedADMM as FedADMM
from .fedavg import FedAvg as FedAvg
from .fedavg import FedProx as FedProx
from .feddcd import FedDCD as FedDCD
from .feddualavg import FedDualAvg as FedDualAvg
from .feddyn import FedDyn as FedDyn
from .fedlbfgs import FedLBFGS as FedLBFGS
from .fednewton import FedNewton as FedNewton
from .fednlpp import FedNLPP as FedNLPP
from .fedqn import FedQN as FedQN
from .fivegcs import FiveGCS as FiveGCS
from .giant import Giant as Giant
from .mbsgd import MinibatchSGD as MinibatchSGD
from .mime import Mime as Mime
from .pointsaga import PointSAGA as PointSAGA
from .scaffnew import Scaffnew as Scaffnew
from .scaffold import Scaffold as Scaffold
from .sdane import SDANE as SDANE
from .tamuna import Tamuna as Tamuna
