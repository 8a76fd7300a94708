"""The beginning: the sites are greeted, agree on columns and classes, and it is written down."""

import time

import jax

from ..._errors import DataError, SpecError, Stalled
from ...data.agreement import agree
from ...durable.ledger import Ledger
from ...durable.server import found, founded
from ..config import Config
from ..folder import Home
from ..terms import Terms, server_parts
from .nodes import Roll

PAUSE_S = 1.0


def terms_of(home: Home, roll: Roll, ledger: Ledger) -> Terms:
    """From the ledger; the first time, from what the sites offer."""
    config, known = home.config(), founded(ledger)
    if known is not None:
        return _unchanged(Terms.from_json(known), config)
    greet(home, roll, config)
    offers = [roll.offers[client].offer for client in sorted(roll.here())]
    agreed, refused = agree(offers, config.features, config.classes, config.spec.model)
    accepted = len(offers) - len(refused)
    if accepted < config.fewest:
        raise DataError(f"only {accepted} sites fit together: {'; '.join(refused.values())}")
    terms = Terms.founded(config.name, config.spec, agreed, accepted)
    _check(terms)
    found(ledger, terms.to_json())
    home.note("founded", sites=accepted)
    return terms


def _unchanged(terms: Terms, config: Config) -> Terms:
    """What is trained is what was agreed: a change needs a new federation."""
    for name in ("algorithm", "model", "l2", "weighting", "seed", "dtype", "settings"):
        then, now = getattr(terms, name), getattr(config.spec, name)
        if then != now:
            raise SpecError(
                f"federation.toml says {name} = {now!r}, and the sites agreed on {then!r}: put it "
                "back, or make a new federation"
            )
    return terms


def _check(terms: Terms) -> None:
    """Whether the settings make an algorithm, before they are written down for ever."""
    try:
        with jax.enable_x64(terms.double):
            server_parts(terms)
    except ValueError as error:
        raise SpecError(f"federation.toml: {error}") from None


def greet(home: Home, roll: Roll, config: Config) -> None:
    """Until all invited sites answered, or patience ends with enough of them."""
    until = time.monotonic() + config.patience
    while True:
        roll.call(lambda: False)
        here, invited = roll.here(), set(home.invited())
        if here >= invited:
            return
        if time.monotonic() > until:
            if len(here) >= config.fewest:
                return
            said = f"here: {', '.join(sorted(here)) or 'none'}"
            raise Stalled(f"waited {config.patience:g} s for {', '.join(sorted(invited))}; {said}")
        time.sleep(PAUSE_S)
