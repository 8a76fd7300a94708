"""Who takes part in a round, and the keys of a round: pure functions of (seed, round, client)."""

import abc
from typing import ClassVar, NamedTuple

import numpy as np

from ._extras import needs

with needs("train"):
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from jaxtyping import Array, Bool, Float, Int

from ._errors import SpecError
from ._types import Key

LARGE = 4096  # clients, from which on a permutation of all of them takes too long
FEW = 8  # a cohort is small beside N if this many times as large


def round_keys(key: Key, t: Int[Array, ""]) -> tuple[Key, Key]:
    """(cohort key, client key) of round t: the same in every engine."""
    cohort, clients = jax.random.split(jax.random.fold_in(key, t))
    return cohort, clients


def broadcast_key(key: Key, t: Int[Array, ""]) -> Key:
    """The key of what server and clients draw in common in round t."""
    # fold_in with 0 and 1 would give the two keys of `round_keys` again
    return jax.random.fold_in(jax.random.fold_in(key, t), 2)


def client_key(key_clients: Key, i: Int[Array, ""]) -> Key:
    return jax.random.fold_in(key_clients, i)


class Cohort(NamedTuple):
    """Distinct clients in ascending order; those not asked are only there to fill the array."""

    ids: Int[Array, " m"]
    asked: Bool[Array, " m"]
    arrived: Bool[Array, " m"]  # asked, and the upload came back


class AbstractParticipation(eqx.Module):
    """`certain` says that every cohort is full and every upload arrives."""

    certain: eqx.AbstractClassVar[bool]
    N: eqx.AbstractVar[int]
    tau: eqx.AbstractVar[int]  # the usual size of a cohort, at least 2

    @abc.abstractmethod
    def __call__(self, key: Key) -> Cohort: ...


class UniformSubset(AbstractParticipation):
    """Each subset of τ out of N clients with equal probability."""

    certain: ClassVar[bool] = True
    N: int
    tau: int

    def __check_init__(self):
        check_tau(self.tau, self.N)

    def __call__(self, key: Key) -> Cohort:
        return _present(_distinct(key, self.N, self.tau))


class Everyone(AbstractParticipation):
    certain: ClassVar[bool] = True
    N: int
    tau: int

    def __init__(self, N: int):
        self.N = self.tau = N
        check_tau(N, N)

    def __call__(self, key: Key) -> Cohort:
        return _present(jnp.arange(self.N))


class ImportanceSubset(AbstractParticipation):
    """Necoara's distribution P(I) ~ sum_I α_i, which FedDCD's rate needs when the α_i differ.

    Exactly: the first client with probability α_i / sum α, the others uniformly. A set then
    comes up with probability sum_I (α_i / sum α) / C(N-1, τ-1).
    """

    certain: ClassVar[bool] = True
    alpha: Float[Array, " N"]
    cumulated: Float[Array, " N"] | None  # sums of α, where N is large
    N: int
    tau: int

    def __init__(self, alpha: Float[Array, " N"], tau: int):
        self.alpha, self.N, self.tau = jnp.asarray(alpha), len(alpha), tau
        check_tau(tau, self.N)
        given = np.asarray(self.alpha)
        if not np.all((given > 0) & np.isfinite(given)):
            raise SpecError(f"every alpha must be positive and finite, got {self.alpha}")
        self.cumulated = None if self.N < LARGE else jnp.asarray(np.cumsum(given / given.sum()))

    def __call__(self, key: Key) -> Cohort:
        k_first, k_others = jax.random.split(key)
        first = self._first(k_first)
        others = _distinct(k_others, self.N - 1, self.tau - 1)
        return _present(jnp.append(others + (others >= first), first))

    def _first(self, key: Key) -> Int[Array, ""]:
        if self.cumulated is None:
            return jax.random.categorical(key, jnp.log(self.alpha))
        u = jax.random.uniform(key, (), self.cumulated.dtype)
        return jnp.minimum(jnp.searchsorted(self.cumulated, u, side="right"), self.N - 1)


class Available(AbstractParticipation):
    """Each client is there with probability p, by itself; the two likeliest stand in when
    fewer than two are."""

    certain: ClassVar[bool] = False
    N: int
    tau: int
    p: float

    def __init__(self, N: int, p: float):
        check_tau(2, N)
        if not 0 < p <= 1:
            raise SpecError(f"the probability p must be above 0 and at most 1, got p={p}")
        self.N, self.tau, self.p = N, max(2, round(p * N)), p

    def __call__(self, key: Key) -> Cohort:
        u = jax.random.uniform(key, (self.N,))
        there = (u < self.p) | (jnp.argsort(jnp.argsort(u)) < 2)
        return Cohort(jnp.arange(self.N), there, there)


class Lossy(AbstractParticipation):
    """Another participation that loses each upload with probability `loss`."""

    certain: ClassVar[bool] = False
    N: int
    tau: int
    base: AbstractParticipation
    loss: float

    def __init__(self, base: AbstractParticipation, loss: float):
        if not 0 <= loss < 1:
            raise SpecError(
                f"loss, the share of lost uploads, must be at least 0 and below 1; got loss={loss}"
            )
        self.N, self.tau, self.base, self.loss = base.N, base.tau, base, loss

    def __call__(self, key: Key) -> Cohort:
        k_base, k_loss = jax.random.split(key)
        cohort = self.base(k_base)
        kept = jax.random.bernoulli(k_loss, 1 - self.loss, cohort.ids.shape)
        return cohort._replace(arrived=cohort.arrived & kept)


PARTICIPATIONS: dict[str, str] = {
    "uniform": "tau of the N clients; every set of tau clients has the same probability",
    "everyone": "all clients in every round",
    "importance": (
        "tau of the N clients, with Necoara's probabilities for clients of different strong "
        "convexity"
    ),
    "available:P": "each client takes part with probability P; at least two clients take part",
}


def check_tau(tau: int, N: int) -> None:
    if not 2 <= tau <= N:
        raise SpecError(
            "tau, the number of clients in a round, must be from 2 to the number of all clients; "
            f"got tau={tau}, N={N}"
        )


def _distinct(key: Key, N: int, count: int) -> Int[Array, " count"]:
    """`count` different numbers below N, every set equally likely.

    Where N is large, by draws with replacement of which repeats are left out, so that the price
    does not grow with N. A permutation of all N stays where it is cheap: recorded seeds hold.
    """
    if N < LARGE or FEW * count > N:
        return jax.random.choice(key, N, (count,), replace=False)

    def draw(key: Key) -> tuple[Int[Array, " count"], Bool[Array, ""]]:
        """The first `count` different ones of twice as many; whether there are enough."""
        drawn = jax.random.randint(key, (2 * count,), 0, N)
        order = jnp.argsort(drawn, stable=True)
        again = jnp.append(False, jnp.diff(drawn[order]) == 0)
        new = jnp.ones_like(again).at[order].set(~again)
        kept = jnp.argsort(~new, stable=True)[:count]
        return drawn[kept], jnp.sum(new) >= count

    def once_more(carry):
        key, _, _ = carry
        key, now = jax.random.split(key)
        return key, *draw(now)

    first = (key, jnp.zeros(count, int), jnp.array(False))
    return jax.lax.while_loop(lambda carry: ~carry[2], once_more, first)[1]


def _present(ids: Int[Array, " m"]) -> Cohort:
    there = jnp.ones(ids.shape, bool)
    return Cohort(jnp.sort(ids), there, there)
