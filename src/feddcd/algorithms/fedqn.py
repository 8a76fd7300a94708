"""FedQN: every site's last gradient, and one metric for all that is learned from their changes.

F(w) = mean_i φ_i(w) + (l2/2)|w|², the mean by the sites' weights; φ_i is a site's loss per weight.
Site i keeps g_i, its gradient as it was sent, of w_i, the x at which it was last summed:

    asked at x    D_i = ∇φ_i(x) - g_i in few bits,    b_i = <∇φ_i(x) - g_i, x - w_i>/2
    server        ḡ, w̄ = means of g_i, w_i over the sites seen;  it knows the w_i: it sent them
                  x = w̄ - M⁻¹(ḡ + l2 w̄)/c

M begins with the Hessian at the first x of a few sites, and learns from pairs s = mean(x - w_i),
y = mean(D_i) over sites seen before. c, the guard, is 1, and grows to the ratio where sites bend
more than M says: b_i against |x - w_i|²_M / 2. A step Δ is limited, too: |Δ|²/2 in the first M,
with l2, may not exceed a part of the first loss, and this part shrinks where sites bend more. A
site that is asked computes one gradient. A large model has one round before all others: in it, each
site solves its local problem, and x moves towards the mean of the solutions, as far as the sites
agree.
"""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Int

from .. import tree
from .._errors import SpecError
from .._settings import whole
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from . import _guard as guards
from . import _metric as metrics
from . import _start as starts
from ._base import Method, Sends, Upload
from ._coding import BITS, Bits, Extra, code, code_brief, code_logs, opened
from ._metric import Flat
from ._recalling import AbstractRecalling, Recalled
from ._remembered import QNClient, QNDown, QNNote, QNReminder, QNServer, QNUpload


class FedQN(AbstractRecalling[QNServer, QNClient, QNDown, None]):
    """`l2` is the penalty of all clients, where their weights are N in sum; None: it counts as a
    part of each φ_i."""

    sends: ClassVar[Sends] = "hessian"
    follows: ClassVar[Literal["rounds", "uploads"]] = "rounds"
    like: Params  # any w: gives the structure to the flat vectors
    l2: float | None = None
    bits: Bits = 8
    enough: float = metrics.ENOUGH  # of all weight, for a pair

    def __check_init__(self):
        if self.bits not in BITS:
            raise SpecError(f"the setting 'bits' must be 8, 16, 32 or 64, got bits={self.bits}")

    @property
    def size(self) -> int:
        return sum(x.size for x in jax.tree.leaves(self.like))

    @property
    def _form(self) -> starts.Form:
        return starts.form_of(self.like)

    @property
    def _large(self) -> bool:
        return not self._form.whole

    def init_server(self, w: Params) -> QNServer:
        x = ravel_pytree(w)[0]
        zero, none, d = jnp.zeros_like(x), jnp.zeros((), x.dtype), self.size
        learned = metrics.nothing_learned(
            d, *starts.shape_of(self._form), metrics.pairs_of(d), x.dtype
        )
        exponents, guard = jnp.zeros(d, jnp.int8), guards.new_guard(x.dtype)
        shown = starts.nothing_shown(self._form, x.dtype) if self._form.cheap else None
        no, alone = jnp.asarray(False), jnp.asarray(self._large)
        return QNServer(x, alone, zero, zero, none, no, exponents, guard, learned, shown, none)

    def init_client(self, f: AbstractProblem, w: Params) -> QNClient:
        x = ravel_pytree(w)[0]
        zero = jnp.zeros((), x.dtype)
        return QNClient(x, jnp.zeros_like(x), jnp.asarray(False), f.weight + zero)

    def weight(self, f: AbstractProblem) -> Scalar:
        return f.weight

    def broadcast(self, server: QNServer, key: Key) -> QNDown:
        opening = ~server.started
        asks = opening & ~server.alone
        if self._form.cheap:
            wanted = jnp.asarray(self._form.small) | (server.differ > starts.DIFFER)
            asks |= wanted & (server.seen < starts.ALL)
        return QNDown(server.x, server.scale, server.alone, opening, asks, asks)

    def addressed(self, down: QNDown, place: Int[Array, ""], asked: Int[Array, ""]) -> QNDown:
        return down._replace(start=down.start & starts.begins(place, asked))

    def parts(self, down: QNDown, note: QNNote) -> tuple[Bool[Array, ""], ...]:
        return self._parts(down, note.seen)

    def _parts(self, down: QNDown, seen: Bool[Array, ""]) -> tuple[Bool[Array, ""], ...]:
        """Of change, fresh, first and start."""
        start = down.start & (down.opening | ~seen)
        return seen & ~down.opening, ~seen & ~down.opening, down.opening, start

    def client_step(self, f, client: QNClient, down: QNDown, key: Key):
        x, phi = down.x, lambda w: self._phi(f, w)
        value, grad = jax.value_and_grad(phi)(x)
        scale, moved, steps = starts.roots(down.scale, x.dtype), grad - client.g, 1
        if self._large:
            own = starts.alone(f, self._shaped(x), key, down.alone)
            moved, steps = jnp.where(down.alone, ravel_pytree(own.w)[0] - x, moved), own.steps
        sound = guards.within_reach(value, moved / scale)
        moved = jnp.where(sound, moved, 0)
        D = code(moved / scale, self.bits)
        single = code_logs(moved) if self.bits == 8 else code(moved, max(self.bits, 32))  # pyright: ignore
        sent = jnp.where(down.opening, opened(single), scale * opened(D))
        bend = jnp.where(client.seen, moved @ (x - client.w) / 2, 0)
        bend = jnp.where(down.opening, value, jnp.where(sound, bend, guards.BEYOND))
        bend = jnp.where(down.alone, moved @ moved, bend)
        if self.bits < 64:
            bend = code_brief(bend) if self.bits == 8 else code(bend, 32)
        change, fresh, first, start = self._parts(down, client.seen)
        begin = starts.measured(phi, x, down.asks, self._form), code(f.rows, 32)
        upload = QNUpload(
            bend, Extra(change, D), Extra(fresh, D), Extra(first, single), Extra(start, begin)
        )
        new = client._replace(w=x, g=client.g + sent, seen=jnp.asarray(True))
        new = tree.where(down.alone, client, new)
        return new, Upload(upload, jnp.zeros_like(value), jnp.asarray(steps, jnp.int32))

    def first_note(self, w: Params) -> QNNote:
        return QNNote(ravel_pytree(w)[0], jnp.asarray(False))

    def noted(self, server: QNServer, note: QNNote, sent: None) -> QNNote:
        return tree.where(server.alone, note, QNNote(server.x, jnp.asarray(True)))

    def told(self, client: QNClient) -> QNNote:
        return QNNote(client.w, client.seen)

    def reminder(self, server: QNServer, note: QNNote) -> QNReminder:
        v = jnp.where(note.seen, server.x - note.w, 0)
        guess = v @ metrics.product(server.learned.metric, v, self._l2) / 2
        return QNReminder(note.seen.astype(v.dtype), v, guess, v @ v / 2)

    def server_step(self, server: QNServer, mean: Recalled, share: Scalar):
        step = lambda: self._stepped(server, mean, share)
        if not self._large:
            return step(), None
        move = starts.common(mean.sent.first.value, jnp.abs(mean.sent.bend))
        found = server._replace(x=server.x + move.astype(server.x.dtype), alone=~server.alone)
        # not both and a choice: the pairs of a large model are many numbers
        return jax.lax.cond(server.alone, lambda: found, step), None

    def _stepped(self, server: QNServer, mean: Recalled, share: Scalar) -> QNServer:
        sent, known = mean
        scale = starts.roots(server.scale, server.x.dtype)
        y = scale * sent.change.value
        # of a site that was seen before the first upload still holds a change
        g = server.g + share * (y + scale * sent.fresh.value + sent.first.value)
        w = server.w + share * (known.moved + (1 - known.seen) * server.x)
        seen = server.seen + share * (1 - known.seen)
        opening, bend = ~server.started, sent.bend.astype(w.dtype)
        loss = jnp.where(opening, jnp.abs(bend), server.guard.loss)
        server = server._replace(w=w, g=g, seen=seen, guard=server.guard._replace(loss=loss))
        server = self._started(server, sent.start, share)
        # before the metric starts sites do not send changes apart
        part = jnp.where(sent.change.there > 0, share, 0)
        more = metrics.Gathered(part * known.moved, part * y, part * known.seen)
        learned = metrics.learn(server.learned, more, self._l2, self.enough, server.differ)
        bend, guess = bend + self._l2 * known.square, known.guess
        certain = (guess > 0) & ~opening
        ratio = jnp.where(certain, bend / jnp.where(certain, guess, 1), 1.0)
        guard = guards.judged(server.guard, ratio)
        learned = metrics.lifted(learned, guard.lift, self._l2)
        server = server._replace(guard=guard, learned=learned)
        return self._moved(server, guess, share)

    def _started(self, server: QNServer, start: Extra, share: Scalar) -> QNServer:
        """With the metric of the sites that sent a Hessian, if any did."""
        come = start.there > 0
        if server.shown is not None:
            start = tree.axpy(share, start, server.shown)
            server = server._replace(shown=start)

        def begin() -> QNServer:
            (sent, spread), rows = jax.tree.map(lambda x: x / start.there, start.value)
            unseen = 1 - (start.there if server.shown is not None else share * start.there)
            begun = starts.base_from(sent, self._form, starts.SITES * rows, spread, unseen)
            metric = metrics.assembled(begun.base, server.learned.pairs, self._l2)
            learned, yes = server.learned._replace(metric=metric), jnp.asarray(True)
            _, r = self._residual(server)
            guard = guards.measured(server.guard, r @ metrics.solve(metric, r, self._l2) / 2)
            guard = tree.where(server.started, server.guard, guard)
            return server._replace(
                started=yes, scale=starts.exponents(begun.diagonal), learned=learned, guard=guard,
                differ=begun.differ.astype(server.x.dtype),
            )  # fmt: skip

        return jax.lax.cond(come, begin, lambda: server)

    def _moved(self, server: QNServer, guess: Scalar, share: Scalar) -> QNServer:
        """At the next x; `guess` is the energy between the cohort's last points and this x."""
        metric, l2 = server.learned.metric, self._l2
        w, r = self._residual(server)
        step = metrics.solve(metric, r, l2)
        left = w - server.x
        energy = guess + (left - step) @ (metrics.product(metric, left, l2) - r) / 2
        guard = guards.watched(server.guard, energy, share)
        move = left - guards.trusted(server.seen) * step / guard.c
        move = move * guards.shortened(guard, metrics.base_energy(metric, move, l2))
        after = server._replace(x=server.x + move, guard=guard)
        return tree.where(server.started, after, server)

    def _residual(self, server: QNServer) -> tuple[Flat, Flat]:
        """w̄ and ḡ + l2 w̄."""
        part = jnp.where(server.seen > 0, server.seen, 1)
        w, g = server.w / part, server.g / part
        return w, g + self._l2 * w

    def client_receive(self, client: QNClient, answer: None) -> QNClient:
        return client

    def adjusted(self, client: QNClient, down: QNDown, error: QNUpload) -> QNClient:
        scaled = starts.roots(down.scale, client.g.dtype) * (error.change.value + error.fresh.value)
        g = client.g + scaled + error.first.value
        return client._replace(g=jnp.where(down.alone, client.g, g))

    def model(self, server: QNServer) -> Params:
        return self._shaped(server.x)

    def witness(self, client: QNClient) -> Params:
        shaped = self._shaped
        return shaped(client.w) if client.w.ndim == 1 else jax.vmap(shaped)(client.w)

    def residuals(self, server: QNServer, clients: QNClient, weights: Array) -> list[Params]:
        """The server's sums are those of the clients seen."""
        seen = jnp.where(clients.seen, weights, 0)
        total, held = jnp.sum(weights), jnp.sum(seen)
        return [seen @ clients.g - total * server.g, seen @ clients.w - total * server.w,
                held - total * server.seen]  # fmt: skip

    def conserved(self, client: QNClient, down: QNDown) -> tuple[Flat, Flat, Scalar]:
        part = jnp.where(client.seen, client.weight, 0)
        return part * client.w, part * client.g, part

    def rebalance(
        self, server: QNServer, total: tuple[Flat, Flat, Scalar], weight: Scalar
    ) -> QNServer:
        w, g, seen = tree.scale(1 / weight, total)
        return server._replace(w=w, g=g, seen=seen)  # the next x follows from them

    def joined(self, server: QNServer, ratio: Scalar) -> QNServer:
        learned, held = server.learned, (server.w, server.g, server.seen)
        w, g, seen = tree.scale(ratio, held)
        learned = learned._replace(gathered=tree.scale(ratio, learned.gathered))
        shown = None if server.shown is None else tree.scale(ratio, server.shown)
        return server._replace(w=w, g=g, seen=seen, learned=learned, shown=shown)

    def chosen(self, server: QNServer) -> dict[str, Scalar]:
        guard, number = server.guard, lambda x: x.astype(server.x.dtype)
        pairs, stalled = number(server.learned.pairs.n), number(guards.stalled(guard))
        known = {"guard": guard.c, "room": guard.room, "pairs": pairs, "stalled": stalled}
        return known | {"far": number(guards.far(guard))}

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        return f

    @property
    def _l2(self) -> float:
        return 0.0 if self.l2 is None else self.l2

    def _shaped(self, w: Flat) -> Params:
        return ravel_pytree(self.like)[1](w)

    def _phi(self, f: AbstractProblem, flat: Flat) -> Scalar:
        w = self._shaped(flat)
        if self.l2 is None:
            return f(w) / f.weight
        value = f.loss(w) if f.q is None else f.loss(w) - tree.dot(f.q, w)
        return value / f.weight


FEDQN = Method(
    name="fedqn",
    title="FedQN",
    about="the server learns one matrix of the curvature from gradients; clients send few bytes",
    reveals=(
        "changes of this site's gradient; once, also this site's Hessian and the model that fits "
        "this site's rows"
    ),
    algorithm=FedQN,
    make=lambda given: FedQN(
        given.w, given.l2, enough=metrics.enough_of(given.N), **given.settings
    ),
    exact=True,
    settings={"bits": whole(0)},  # the class has the list
    sums=True,
    look=("#882255", "-"),
)
