"""What a theorem says of a run."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Promise(NamedTuple):
    """On average the error falls at least by exp(-power), if a constant is not too large. The power
    of a round goes with the constant's root, as in accelerated methods."""

    constant: str  # its name among the settings
    value: float  # which it has now
    power: Float[np.ndarray, " n"]
