"""What would not fit in memory is refused with its size, or done in a leaner way."""

import numpy as np
import pytest
import scipy.sparse

from feddcd import _memory
from feddcd._errors import DataError
from feddcd.problems.design import stack_rows


def parts(N, n):
    """One client with all rows but N - 1, which the others share."""
    return [np.arange(n - N + 1), *np.arange(n - N + 1, n)[:, None]]


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_clients_padded_to_the_largest_are_refused_before_they_are_made(monkeypatch, kind):
    X = kind(np.ones((40, 4)))
    monkeypatch.setattr(_memory, "free_memory", lambda: 3 << 10)
    with pytest.raises(DataError, match=r"20 clients, each padded to the 21 rows.*are free"):
        stack_rows(X, parts(20, 40), np.float64)
    monkeypatch.setattr(_memory, "free_memory", lambda: 1 << 20)
    assert stack_rows(X, parts(20, 40), np.float64).shape == (21, 4)


def test_free_memory_is_what_the_system_tells():
    free = _memory.free_memory()
    assert free is None or 2**20 < free < 2**50
