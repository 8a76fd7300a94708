"""What `feddcd federation init --careful` and `simulate --job` foresee."""

from collections.abc import Sequence
from typing import Any

from .._files import shown
from ..analysis.protocol import TWO_SITES
from ..federation.folder import FederationFolder, load_places
from ..federation.site.policy import FILE, UNTRAINED
from ..sums.roster import FEWEST
from ._habits import as_json, found
from ._terminal import note, say, warn


def warn_of_two(plan: Any, sites: Sequence[str]) -> None:
    if plan is not None and len(sites) == 2:
        warn(TWO_SITES)


def warn_certain(folder: FederationFolder, more: str = "") -> None:
    """What careful rules refuse with these data: people would approve it in vain. `more` is said
    where anything is."""
    from ..federation.site.certain import certain_refusals  # with pandas

    if (plan := folder.config().plan) is None:
        found(refused=dict.fromkeys(folder.invited(), UNTRAINED))
        return warn(
            f"every site will refuse this training, because its policy does not allow {UNTRAINED}. "
            "To allow trainings, write training = true into the file policy.toml of each site"
        )
    places = load_places(folder)
    refused = certain_refusals(places, plan)
    found(**{"foreseen" if more else "refused": refused})  # a run has its own word for the second
    if not refused:
        tell = note if as_json() else say
        tell("with these data, feddcd found no site that refuses this job")
    for site, why in refused.items():
        warn(
            f"with these data, the site {site!r} will refuse this job, even if a person approves "
            f"it. Reason: {why}. Change the data, the job, or the rules in "
            f"{shown(folder.site(site) / FILE)}"
        )
    if refused and more:
        warn(more)
    left = len(places) - len(refused)
    if refused and left < FEWEST <= len(places):
        few = f"only {left} of {len(places)} sites" if left else "no site"
        warn(
            f"{few} will take part, so there will be no table: a sum needs at least {FEWEST} sites"
        )
