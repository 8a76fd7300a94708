"""The objectives f_i."""

from .._extras import needs

with needs("train"):
    from ._base import AbstractProblem as AbstractProblem
    from ._base import curvature as curvature

from .design import AbstractDesign as AbstractDesign
from .design import Dense as Dense
from .design import Sparse as Sparse
from .design import gram as gram
from .design import rows_of as rows_of
from .design import stack as stack
from .design import stack_rows as stack_rows
from .family import FAMILIES as FAMILIES
from .family import AbstractCanonical as AbstractCanonical
from .family import AbstractFamily as AbstractFamily
from .family import BaseSoftmax as BaseSoftmax
from .family import Targets as Targets
from .groups import Clients as Clients
from .groups import Stacks as Stacks
from .groups import each as each
from .groups import grouped as grouped
from .groups import of_client as of_client
from .groups import of_some as of_some
from .groups import size_groups as size_groups
from .groups import stacks_of as stacks_of
from .groups import summed as summed
from .groups import with_stacks as with_stacks
from .quadratic import Quadratic as Quadratic
from .quadratic import optimum as optimum
from .quadratic import random_quadratics as random_quadratics
from .quadratic import worst_case_chain as worst_case_chain
from .samples import MLP as MLP
from .samples import AbstractSamples as AbstractSamples
from .samples import Architecture as Architecture
from .samples import Gram as Gram
from .samples import Linear as Linear
from .samples import Network as Network
from .samples import Regression as Regression
from .samples import mlp_params as mlp_params
