"""The data matrix X of a client, dense or sparse, as the few products that are needed."""

import abc
from collections.abc import Sequence
from functools import singledispatch

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float, Int

from .._memory import check_fits
from .._types import Scalar

RUN = 8  # entries that are summed before they meet those of the same row


class AbstractDesign(eqx.Module):
    """X, n rows by d columns; a padding row is zero."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, d) of one client."""

    @abc.abstractmethod
    def matmul(self, W: Float[Array, "d k"]) -> Float[Array, "n k"]:
        """X W."""

    @abc.abstractmethod
    def add_rmatmul(
        self, a: Scalar, R: Float[Array, "n k"], V: Float[Array, "d k"]
    ) -> Float[Array, "d k"]:
        """V + a X' R, at the cost of X's non-zeros."""

    @abc.abstractmethod
    def take(self, rows: Int[Array, " b"]) -> "AbstractDesign":
        """Some rows of X; a row out of range is zero."""

    def rmatmul(self, R: Float[Array, "n k"]) -> Float[Array, "d k"]:
        """X' R."""
        zero = jnp.zeros((self.shape[1], R.shape[1]), R.dtype)
        return self.add_rmatmul(jnp.ones((), R.dtype), R, zero)


class Dense(AbstractDesign):
    X: Float[Array, "*N n d"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[-2], self.X.shape[-1]

    def matmul(self, W):
        return self.X @ W

    def add_rmatmul(self, a, R, V):
        if jax.default_backend() != "cpu":
            return V + a * (self.X.T @ R)
        # k by n times n by d is twice as fast there, and without the barriers XLA turns it round
        keep = jax.lax.optimization_barrier
        return V + a * keep(keep(R.T) @ self.X).T

    def take(self, rows):
        return Dense(rows_of(self.X, rows))


class Sparse(AbstractDesign):
    """Compressed rows, in runs of RUN entries of one row, padded to one length for all clients."""

    values: Float[Array, "*N nnz"]
    columns: Int[Array, "*N nnz"]  # d for padding
    owners: Int[Array, "*N runs"]  # the row of each run, ascending; n for padding
    starts: Int[Array, "*N n_plus_1"]
    d: int = eqx.field(static=True)
    widest: int = eqx.field(static=True)  # most non-zeros in a row

    @property
    def shape(self) -> tuple[int, int]:
        return self.starts.shape[-1] - 1, self.d

    def matmul(self, W):
        near = W.at[self.columns].get(mode="clip", wrap_negative_indices=False)
        products = self.values[:, None] * near
        if jax.default_backend() == "cpu":
            owners = jnp.repeat(self.owners, RUN)
            return jax.ops.segment_sum(products, owners, self.shape[0], indices_are_sorted=True)
        runs, starts = products.reshape(-1, RUN, W.shape[1]), self.starts // RUN
        place = starts[:-1, None] + jnp.arange(-(-self.widest // RUN))
        place = jnp.where(place < starts[1:, None], place, len(runs))
        return jnp.sum(rows_of(jnp.sum(runs, 1), place), 1)  # a scatter's sums collide there

    def add_rmatmul(self, a, R, V):
        values = (a * self.values).reshape(-1, RUN, 1)
        products = (values * rows_of(R, self.owners)[:, None]).reshape(-1, R.shape[1])
        return V.at[self.columns].add(products, mode="drop", wrap_negative_indices=False)

    def take(self, rows):
        place = rows_of(self.starts, rows)[:, None] + jnp.arange(self.widest)
        inside = place < rows_of(self.starts, rows + 1)[:, None]
        place = jnp.where(inside, place, self.values.shape[-1])
        columns = self.columns.at[place].get(mode="fill", fill_value=self.d)
        return SparseRows(rows_of(self.values, place), columns, self.d)


class SparseRows(AbstractDesign):
    """A few sparse rows, each padded to the same number of non-zeros."""

    values: Float[Array, "b m"]
    columns: Int[Array, "b m"]  # d for padding, so that nothing piles up in a real column
    d: int = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[-2], self.d

    def matmul(self, W):
        return jnp.einsum("bm,bmk->bk", self.values, rows_of(W, self.columns))

    def add_rmatmul(self, a, R, V):
        products = a * self.values[:, :, None] * R[:, None, :]
        return V.at[self.columns].add(products, mode="drop")

    def take(self, rows):
        columns = self.columns.at[rows].get(mode="fill", fill_value=self.d)
        return SparseRows(rows_of(self.values, rows), columns, self.d)


def stack(blocks: Sequence[np.ndarray | scipy.sparse.csr_array], dtype: type) -> AbstractDesign:
    """The clients' matrices as one design with a leading axis, rows padded with zeros."""
    sparse = [scipy.sparse.csr_array(b) for b in blocks if scipy.sparse.issparse(b)]
    if sparse:
        return _stack_sparse(sparse, dtype)
    dense = [np.asarray(b) for b in blocks]
    return stack_rows(np.concatenate(dense), _runs([len(b) for b in dense]), dtype)


def stack_rows(
    X: np.ndarray | scipy.sparse.csr_array, parts: Sequence[np.ndarray], dtype: type
) -> AbstractDesign:
    """The same from one matrix and each client's rows of it, with one copy of the data."""
    if scipy.sparse.issparse(X):
        return _stack_sparse([scipy.sparse.csr_array(X[part]) for part in parts], dtype)
    rows = np.asarray(X)
    N, n, d = len(parts), max(map(len, parts)), rows.shape[1]
    _check_padded(N, n, N * n * d * np.dtype(dtype).itemsize)
    stacked = np.zeros((N, n, d), dtype)
    for i, part in enumerate(parts):
        stacked[i, : len(part)] = rows[part]
    return Dense(jax.device_put(stacked))


def _stack_sparse(blocks: Sequence[scipy.sparse.csr_array], dtype: type) -> Sparse:
    N, n = len(blocks), max(len(block.indptr) - 1 for block in blocks)
    d: int = blocks[0].shape[1]  # pyright: ignore
    lengths = np.zeros((N, n), int)
    for i, block in enumerate(blocks):
        lengths[i, : len(block.indptr) - 1] = np.diff(block.indptr)
    runs = -(-lengths // RUN)
    starts = np.pad(RUN * np.cumsum(runs, 1), ((0, 0), (1, 0)))
    nnz = max(RUN, int(starts[:, -1].max()))
    _check_padded(N, n, N * nnz * (np.dtype(dtype).itemsize + 4))
    values, columns = np.zeros((N, nnz), dtype), np.full((N, nnz), d, np.int32)
    owners = np.full((N, nnz // RUN), n, np.int32)
    for i, block in enumerate(blocks):
        owners[i, : runs[i].sum()] = np.repeat(np.arange(n), runs[i])
        first = np.cumsum(lengths[i]) - lengths[i]
        place = np.arange(block.nnz) + np.repeat(starts[i, :-1] - first, lengths[i])
        values[i, place], columns[i, place] = block.data, block.indices
    arrays = map(jax.device_put, (values, columns, owners, starts.astype(np.int32)))
    return Sparse(*arrays, d=d, widest=max(1, int(lengths.max())))  # pyright: ignore


def _check_padded(N: int, n: int, need: int) -> None:
    remedy = (
        "use fewer clients, clients with similar numbers of rows, or dtype = 'float32'. feddcd "
        f"adds rows of zeros to each client, until it has {n} rows, as many as the largest client"
    )
    check_fits(need, f"the rows of {N} clients", remedy)


def _runs(lengths: Sequence[int]) -> list[np.ndarray]:
    """Consecutive index ranges of the given lengths."""
    ends = np.cumsum(lengths)
    return [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]


@singledispatch
def gram(X: AbstractDesign) -> Float[Array, "N n n"]:
    """X X' of every client, once, outside jit."""
    raise TypeError(f"feddcd cannot compute a Gram matrix for {type(X).__name__}")


@gram.register
def _(X: Dense) -> Array:
    return _products(X.X)


@gram.register
def _(X: Sparse) -> Array:
    n, d = X.shape
    values, columns, starts = map(np.asarray, (X.values, X.columns, X.starts))
    columns = np.minimum(columns, d - 1)  # the padding's values are zero
    blocks = []
    for v, c, s in zip(values, columns, starts, strict=True):
        block = scipy.sparse.csr_array((v[: s[-1]], c[: s[-1]], s), shape=(n, d))
        blocks.append((block @ block.T).toarray())
    return jnp.asarray(np.stack(blocks))


@jax.jit
def _products(X: Float[Array, "N n d"]) -> Float[Array, "N n n"]:
    return jax.lax.map(lambda x: x @ x.T, X)


def rows_of(x: Array, i: Int[Array, "..."]) -> Array:
    """x[i], zero where i is out of range."""
    return x.at[i].get(mode="fill", fill_value=0)
