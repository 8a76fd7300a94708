"""Linear models in scikit-learn's form, fitted over sites without pooling their rows."""

from .logistic import FederatedLogisticRegression as FederatedLogisticRegression
from .poisson import FederatedPoissonRegressor as FederatedPoissonRegressor
from .ridge import FederatedRidge as FederatedRidge
