"""Random numbers from a seed."""

from __future__ import annotations

import numpy as np

from .._errors import DataError


def generator(seed: int) -> np.random.Generator:
    """A generator for this seed, a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"seed must be a whole number >= 0, got {seed!r}")
    return np.random.default_rng(int(seed))
