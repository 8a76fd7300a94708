"""How a client minimises its local problem."""

from ._base import AbstractFixedRateSolver as AbstractFixedRateSolver
from ._base import AbstractLocalSolver as AbstractLocalSolver
from ._base import AbstractStop as AbstractStop
from ._base import InexactOracle as InexactOracle
from ._base import LocalSolution as LocalSolution
from ._base import Tolerance as Tolerance
from .gradient_descent import GradientDescent as GradientDescent
from .lbfgs import LBFGS as LBFGS
from .newton import NewtonCG as NewtonCG
from .stochastic import SGD as SGD
from .stochastic import Optax as Optax
from .stochastic import adam as adam
from .variance_reduced import SAGA as SAGA
from .variance_reduced import SVRG as SVRG

SOLVERS: dict[str, str] = {
    "newton": "Newton's method, directions by conjugate gradients: exact",
    "gd": "gradient descent: full gradients, one step length",
    "lbfgs": "L-BFGS with a line search: exact, for any smooth model",
    "sgd": "mini-batch SGD, one step length: a few epochs, not exact",
    "adam": "Adam on mini-batches (any optax optimizer works): not exact",
    "svrg": "variance-reduced SGD with a full gradient an epoch: to any accuracy",
    "saga": "variance-reduced SGD with one stored prediction a row, linear models: to any accuracy",
}
