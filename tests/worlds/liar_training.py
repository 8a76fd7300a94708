"""Training over four sites of which one lies: what is changed in which of its messages."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from feddcd.durable.codec import digest
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.folder import FederationFolder
from feddcd.federation.site.answer import answer
from feddcd.federation.wire import Envelope, pack_message, unpack_message
from liar_tables import Told
from lies import Change, Lie, meta, part, raw, unpacked, without
from local_network import kind_of, make, places, wine

LIAR = "site-3"
HOPELESS = 1e-30  # a gap that is never reached


def founded(folder: Path, model: str = "softmax") -> FederationFolder:
    settings = {"model": model, "l2": 20.0, "rounds": 2, "tau": None, "patience": 0.05}
    return make(folder / "f", 4, wine(), certify_every=2, target_gap=HOPELESS, **settings)


class LyingSites:
    """`keys` are those by which the sites are let in, as over a real network."""

    def __init__(self, home: FederationFolder, lie: Lie | None):
        self.places, self.lie, self.count = dict(enumerate(places(home), 1)), lie, 0
        self.keys = home.invited()

    def nodes(self):
        return {node: self.keys[place.client] for node, place in self.places.items()}

    def ask(self, requests, seconds, work, stop):
        for node, request in requests.items():
            place = self.places[node]
            data = answer(request, place)
            kind = {"hello": "welcome", "task": "reply", "settle": "closing"}[kind_of(request)]
            if self.lie is not None and place.client == LIAR and kind == self.lie.kind:
                changed = self.lie.change(unpack_message(data), self.count)
                self.count += 1
                data = pack_message(changed) if isinstance(changed, Envelope) else changed
            yield node, data


def train(home: FederationFolder, at: Path, lie: Lie | None) -> Told:
    """In a copy of the folder."""
    shutil.copytree(home.path, at)
    told: list[dict] = []
    own = FederationFolder(at)
    try:
        coordinate(LyingSites(own, lie), {"folder": str(at)}, told.append)
    except Exception as error:
        return Told(None, error, told, LIAR)
    finally:
        shutil.rmtree(at)
    return Told(True, None, told, LIAR)


def upload(change) -> Change:
    """Another upload, with its right digest."""

    def changed(said: Envelope, _: int) -> Envelope:
        arrays = {name: np.asarray(change(x)) for name, x in said.arrays.items()}
        new = digest(next(iter(arrays.values())))
        return said._replace(arrays=arrays, meta={**said.meta, "digest": new})

    return changed


def proof(name: str, change) -> Change:
    return part(f"proof.{name}", change)


def tangents(name: str, change) -> Change:
    one, other = proof(f"at_model.{name}", change), proof(f"at_own.{name}", change)
    return lambda said, n: other(one(said, n), n)


def more(x: Any) -> Any:
    return x + np.asarray(1e6, x.dtype)


TRAINING = [
    Lie("a greeting of noise", "welcome", raw(lambda said: b"hello")),
    Lie("a greeting of brackets", "welcome", raw(unpacked(b"[" * 10_000))),
    Lie("a greeting without rows", "welcome", without("rows")),
    Lie("10^12 rows", "welcome", meta(rows=10**12)),
    Lie("10^400 rows", "welcome", meta(rows=10**400)),
    Lie("no rows", "welcome", meta(rows=0)),
    Lie("rows below zero", "welcome", meta(rows=-28)),
    Lie("rows as a word", "welcome", meta(rows="many")),
    Lie("rows with a fraction", "welcome", meta(rows=28.5)),
    Lie("10^9 features", "welcome", meta(features=10**9)),
    Lie("features below zero", "welcome", meta(features=-1)),
    Lie("unhashable features", "welcome", meta(features=[["x0"], ["x1"]])),
    Lie("features of tables", "welcome", meta(features=[{"x": 1}])),
    Lie("a feature of a million letters", "welcome", meta(features=["x" * 10**6])),
    Lie("no features", "welcome", meta(features=[])),
    Lie("unhashable classes", "welcome", meta(classes=[[0.0], [1.0]])),
    Lie("classes of 10^400", "welcome", meta(classes=[0.0, 1.0, 10**400])),
    Lie("ten thousand classes", "welcome", meta(classes=[float(i) for i in range(10_000)])),
    Lie("a class twice", "welcome", meta(classes=[0.0, 0.0, 1.0])),
    Lie("classes that are nothing", "welcome", meta(classes=None)),
    Lie("classes of words and numbers", "welcome", meta(classes=["a", 1.0])),
    Lie("known as a word", "welcome", meta(known="yes")),
    Lie("more than a greeting holds", "welcome", meta(surprise=1)),
    Lie("the name of another", "welcome", meta(client="site-1")),
    Lie("a name that is a list", "welcome", meta(client=["site-3"])),
    Lie("a refusal that blames another", "welcome", lambda said, _: Envelope(
        "refusal", {"client": "site-1", "reason": "site-1: lies\x1b[2J"}, {})),
    Lie("a refusal without anything", "welcome", lambda said, _: Envelope("refusal", {}, {})),
    Lie("an upload of noise", "reply", raw(lambda said: b"\x01" * 99)),
    Lie("an upload that is not a number", "reply", upload(lambda x: x * np.nan)),
    Lie("an endless upload", "reply", upload(lambda x: x + np.inf)),
    Lie("an upload of 10^200", "reply", upload(lambda x: x + 1e200)),
    Lie("an upload of 10^9", "reply", upload(lambda x: x + 1e9)),
    Lie("an upload of another shape", "reply", upload(lambda x: x[:-1])),
    Lie("an upload of another precision", "reply", upload(lambda x: x.astype(np.float32))),
    Lie("an upload of a hundred megabytes", "reply", upload(lambda x: np.zeros(12_500_000))),
    Lie("an upload without its arrays", "reply", lambda said, _: said._replace(arrays={})),
    Lie("an upload and more", "reply", lambda said, _: said._replace(
        arrays={**said.arrays, "more": np.zeros(1)})),
    Lie("a wrong digest", "reply", meta(digest="0" * 64)),
    Lie("a digest that is a list", "reply", meta(digest=[1])),
    Lie("a stamp of another round", "reply", meta(stamp=[1, 99])),
    Lie("a stamp of words", "reply", meta(stamp=["a", "b"])),
    Lie("a long stamp", "reply", meta(stamp=[1, 1, 1])),
    Lie("a stamp that is a number", "reply", meta(stamp=7)),
    Lie("an upload in another's name", "reply", meta(client="site-1")),
    Lie("an upload in the name of a table", "reply", meta(client={"a": 1})),
    Lie("a start that is a word", "reply", meta(incarnation="first")),
    Lie("a start below those before", "reply", meta(incarnation=-5)),
    Lie("a closing instead of an upload", "reply", lambda said, _: said._replace(kind="closing")),
    Lie("a refusal without a reason", "reply", lambda said, _: Envelope("refusal", {}, {})),
    Lie("a refusal of a megabyte", "reply", lambda said, _: Envelope(
        "refusal", {"client": "site-3", "reason": "y" * 500_000}, {})),
    Lie("a closing of noise", "closing", raw(lambda said: b"")),
    Lie("a closing without a proof", "closing", lambda said, _: said._replace(
        meta={**said.meta, "proven": False},
        arrays={k: v for k, v in said.arrays.items() if not k.startswith("proof")})),
    Lie("a closing of an older round", "closing", meta(stamp=[1, 1])),
    Lie("a closing in another's name", "closing", meta(client="site-1")),
    Lie("a closing with a start of words", "closing", meta(incarnation="x")),
    Lie("an accuracy of 250,000,000", "closing", proof("score", lambda x: 250e6 + 0 * x)),
    Lie("an accuracy below zero", "closing", proof("score", lambda x: -1 + 0 * x)),
    Lie("an accuracy that is not a number", "closing", proof("score", lambda x: np.nan * x)),
    Lie("an objective below zero", "closing", proof("value", lambda x: -1 + 0 * x)),
    Lie("an objective of 10^6", "closing", proof("value", more)),
    Lie("half the objective", "closing", proof("value", lambda x: x / 2)),
    Lie("an objective of another shape", "closing", proof("value", lambda x: x[None])),
    Lie("tangents above the objective", "closing", tangents("constant", more)),
    Lie("a tangent above the objective at its own point", "closing",
        proof("at_own.constant", lambda x: x + 1)),
    Lie("tangents far below", "closing", tangents("constant", lambda x: x - 1e6)),
    Lie("no slope", "closing", tangents("slope", lambda x: 0 * x)),
    Lie("a slope upside down", "closing", tangents("slope", lambda x: -x)),
    Lie("a slope of 10^6", "closing", tangents("slope", more),
        harmless="where it stands upright on the model, it makes the proof worse, never better"),
    Lie("a slope that is not a number", "closing", tangents("slope", lambda x: x * np.nan)),
    Lie("a curvature of 10^6", "closing", tangents("alpha", more)),
    Lie("a curvature below zero", "closing", tangents("alpha", lambda x: -x)),
    Lie("no curvature", "closing", tangents("alpha", lambda x: 0 * x)),
    Lie("what is conserved is not a number", "closing", part("conserved", lambda x: x * np.nan)),
    Lie("what is conserved has another shape", "closing", part("conserved", lambda x: x[:1])),
]  # fmt: skip
