"""Sites in this process, some of them absent at random."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .site import SiteRows, answer
from .talk import Talk


def converse(
    talk: Talk,
    sites: Mapping[str, SiteRows],
    family: str,
    absent: float = 0.0,
    seed: int = 0,
    watch: Callable[[], None] = lambda: None,
) -> Any:
    """To the end of the talk; `watch` is called after every exchange."""
    asked, exchange = next(talk), 0
    while True:
        draw = np.random.default_rng([seed, exchange]).random(len(sites))
        there = {site for site, x in zip(sites, draw, strict=True) if x >= absent}
        said = {
            site: answer(sites[site], family, question)
            for site, question in asked.questions.items()
            if site in there
        }
        exchange += 1
        try:
            asked = talk.send(said)
        except StopIteration as end:
            watch()
            return end.value
        watch()
