"""How coefficients enter the rows: z of each row, and sums over rows by coefficient.

`Shared`: all columns of z have the same columns of X, as one family has one, and classes several.
`Arms`: each column of z has its own columns of X and all share the coefficients, w being d by 1, as
thresholds of an ordinal outcome or a parameter of the variance need it.
"""

from typing import NamedTuple, Protocol

import numpy as np

Array = np.ndarray


class Geometry(Protocol):
    def z(self, w: Array) -> Array: ...
    def moved(self, v: Array) -> Array:
        """By row: how far z is apart when w moves by v."""
        ...

    def size(self, w: Array) -> Array:
        """|X||w| in the shape of z: what cancels in it."""
        ...

    def gradient(self, v: Array, absolute: bool = False) -> Array: ...
    def scores(self, v: Array) -> Array:
        """Each row's part of the gradient, n by p."""
        ...

    def hessian(self, C: Array) -> Array: ...
    def leverage(self, V: Array, c: Array) -> Array:
        """By row: the largest c² x'Vx, V being symmetric, p by p; see `_sums`."""
        ...


class Shared(NamedTuple):
    X: Array
    offset: Array

    def z(self, w: Array) -> Array:
        return self.X @ w + self.offset[:, None]

    def moved(self, v: Array) -> Array:
        """max over pairs k, l of |z_k - z_l|, the base class at 0 included."""
        z = self.X @ v
        return np.maximum(np.max(z, 1), 0) - np.minimum(np.min(z, 1), 0)

    def size(self, w: Array) -> Array:
        return abs(self.X) @ abs(w)

    def gradient(self, v: Array, absolute: bool = False) -> Array:
        return ((abs(self.X) if absolute else self.X).T @ v).reshape(-1)

    def scores(self, v: Array) -> Array:
        return (self.X[:, :, None] * v[:, None, :]).reshape(len(v), -1)

    def hessian(self, C: Array) -> Array:
        """sum_j C_j (x) x_j x_j', p by p, the class running fastest."""
        X, d, k = self.X, self.X.shape[1], C.shape[1]
        H = np.empty((d, k, d, k))
        for a in range(k):
            for b in range(a + 1):
                H[:, a, :, b] = X.T @ (C[:, a, b, None] * X)
                H[:, b, :, a] = H[:, a, :, b]
        return H.reshape(d * k, d * k)

    def leverage(self, V: Array, c: Array) -> Array:
        X, d, k = self.X, self.X.shape[1], c.shape[1]
        V = V.reshape(d, k, d, k)
        T = np.zeros((len(X), k + 1, k + 1))  # the base class is the first
        for a in range(k):
            for b in range(k):
                T[:, a + 1, b + 1] = np.sum((X @ V[:, a, :, b]) * X, 1)
        own = np.diagonal(T, axis1=1, axis2=2)
        pairs = own[:, :, None] + own[:, None, :] - T - np.swapaxes(T, 1, 2)
        return np.max(c.max(1)[:, None, None] ** 2 * pairs, (1, 2), initial=0)


class Arms(NamedTuple):
    X: tuple[Array, ...]  # one for each column of z
    offset: Array  # in the shape of z

    def z(self, w: Array) -> Array:
        return np.column_stack([X @ w[:, 0] for X in self.X]) + self.offset

    def moved(self, v: Array) -> Array:
        return np.max([abs(X @ v[:, 0]) for X in self.X], 0)

    def size(self, w: Array) -> Array:
        return np.column_stack([abs(X) @ abs(w[:, 0]) for X in self.X])

    def gradient(self, v: Array, absolute: bool = False) -> Array:
        each = [abs(X) if absolute else X for X in self.X]
        return np.sum([X.T @ own for X, own in zip(each, v.T, strict=True)], 0)

    def scores(self, v: Array) -> Array:
        return np.sum([X * own[:, None] for X, own in zip(self.X, v.T, strict=True)], 0)

    def hessian(self, C: Array) -> Array:
        H = np.zeros((self.X[0].shape[1],) * 2)
        for a, left in enumerate(self.X):
            for b, right in enumerate(self.X):
                if C[:, a, b].any():
                    H += left.T @ (C[:, a, b, None] * right)
        return (H + H.T) / 2

    def leverage(self, V: Array, c: Array) -> Array:
        each = [np.sum((X @ V) * X, 1) for X in self.X]
        return np.max(c**2 * np.column_stack(each), 1, initial=0)
