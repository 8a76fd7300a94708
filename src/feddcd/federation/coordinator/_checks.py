"""What a site says, held against what a site can say, before anything is made of it.

Types and sizes of what it offers, names that are names, numbers that can be counts. Whatever does
not fit is refused by the site's name. Training's certificate is held in `_proof_checks`.
The mathematics of a table's answers is in `analysis`, which knows what they are sums of.
"""

import math
from collections.abc import Mapping
from typing import Any

from ..._errors import Refused
from ..._text import printable
from ...data.agreement import MAX_CLASSES, Offer
from ..wire import Envelope, read_refusal

LONGEST = 600  # letters of a reason that is shown
MOST_LETTERS = 500  # of a name or a level
MOST_COLUMNS = 20_000
MOST_FEATURES = 10**7
MOST_ROWS = 10**9
EXACT = 2**53  # larger whole numbers are not different from their neighbours


def reason_of(client: str, reason: str) -> str:
    """Why a site refuses, in its name where that is known: it cannot speak for another."""
    text = printable(reason)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    own = not client or text.startswith((f"{client}:", f"{client} "))
    return text if own else f"{client}: {text}"


def in_one_line(reasons: Mapping[str, str]) -> dict[str, str]:
    """By site, as a table has them: of words with single blanks between, and not too many."""
    plain = {site: printable(" ".join(why.split())) for site, why in reasons.items()}
    return {s: x if len(x) <= 2 * LONGEST else f"{x[: 2 * LONGEST]} ..." for s, x in plain.items()}


def check_count(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_ROWS:
        raise Refused(f"{what} is not a whole number from 0 to {MOST_ROWS:,}")
    return value


def check_names(given: Any, what: str) -> list[str]:
    if not isinstance(given, list) or len(given) > MOST_COLUMNS:
        raise Refused(f"the site must send its {what} as a list of at most {MOST_COLUMNS:,} names")
    for name in given:
        check_name(name, f"one of its {what}")
    if len(set(given)) < len(given):
        raise Refused(f"two of the site's {what} have the same name")
    return given


def check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MOST_LETTERS:
        raise Refused(f"the name of {what} must be a text of 1 to {MOST_LETTERS} characters")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise Refused(f"{what} has a name with a character that is not valid Unicode")


def check_levels(found: Any, what: str, most: int) -> None:
    if not isinstance(found, list) or len(found) > most:
        raise Refused(f"the levels of {what} must be a list of at most {most:,} levels")
    for level in found:
        if isinstance(level, str):
            if level:
                check_name(level, f"a level of {what}")
        elif not isinstance(level, int | float) or not is_number(level):
            raise Refused(f"{what} has a level that is neither a word nor a number")
    if len({(isinstance(level, str), level) for level in found}) < len(found):
        raise Refused(f"two levels of {what} are the same")


def is_number(value: int | float) -> bool:
    """Finite, and different from its neighbours."""
    return abs(value) <= EXACT if isinstance(value, int) else math.isfinite(value)


def check_welcome(offer: Offer) -> None:
    """A site that trains: what it says of itself goes into the ledger."""
    name = printable(offer.client[:MOST_LETTERS])
    if not 0 <= offer.rows <= MOST_ROWS:
        raise Refused(
            f"{name} says that it has {offer.rows:.3g} rows, but only 0 to ".replace("e+", "e")
            + f"{MOST_ROWS:,} rows are possible"
        )
    try:
        check_name(offer.client, "a site")
        if isinstance(offer.features, int):
            if not 0 <= offer.features <= MOST_FEATURES:
                raise Refused(
                    f"the site says that it has {offer.features:.3g} features, but only 0 to "
                    f"{MOST_FEATURES:,} features are possible"
                )
        elif len(offer.features) > MOST_COLUMNS * 10:
            raise Refused(
                f"the site says that it has {len(offer.features):,} columns, but at most "
                f"{MOST_COLUMNS * 10:,} columns are possible"
            )
        else:
            for each in offer.features:
                check_name(each, "one of its columns")
        if offer.classes is not None:
            check_levels(list(offer.classes), "its outcome", MAX_CLASSES)
    except Refused as error:
        raise Refused(f"{name}: {error}") from None


def refusal_of(site: str, envelope: Envelope) -> str:
    try:
        return reason_of(site, read_refusal(envelope).reason)
    except (KeyError, TypeError):
        return f"{site}: this site refused, but its answer contains no reason"
