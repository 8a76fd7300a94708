"""What scikit-learn gives to an estimator, and little of the same where it is not installed."""

import inspect
from typing import TYPE_CHECKING, Any, Self

from .._errors import SpecError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.exceptions import ConvergenceWarning as ConvergenceWarning
else:
    try:
        from sklearn.base import BaseEstimator
        from sklearn.exceptions import ConvergenceWarning
    except ModuleNotFoundError:

        class ConvergenceWarning(UserWarning):
            """The fit ended before it reached what was asked for."""

        class BaseEstimator:
            """Settings are the arguments of `__init__`, kept under the same names."""

            def get_params(self, deep: bool = True) -> dict[str, Any]:
                names = list(inspect.signature(type(self).__init__).parameters)[1:]
                return {name: getattr(self, name) for name in names}

            def set_params(self, **settings: Any) -> Self:
                known = self.get_params()
                for name, value in settings.items():
                    if name not in known:
                        raise SpecError(f"{type(self).__name__} has no setting {name!r}")
                    setattr(self, name, value)
                return self

            def __repr__(self) -> str:
                usual = inspect.signature(type(self).__init__).parameters
                changed = {
                    name: value
                    for name, value in self.get_params().items()
                    if value is not usual[name].default and value != usual[name].default
                }
                said = ", ".join(f"{name}={value!r}" for name, value in changed.items())
                return f"{type(self).__name__}({said})"
