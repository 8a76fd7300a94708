"""What would not fit in memory is refused with its size, or done in a leaner way."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from feddcd import _memory, tree
from feddcd._errors import DataError
from feddcd.algorithms import FedQN
from feddcd.problems.design import stack_rows
from feddcd.simulator.threads import check_work


def parts(N, n):
    """One client with all rows but N - 1, which the others share."""
    return [np.arange(n - N + 1), *np.arange(n - N + 1, n)[:, None]]


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_clients_padded_to_the_largest_are_refused_before_they_are_made(monkeypatch, kind):
    X = kind(np.ones((40, 4)))
    monkeypatch.setattr(_memory, "free_memory", lambda: 3 << 10)
    with pytest.raises(
        DataError,
        match=r"rows of 20 clients .*are free.* has 21 rows, as many as the largest client",
    ):
        stack_rows(X, parts(20, 40), np.float64)
    monkeypatch.setattr(_memory, "free_memory", lambda: 1 << 20)
    assert stack_rows(X, parts(20, 40), np.float64).shape == (21, 4)


def test_free_memory_is_what_the_system_tells():
    free = _memory.free_memory()
    assert free is None or 2**20 < free < 2**50


def test_rounds_that_would_not_fit_are_refused_with_their_size(monkeypatch):
    size = SimpleNamespace(
        temp_size_in_bytes=3 << 30, output_size_in_bytes=2 << 30, alias_size_in_bytes=1 << 30
    )
    program = SimpleNamespace(compiled=SimpleNamespace(memory_analysis=lambda: size))
    monkeypatch.setattr(_memory, "free_memory", lambda: 5 << 30)
    check_work(program)
    with pytest.raises(
        DataError,
        match=(
            r"in addition to the data and the states of the clients, the rounds need 8 GiB of "
            r"memory, but only 5 GiB "
            "are free"
        ),
    ):
        check_work(program, program)


def test_fedqn_keeps_less_where_a_vector_is_large():
    def vectors(parameters):
        w = jax.ShapeDtypeStruct((parameters,), jnp.float32)
        server = jax.eval_shape(lambda w: FedQN(w).init_server(w), w)
        return tree.nbytes(server) / (4 * parameters)

    assert vectors(2 * 47_236) > 520  # 100 pairs, kept in five arrays, and 20 factors
    assert vectors(62_061 * 20) < 80
