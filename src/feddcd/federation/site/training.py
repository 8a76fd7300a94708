"""What a site's answer in training would tell, in the words of its policy."""

import numpy as np

from ..._errors import Refused
from ...algorithms.catalogue import find_method, get_method
from ...data.agreement import CLASSIFIERS, SiteData
from ...durable.codec import flatten
from ...durable.protocol import Reply
from ..terms import Terms
from ..wire import Closing
from .disclosure import Outgoing


def check_method(terms: Terms, client: str) -> None:
    """A method of another package has to be installed here, too: its policy is checked here."""
    if find_method(terms.algorithm) is None:
        raise Refused(f"{client}: the method {terms.algorithm[:50]!r} is not installed here")


def names(site: SiteData, model: str) -> Outgoing:
    """The greeting: columns and classes."""
    return Outgoing(
        "columns", "", _columns(site), len(site.labels), 0, _classes(site, model), {}, 0, {}
    )


def training(terms: Terms, site: SiteData, parameters: int, *, task: bool) -> Outgoing:
    """An upload; or, in a settlement, gradients for the certificate."""
    kind = get_method(terms.algorithm).sends if task else "gradient"
    return Outgoing(
        kind, terms.algorithm, _columns(site), len(site.labels), parameters,
        _classes(site, terms.model), {}, terms.tau, {},
    )  # fmt: skip


def arrays(said: Reply | Closing) -> dict[str, np.ndarray]:
    if isinstance(said, Reply):
        return flatten({"value": said.value})
    return flatten({"conserved": said.settled.conserved, "proof": said.proof})


def _columns(site: SiteData) -> tuple[str, ...]:
    return () if site.names is None else site.names


def _classes(site: SiteData, model: str) -> dict[str, int]:
    if model not in CLASSIFIERS:
        return {}
    values, counts = np.unique(site.labels, return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}
