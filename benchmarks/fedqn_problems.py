"""The problems of benchmarks/fedqn_numpy.py: sums of losses over sites, in NumPy."""

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file


@dataclass
class Problem:
    """(1/n) sum_i l_i(w) + (l2/2)|w|², l_i the summed loss of site i; w is flat."""

    sites: list[tuple[np.ndarray, np.ndarray]]
    l2: float
    kind: str = "logistic"  # or ridge, poisson, softmax
    K: int = 1  # classes of softmax
    best: float = np.nan

    def __post_init__(self):
        self.rows = np.array([len(y) for _, y in self.sites], float)
        self.N, self.n = len(self.sites), self.rows.sum()
        self.d = self.sites[0][0].shape[1] * self.K

    def loss(self, i, w):
        """Value and gradient."""
        X, y = self.sites[i]
        z = X @ w.reshape(-1, self.K)
        if self.kind == "softmax":
            p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
            p[np.arange(len(y)), y] -= 1
            return np.sum(logsumexp(z, axis=1) - z[np.arange(len(y)), y]), (X.T @ p).ravel()
        z = z[:, 0]
        if self.kind == "logistic":
            return np.sum(np.logaddexp(0, z) - y * z), X.T @ (expit(z) - y)
        if self.kind == "ridge":
            return np.sum((z - y) ** 2) / 2, X.T @ (z - y)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sum(np.exp(z) - y * z), X.T @ (np.exp(z) - y)

    def hessian(self, i, w):
        X, _ = self.sites[i]
        z = X @ w.reshape(-1, self.K)
        if self.kind != "softmax":
            z = z[:, 0]
            q = {"logistic": expit(z) * expit(-z), "ridge": np.ones(len(z))}.get(self.kind)
            return (X * (np.exp(np.minimum(z, 500)) if q is None else q)[:, None]).T @ X
        p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
        H = np.zeros((X.shape[1], self.K) * 2)
        for a in range(self.K):
            for b in range(self.K):
                H[:, a, :, b] = (X * (p[:, a] * ((a == b) - p[:, b]))[:, None]).T @ X
        return H.reshape(self.d, self.d)

    def diagonal(self, i, w):
        """Of the Hessian."""
        X, _ = self.sites[i]
        z = X @ w.reshape(-1, self.K)
        if self.kind == "softmax":
            p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
            return ((X**2).T @ (p * (1 - p))).ravel()
        q = {"logistic": expit(z) * expit(-z), "ridge": np.ones_like(z)}.get(self.kind)
        return ((X**2).T @ (np.exp(z) if q is None else q))[:, 0]

    @cached_property
    def pool(self):
        """The same with all rows at one site."""
        X, y = (np.concatenate(parts) for parts in zip(*self.sites, strict=True))
        return Problem([(X, y)], self.l2, self.kind, self.K)

    def value(self, w):
        return self.pool.loss(0, w)[0] / self.n + self.l2 / 2 * w @ w

    def solved(self):
        """With its optimum, by Newton's method with a line search."""
        pool, w, eye = self.pool, np.zeros(self.d), np.eye(self.d)
        f = self.value(w)
        for _ in range(80):
            g = pool.loss(0, w)[1] / self.n + self.l2 * w
            H = pool.hessian(0, w) / self.n + self.l2 * eye
            s = np.sqrt(np.diag(H))
            lam, Q = np.linalg.eigh(H / s[:, None] / s)
            step = -(Q @ ((Q.T @ (g / s)) / np.maximum(lam, 1e-15))) / s
            t = 1.0
            while t > 1e-9 and not self.value(w + t * step) <= f + 1e-4 * t * (g @ step):
                t /= 2
            if t <= 1e-9 or -g @ step < 1e-16:
                break
            w = w + t * step
            f = self.value(w)
        self.best = f
        return self


@lru_cache
def _rows(name):
    if name == "breast-cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return np.c_[(X - X.mean(0)) / X.std(0), np.ones(len(y))], y.astype(float)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return np.c_[X / 16, np.ones(len(y))], y
    X, y = load_svmlight_file(str(Path(os.environ["FEDDCD_DATA"]) / f"{name}.bz2"))
    return X.toarray(), np.where(y == y.max(), 1.0, 0.0)


@lru_cache
def _best(name, l2):
    return known(name, "iid", l2, 1, best=False).solved().best


def known(name, how, l2, N=50, best=True):
    """A data set shared among N sites, at random or sorted by label."""
    if name == "synthetic":
        return mixed(N, 60, l2).solved()
    X, y = _rows(name)
    iid = how == "iid"
    order = np.random.default_rng(1000).permutation(len(y)) if iid else np.argsort(y, kind="stable")
    sites = [(X[part], y[part]) for part in np.array_split(order, N)]
    kind, K = ("softmax", 10) if name == "digits" else ("logistic", 1)
    return Problem(sites, l2, kind, K, _best(name, l2) if best else np.nan)


def natural(name, kind, l2):
    """One site for each natural group of a data set of the race."""
    from feddcd.race.problems import NATURAL

    data = NATURAL[name]()
    sites = [(data.X[data.groups == g], data.y[data.groups == g]) for g in np.unique(data.groups)]
    return Problem(sites, l2, kind).solved()


def mixed(N, d, l2):
    """Sites that differ in everything: sizes, centres and what they would like w to be."""
    rng = np.random.default_rng(0)
    common, sites = rng.normal(size=d), []
    for _ in range(N):
        m = int(np.clip(rng.lognormal(5, 1), 20, 2000))
        X = (rng.normal(size=d) + rng.normal(size=(m, d))) * np.arange(1, d + 1.0) ** -0.6
        X[:, -1] = 1
        chance = expit(X @ (common + rng.normal(size=d)))
        sites.append((X, (rng.random(m) < chance).astype(float)))
    return Problem(sites, l2)


def drawn(seed, cells=2e5):
    """A random problem, its tau and what it is; at most so many cells of X, to be quick."""
    rng = np.random.default_rng(seed)
    between = lambda a, b: float(np.exp(rng.uniform(np.log(a), np.log(b))))
    d, N = int(between(1, 300.9)), int(between(2, 200.9))
    tau, l2 = int(rng.integers(2, N + 1)), between(1e-8, 1)
    sizes = np.array([int(between(1, 5000)) for _ in range(N)])
    sizes = np.maximum(1, (sizes * min(1, cells / (sizes.sum() * d))).astype(int))
    kind = str(rng.choice(["logistic", "logistic", "logistic", "ridge", "poisson", "softmax"]))
    flags = rng.random(6) < [0.5, 0.25, 0.3, 0.3, 0.5, 0.2]
    scaled, separable, one_class, twins, different, sparse = flags
    K = int(rng.integers(2, 5)) if kind == "softmax" else 1
    d = max(1, d // K)
    scales = 10 ** rng.uniform(-4, 4, d) if scaled else np.ones(d)
    common, sites = rng.normal(size=(d, K)) / np.sqrt(d), []
    for m in sizes:
        X = rng.normal(size=(m, d)) + different * rng.normal(size=d)
        X = X * (rng.random(X.shape) < 0.1) if sparse else X
        if twins and d > 1:
            X[:, -1] = X[:, 0]
        z = X @ (common + different * 0.5 * rng.normal(size=(d, K)) / np.sqrt(d))
        if kind == "softmax":
            y = np.argmax(3 * z + (not separable) * rng.gumbel(size=z.shape), 1)
        elif kind == "logistic":
            y = (3 * z[:, 0] + (not separable) * rng.logistic(size=m) > 0).astype(float)
        elif kind == "ridge":
            y = z[:, 0] + (not separable) * rng.normal(size=m)
        else:
            y = rng.poisson(np.exp(np.clip(z[:, 0], -5, 5))).astype(float)
        if one_class and kind in ("logistic", "softmax") and rng.random() < 0.7:
            y = np.full_like(y, rng.integers(2))
        sites.append((X * scales, y))
    names = ["scaled", "separable", "one-class", "twins", "different", "sparse"]
    about = f"{kind} d={d * K} N={N} tau={tau} rows={sizes.sum()} l2={l2:.0e} " + " ".join(
        name for name, is_so in zip(names, flags, strict=True) if is_so
    )
    return Problem(sites, l2, kind, K), tau, about
