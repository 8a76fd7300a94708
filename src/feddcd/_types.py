"""Names for the things that travel through the library."""

from typing import TypeAlias

from ._extras import needs

with needs("train"):
    from jaxtyping import Array, Float, PRNGKeyArray, PyTree

Params: TypeAlias = PyTree[Float[Array, "..."]]
Scalar: TypeAlias = Float[Array, ""]
Key: TypeAlias = PRNGKeyArray
