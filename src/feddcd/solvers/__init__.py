"""How a client minimises its local problem."""

from .._extras import needs

with needs("train"):
    from ._base import AbstractFixedRateSolver as AbstractFixedRateSolver
    from ._base import AbstractLocalSolver as AbstractLocalSolver
    from ._base import AbstractStop as AbstractStop
    from ._base import InexactOracle as InexactOracle
    from ._base import LocalSolution as LocalSolution
    from ._base import Tolerance as Tolerance

from .catalogue import SOLVERS as SOLVERS
from .catalogue import Solver as Solver
from .first_order import SGD as SGD
from .first_order import GradientDescent as GradientDescent
from .first_order import Optax as Optax
from .first_order import adam as adam
from .lbfgs import LBFGS as LBFGS
from .newton import NewtonCG as NewtonCG
from .variance_reduced import SAGA as SAGA
from .variance_reduced import SVRG as SVRG
