"""The coordinator's part of a regression: the table of all sites' rows, from their sums.

Sites remember nothing between two questions and the coordinator needs six or so of them: killed,
it begins anew. A site that refuses is named, and the table is that of the others.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..._errors import DataError, Refused, Stalled
from ...analysis import FederatedGLM
from ...analysis.choose import Link
from ...analysis.federated import fitted, written
from ...analysis.job import Job, Outcome, regression
from ...analysis.plan import Plan
from ...analysis.prepare import effect_names, model_of
from ...analysis.schema import Agreed, Offer, agree
from ...analysis.site import Answer, Moments
from ...analysis.talk import Ask
from ...durable.codec import flatten
from .. import wire as parcels
from ..config import Config
from ..folder import Home
from ..site.disclosure import WAITS
from ..wire import Opened
from .founding import greet
from .nodes import Roll

PAUSE_S = 1.0


class Withdrawn(Exception):
    """A site that took part refuses to go on."""


class Regress:
    def __init__(self, home: Home, roll: Roll, config: Config, plan: Plan):
        self.home, self.roll, self.config, self.plan = home, roll, config, plan
        self.refused: set[str] = set()
        self.waiting: set[str] = set()  # for their administrators, in this exchange
        self.waited: set[str] = set()  # in any
        self.dropped: dict[str, int] = {}

    def run(self) -> FederatedGLM:
        greet(self.home, self.roll, self.config)
        offers = self._offers()
        while True:
            kept = {site: offers[site] for site in sorted(offers) if site not in self.refused}
            agreed, misfits = agree(kept, self.plan)
            for site, reason in misfits.items():
                self._refuse(site, reason)
            if len(agreed.sites) < self.config.fewest:
                raise DataError(
                    f"a table needs {self.config.fewest} sites; {len(agreed.sites)} fit together"
                )
            try:
                return self._fit(agreed)
            except Withdrawn:
                continue

    def _fit(self, agreed: Agreed) -> FederatedGLM:
        job = _job(self.plan, agreed)._replace(watch=self._told)
        talk = regression(job)
        try:
            outcome = self._converse(talk, agreed, job.model.p)
        except ValueError as error:
            raise DataError(str(error)) from None
        model = fitted(self.plan, job, outcome, sum(self.dropped.get(s, 0) for s in agreed.sites))
        list(written(model, self.home.server / "glm"))
        self.home.note(
            "finished", committed=model.n_exchanges_, unsettled=[], messages=dict(self.roll.sent),
            certified_error=model.certified_error_, converged=bool(model.converged_),
            sites=agreed.sites, refused=sorted(self.refused),
        )  # fmt: skip
        return model

    def _converse(self, talk, agreed: Agreed, p: int) -> Outcome:
        asked: Ask = next(talk)
        heard = time.monotonic()
        while True:
            requests = {
                site: self._packed("sums", agreed, flatten(question))
                for site, question in asked.questions.items()
            }
            said = dict(self._approved(requests))
            answers = {site: self._answer(site, parcel, p) for site, parcel in said.items()}
            if self.refused & set(agreed.sites):
                raise Withdrawn
            heard = time.monotonic() if answers else heard
            if time.monotonic() - heard > self.config.patience:
                raise Stalled(f"waited {self.config.patience:g} s for {', '.join(requests)}")
            if len(answers) < len(requests):
                time.sleep(PAUSE_S)
                self.roll.call(lambda: True)
            try:
                asked = talk.send({site: a for site, a in answers.items() if a is not None})
            except StopIteration as end:
                return end.value

    def _approved(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Opened]]:
        """Answers that wait for an administrator are asked for again, as long as patience lasts."""
        until = time.monotonic() + self.config.patience
        while requests:
            self.waiting.clear()
            yield from self._said(requests, "sums")
            requests = {site: requests[site] for site in self.waiting}
            if requests and time.monotonic() > until:
                raise Stalled(f"waited {self.config.patience:g} s for {', '.join(requests)}")
            time.sleep(PAUSE_S if requests else 0)

    def _offers(self) -> dict[str, Offer]:
        """Of all who answered the greeting, as long as patience lasts."""
        wanted, offers = sorted(self.roll.here()), {}
        until = time.monotonic() + self.config.patience
        while True:
            left = [site for site in wanted if site not in offers and site not in self.refused]
            requests = {site: self._packed("columns", None, {}) for site in left}
            for site, parcel in self._said(requests, "columns"):
                offers[site] = Offer(**{name: parcel.meta[name] for name in Offer._fields})
            if set(wanted) <= set(offers) | self.refused or time.monotonic() > until:
                return offers
            time.sleep(PAUSE_S)
            self.roll.call(lambda: True)

    def _said(self, requests: Mapping[str, bytes], kind: str) -> Iterator[tuple[str, Opened]]:
        """The answers of this kind; silence and refusals are noted."""
        for site, parcel in self.roll.ask(requests, work=True):
            if parcel is None:
                self.home.note("silent", site=site)
                self.roll.lost(site)
            elif parcel.kind == "refusal":
                self._refused(site, parcels.refusal(parcel).reason)
            elif parcel.kind != kind or parcel.meta.get("client") != site:
                self._refuse(site, f"{site}: its answer is not to the question")
            else:
                yield site, parcel

    def _answer(self, site: str, parcel: Opened, p: int) -> Answer | None:
        try:
            self.dropped[site] = int(parcel.meta["dropped"])
            return checked(site, parcel.arrays, p)
        except (Refused, KeyError, TypeError, ValueError) as error:
            self._refuse(site, f"{site}: its answer cannot be used: {error}")
            return None

    def _refused(self, site: str, reason: str) -> None:
        if WAITS not in reason:
            return self._refuse(site, reason)
        if site not in self.waited:
            self.home.note("waiting", reason=reason)
        self.waited.add(site)
        self.waiting.add(site)

    def _refuse(self, site: str, reason: str) -> None:
        if site not in self.refused:
            self.home.note("refused", site=site, reason=reason)
        self.refused.add(site)

    def _packed(self, kind: str, agreed: Agreed | None, arrays: dict[str, np.ndarray]) -> bytes:
        meta: dict[str, Any] = {"plan": self.plan.to_dict()}
        if agreed is not None:
            meta["agreed"] = agreed._asdict()
        return parcels.packed(Opened(kind, meta, arrays))

    def _told(self, row: dict[str, Any]) -> None:
        plain = {k: None if not np.isfinite(v) else v for k, v in row.items()}
        self.home.note("exchange", **plain)


def _job(plan: Plan, agreed: Agreed) -> Job:
    k = 1 if agreed.classes is None else len(agreed.classes) - 1
    effects = effect_names(agreed.names, agreed.sites) if plan.site_effects == "fixed" else []
    model = model_of(
        plan.family, agreed.names + effects, k, plan.l2, agreed.sites, len(effects),
        plan.standardize,
    )  # fmt: skip
    classes = None if agreed.classes is None else tuple(agreed.classes)
    return Job(
        model, classes, plan.tol, plan.max_exchanges, plan.covariance, plan.standardize,
        Link(plan.latency, plan.bandwidth), plan.algorithm,
    )  # fmt: skip


def checked(site: str, arrays: Mapping[str, np.ndarray], p: int) -> Answer:
    """An answer of the right shapes and finite, but for bounds that may be infinite."""
    own = {k: v for k, v in arrays.items() if not k.startswith("moments.")}
    rest = {k.removeprefix("moments."): v for k, v in arrays.items() if k not in own}
    said = Answer(**own, moments=Moments(**rest) if rest else None)  # pyright: ignore
    sizes = {"value": 1, "g": p, "H": p * (p + 1) // 2, "size": p, "M": 1, "m": 1}
    for name, size in sizes.items():
        if getattr(said, name).size != size or getattr(said, name).dtype != np.float64:
            raise Refused(f"{name} has another shape or type than asked for")
    for name, array in arrays.items():
        if np.isnan(array).any() or (name not in ("M", "m") and np.isinf(array).any()):
            raise Refused(f"{name} holds a value that is not finite")
    return said
