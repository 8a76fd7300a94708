"""How the metric of FedQN begins: with the Hessian of a few sites, in few bits.

Up to 199 parameters it travels as its diagonal and correlations. Of a matrix w with p inputs and K
outputs only its two partial traces do, A of p x p and B of K x K:

    H = A ⊗ B / tr A,    exact for softmax at w = 0, where B = I/K - 11'/K²

Above, its products with random signs travel, which are the same everywhere: Nystroem's factors
follow from them. Of a matrix w they are products of the mean of the outputs' blocks, which have p
rows in place of p K, and this mean is the curvature of each output. Eight bits are enough, whatever
the changes of gradients have: the metric moves no fixed point, and more save no round.

So large a model has one round before that: each site sends where it would go alone, and x moves by
their mean m, where they agree: by min(1, 2 |m|² / mean |w_i - x|²) of it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..solvers import LocalSolution, NewtonCG, Tolerance
from ._coding import Bits, Extra, code, code_square
from ._metric import NUMBERS, Base, Flat

SITES = 3  # of the first cohort
WHOLE = 199  # inputs, up to which the Hessian is sent as it is; the most factors of H₀
MATRIX = 1000  # parameters, up to which two traces stand for it
SMALL = 12  # parameters, up to which new sites send their Hessian in later rounds, too; or inputs
# for each output, where the first sites differ by more than
DIFFER = 0.1
SURE = 2.0  # times what chance is expected to do
RANK = 20  # random vectors; their products with it are sent else; fewer where d is very large
INPUTS = 128  # the same, of the inputs of a matrix: RANK for each output, but not more
BITS: Bits = 8
ROUNDED = 0.1  # of the noise of rounding: smaller eigenvalues are raised to it
FLOOR = 1e-4  # of the diagonal, in every direction
ALL = 1 - 1e-5  # of the weight of all: what is left is rounding
EDGE = 1e-3  # eigenvalues this much larger than the first left out are kept whole
CUT = 1e-3  # of the largest: smaller eigenvalues of a sketch are noise
AGREE = 2.0  # times the part of the sites' moves that is common, up to all of it
# a first point needs no digits
ALONE = NewtonCG(Tolerance(1e-3), max_steps=10, space="parameters")


def begins(place: Int[Array, ""], asked: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether a third of the cohort begins with it: neighbours may hold the same label."""
    return jnp.any(place == jnp.arange(SITES) * asked // SITES)


class Form(NamedTuple):
    """Of the parameters: a matrix of p x K, or any d of them with K = 1."""

    p: int
    K: int

    @property
    def size(self) -> int:
        return self.p * self.K

    @property
    def whole(self) -> bool:
        return self.p <= WHOLE and self.size <= MATRIX

    @property
    def small(self) -> bool:
        return self.size <= SMALL

    @property
    def cheap(self) -> bool:
        """A Hessian takes no more bytes than six changes of a gradient."""
        return self.whole and self.p <= SMALL * self.K


class Begun(NamedTuple):
    """H₀, its diagonal, and how much sites differ: from 0 to 1."""

    base: Base
    diagonal: Flat
    differ: Scalar


def form_of(like: Params) -> Form:
    shapes = [jnp.shape(x) for x in jax.tree.leaves(like)]
    if len(shapes) == 1 and len(shapes[0]) == 2:
        return Form(*shapes[0])
    return Form(sum(math.prod(shape) for shape in shapes), 1)


def alone(f: AbstractProblem, w: Params, key: Key, wanted: Bool[Array, ""]) -> LocalSolution:
    """Where a site would go by itself; w, after one step, where nobody asks for it."""
    like = jax.eval_shape(ALONE, f, w, key)
    stay = lambda: LocalSolution(w, jnp.zeros_like(like.grad_norm), jnp.ones_like(like.steps))
    return jax.lax.cond(wanted, lambda: ALONE(f, w, key), stay)


def common(move: Flat, square: Scalar) -> Flat:
    """Of the mean move, as much as sites agree; `square` is the mean of their |move|²."""
    agreed = jnp.where(square > 0, move @ move / jnp.where(square > 0, square, 1), 0)
    return jnp.minimum(1, AGREE * agreed) * move


def shape_of(form: Form) -> tuple[int, int]:
    """Of the factors of H₀."""
    if form.whole:
        return form.size, min(form.size, WHOLE)
    return form.p, _sketched(form)


def _sketched(form: Form) -> int:
    most = RANK if form.K == 1 else min(INPUTS, RANK * form.K)
    return max(2, min(most, NUMBERS // form.p))


def measured(
    phi: Callable[[Flat], Scalar], x: Flat, wanted: Bool[Array, ""], form: Form
) -> tuple[PyTree, PyTree]:
    """What a site sends of its Hessian at x, and of how it differs from others'; zeros where nobody
    asks for it."""

    def measure() -> tuple[PyTree, PyTree]:
        if form.whole and form.K == 1:
            H = jax.hessian(phi)(x)
            return code_square(H, BITS), code(_square_of_correlations(H), 32)
        _, hvp = jax.linearize(jax.grad(phi), x)
        if form.whole:
            A, B = _traces(hvp, form, x.dtype)
            spread = code(_square_of_correlations(A), 32)
            return (code_square(A, BITS), code_square(B, 32)), spread
        return code(_products(hvp, form, x.dtype), BITS, columns=True), code(jnp.zeros(()), 32)

    blank = lambda: jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), jax.eval_shape(measure))
    return jax.lax.cond(wanted, measure, blank)


def _products(hvp: Callable[[Flat], Flat], form: Form, dtype) -> Float[Array, "p r"]:
    """Of the mean of the outputs' blocks with random signs: each probe meets one block, in turn."""
    p, K = form
    probes = _probes(form, dtype).T

    def of_probe(probe: Flat, k: Int[Array, ""]) -> Flat:
        return hvp(jnp.zeros((p, K), dtype).at[:, k].set(probe).reshape(-1)).reshape(p, K)[:, k]

    return jax.lax.map(lambda each: of_probe(*each), (probes, jnp.arange(len(probes)) % K)).T


def _traces(hvp: Callable[[Flat], Flat], form: Form, dtype) -> tuple[Array, Array]:
    """A = sum over outputs of the inputs' blocks, B = sum over inputs of the outputs' blocks."""
    p, K = form

    def of_input(j: Int[Array, ""]) -> tuple[Array, Array]:
        units = jnp.zeros((K, p, K), dtype).at[jnp.arange(K), j, jnp.arange(K)].set(1)
        rows = jax.vmap(hvp)(units.reshape(K, -1)).reshape(K, p, K)
        return jnp.einsum("aka->k", rows), rows[:, j]

    A, B = jax.lax.map(of_input, jnp.arange(p))
    B = jnp.sum(B, 0)
    return (A + A.T) / 2, (B + B.T) / 2


def nothing_shown(form: Form, dtype) -> Extra:
    """No Hessian, and no rows, as they are summed."""
    zero = jnp.zeros((), dtype)
    triangle = lambda d: jnp.zeros(d * (d + 1) // 2, dtype)
    sent = triangle(form.p) if form.K == 1 else (triangle(form.p), triangle(form.K))
    return Extra(zero, ((sent, zero), zero))


def base_from(
    sent: PyTree, form: Form, rows: Scalar, spread: Scalar | float = 0.0, unseen: float | Scalar = 1
) -> Begun:
    """From the mean of what sites with these rows sent, opened. `spread` is the mean of their
    squared correlations, `unseen` the part of all weight that others have."""
    if not form.whole:
        base, diagonal = _sketched_base(sent, _probes(form, sent.dtype))
        if form.K > 1:
            base = _shrunk(base, diagonal, _doubt(form.p, rows.astype(sent.dtype)))
        return Begun(base, jnp.repeat(diagonal, form.K), jnp.zeros((), sent.dtype))
    A, B = sent if form.K > 1 else (sent, jnp.ones(1, sent.dtype))
    return _whole_base(A, B, form, rows, spread, unseen)


def _probes(form: Form, dtype) -> Float[Array, "p r"]:
    return jax.random.rademacher(jax.random.key(0), (form.p, _sketched(form)), dtype)


def _whole_base(
    A: Array, B: Array, form: Form, rows: Scalar, spread: Scalar | float, unseen: Scalar | float
) -> Begun:
    """From the upper triangles of A and B; the correlations of inputs are rounded."""
    p, K = form
    of_inputs, inputs, P = _correlations(A, p)
    of_outputs, outputs, Q = _correlations(B, K)
    trace = jnp.sum(of_outputs)
    diagonal = jnp.kron(of_inputs, of_outputs) / (trace if K > 1 else 1)
    most = 2.0 ** (BITS - 1) - 1
    # the norm of a mean of matrices of roundings
    noise = outputs[-1] * 2 * jnp.sqrt(p / 12 / SITES) / most
    floor = jnp.maximum(ROUNDED * noise, FLOOR)
    values, vectors = jnp.kron(inputs, outputs), jnp.kron(P, Q)
    part = jnp.ones_like(values)
    if form.size > WHOLE:  # the largest; their mean stands for the others
        order = jnp.argsort(-values)
        part = _above(values, values[order[WHOLE]])
        floor = jnp.maximum(floor, (1 - part) @ values / jnp.sum(1 - part))
        values, vectors, part = (
            values[order[:WHOLE]],
            vectors[:, order[:WHOLE]],
            part[order[:WHOLE]],
        )
    C = jnp.sqrt(diagonal)[:, None] * vectors * jnp.sqrt(part * jnp.maximum(values - floor, 0))
    base = Base(C, floor * diagonal)
    common = jnp.sum(inputs**2) - p
    rows = rows.astype(A.dtype)
    doubt = jnp.maximum(_doubt(p, rows), unseen * _part(spread - common, common) ** 2)
    # its few rows make a site's squares so much larger, were its columns independent
    few = p * (p - 1) * SITES / jnp.maximum(rows, 1)
    differ = _part(spread - common - SURE * few, common)
    return Begun(_shrunk(base, diagonal, doubt), diagonal, differ)


def _above(values: Flat, last: Scalar) -> Flat:
    """The part of each eigenvalue that is kept: none of the first that finds no place, nor of its
    equals. Of softmax many are equal, and rounding would choose among them."""
    excess = values / jnp.where(last > 0, last, 1) - 1
    return jnp.where(last > 0, jnp.clip(excess / EDGE, 0, 1), values > 0).astype(values.dtype)


def _part(excess: Scalar | float, common: Scalar) -> Scalar:
    """The part of the mean's squared correlations that differs between sites, and so is chance.
    Ledoit and Wolf shrink by it; here by its square, as a small part does less harm than a diagonal
    that stands for it."""
    chance = jnp.maximum(excess, 0) / (SITES - 1)
    return jnp.minimum(chance / jnp.where(common > 0, common, 1), 1)


def _square_of_correlations(H: Float[Array, "d d"]) -> Scalar:
    """Of all pairs of different coordinates."""
    d = jnp.diag(H)
    R = H**2 / jnp.where(d > 0, d, 1) / jnp.where(d > 0, d, 1)[:, None]
    return jnp.sum(jnp.where(jnp.eye(len(H), dtype=bool), 0, R))


def _doubt(p: int, rows: Scalar) -> Scalar:
    """The part of H₀ that is its diagonal alone: few rows say little of p inputs together."""
    return (p / (p + rows)) ** 2


def _shrunk(base: Base, diagonal: Flat, a: Scalar) -> Base:
    return Base(jnp.sqrt(1 - a) * base.C, (1 - a) * base.rest + a * diagonal)


def _correlations(upper: Array, d: int) -> tuple[Flat, Flat, Float[Array, "d d"]]:
    """The diagonal of a matrix, and the eigenvalues and vectors of its correlations."""
    H = jnp.zeros((d, d), upper.dtype).at[jnp.triu_indices(d)].set(upper)
    diagonal = _usual_where_zero(jnp.diag(H))
    root = jnp.sqrt(diagonal)
    H = H + jnp.triu(H, 1).T
    values, vectors = jnp.linalg.eigh(H / root / root[:, None])
    return diagonal, jnp.maximum(values, 0), vectors


def _sketched_base(Y: Float[Array, "p r"], probes: Float[Array, "p r"]) -> tuple[Base, Flat]:
    """H₀ from products with random signs: Nystroem's factors, and what is left of the diagonal. No
    coordinate has less than the part of the trace that the factors miss."""
    diagonal = _usual_where_zero(jnp.maximum(jnp.mean(probes * Y, 1), 0))
    B = probes.T @ Y
    values, vectors = jnp.linalg.eigh((B + B.T) / 2)
    kept = values > CUT * values[-1]
    C = Y @ vectors * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1)), 0)
    left = jnp.maximum(diagonal - jnp.sum(C**2, 1), 0)
    # of each probe, what factors from all others miss of it: the mean estimates the missed trace
    sound = jnp.maximum(values, CUT * values[-1])
    missed = jnp.mean(1 / (vectors**2 @ (1 / jnp.where(sound > 0, sound, 1))))
    part = jnp.clip(missed / jnp.sum(diagonal), FLOOR, 1)
    return Base(C, jnp.maximum(left, part * diagonal)), diagonal


def _usual_where_zero(diagonal: Flat) -> Flat:
    """With the median of the others in place of zeros, of which the senders know nothing."""
    known = diagonal > 0
    usual = jnp.nanmedian(jnp.where(known, diagonal, jnp.nan))
    return jnp.where(known, diagonal, jnp.where(jnp.isfinite(usual), usual, 1.0))


def exponents(diagonal: Flat) -> Int[Array, " d"]:
    """Of the roots of curvatures, as powers of the root of 2."""
    return jnp.clip(jnp.round(jnp.log2(diagonal)), -126, 126).astype(jnp.int8)


def roots(exponents: Int[Array, " d"], dtype) -> Flat:
    return jnp.exp2(exponents.astype(dtype) / 2)
