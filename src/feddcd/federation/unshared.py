"""Who did not get the table of a study in which it took part, from the events of the study."""

from .folder import FederationFolder

SHARED, UNSHARED = "shared", "not shared"  # events


def unshared(study: FederationFolder) -> list[str]:
    """The sites to which the table was not delivered yet. Who left does not get it any more."""
    last = {
        str(event.get("site")): event["event"]
        for _, event in study.read_events()
        if event["event"] in (SHARED, UNSHARED)
    }
    missed = {site for site, event in last.items() if event == UNSHARED}
    return sorted(missed & set(study.invited())) if missed else []
