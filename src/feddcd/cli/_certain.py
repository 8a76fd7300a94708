"""What `feddcd federation init --careful` foresees."""

from .._files import shown
from ..federation.folder import FederationFolder, load_places
from ..federation.site.policy import FILE, UNTRAINED
from ._habits import found
from ._terminal import warn


def warn_certain(folder: FederationFolder) -> None:
    """What careful rules refuse with these data: people would approve it in vain."""
    from ..federation.site.certain import certain_refusals  # with pandas

    if (plan := folder.config().plan) is None:
        found(refused=dict.fromkeys(folder.invited(), UNTRAINED))
        return warn(
            f"every site will refuse this training, because its policy does not allow {UNTRAINED}. "
            "To allow trainings, write training = true into the file policy.toml of each site"
        )
    refused = certain_refusals(load_places(folder), plan)
    found(refused=refused)
    for site, why in refused.items():
        warn(
            f"with these data, {site} will refuse this job, also after an approval ({why}). Change "
            f"the data or the job, or the rules in {shown(folder.site(site) / FILE)}"
        )
