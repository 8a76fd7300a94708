"""Linear models in scikit-learn's form, fitted over sites without pooling their rows."""

from .._extras import needs

with needs("train"):
    from .models import FederatedLogisticRegression as FederatedLogisticRegression
    from .models import FederatedPoissonRegressor as FederatedPoissonRegressor
    from .models import FederatedRidge as FederatedRidge
