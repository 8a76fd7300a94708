"""Mistakes in a method of the user's own: one round without numbers, on a problem of a few rows,
says them before the race; and later errors name the file of the method."""

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import equinox as eqx
import jax
import numpy as np

from .._errors import FeddcdError, SpecError
from ..algorithms import Given, Method
from ..algorithms.catalogue import get_method
from ..data import Dataset
from ..runs.build import Built, Inputs, build
from ..runs.interrupt import Interrupted
from ..runs.sizes import message_sizes
from ..runs.spec import Spec
from ..simulator.simulate import one_round, start
from .methods import file_of

N, ROWS, COLUMNS = 3, 4, 3


def try_methods(names: Iterable[str], model: str) -> None:
    for name in names:
        with named(name):
            try:
                _try(name, model)
            except FeddcdError as error:
                raise SpecError(f"{file_of(name)}: {error}") from None


@contextmanager
def named(method: str) -> Iterator[None]:
    """Errors of a method from a file name the file, and the last of its lines that ran."""
    try:
        yield
    except (FeddcdError, FloatingPointError, Interrupted):
        raise
    except Exception as error:  # whatever it is, it is the user's
        if (file := file_of(method)) is None:
            raise
        steps = [x for x in traceback.extract_tb(error.__traceback__) if x.filename == str(file)]
        where = f", line {steps[-1].lineno}, in {steps[-1].name}" if steps else ""
        said = str(error).partition("\n")[0]
        raise SpecError(f"{file}{where}: {type(error).__name__}: {said}") from error


def _try(name: str, model: str) -> None:
    with jax.enable_x64(True):
        built = _built(name, model)
        fed, w = built.federation, built.federated.w
        _check_settings(get_method(name), w)
        message_sizes(fed, w)
        state = start(fed, w)
        eqx.filter_eval_shape(lambda state: one_round(fed, state), state)
        fed.algorithm.chosen(state.server)


def _built(name: str, model: str) -> Built:
    y = np.arange(N * ROWS) % 2
    X = np.random.default_rng(0).normal(size=(len(y), COLUMNS))
    spec = Spec(
        data="trial", model=model, l2=0.1, partition="parts", clients=N, tau=N, algorithm=name,
        participation="everyone", given=("data", "parts"),
    )  # fmt: skip
    data = Dataset("trial", X, y.astype(float))
    return build(spec, Inputs(data=data, parts=np.split(np.arange(len(y)), N)))


def _check_settings(row: Method, w) -> None:
    """Each setting of the row must be one that its class takes."""
    for name, limit in row.settings.items():
        try:
            row.make(Given({name: limit(name, 1)}, None, N, N, w, False, 0.1))
        except SpecError:  # 1 is no value of it
            continue
        except TypeError as error:
            if "unexpected keyword" in str(error):
                raise SpecError(
                    f"the method {row.name!r} has the setting {name!r}, but its class "
                    f"{row.algorithm.__name__} has no field {name!r}"
                ) from None
