"""What `feddcd federation join`, `retire` and `expel` do."""

import shlex
from pathlib import Path

from .._errors import SpecError
from .._files import shown
from .._text import sentence_list
from ..federation.enrolment.departed import after_departure, bar_departed, has_left
from ..federation.enrolment.desk import check_barred, pending, take_back
from ..federation.folder import FederationFolder
from ..federation.machine.init import add_site
from ..federation.machine.studies import state_of
from ..federation.sign_up import renew
from ._federation import look_at
from ._habits import found
from ._tables import check_invited, uninvite, up_again
from ._terminal import say


def barred_of(folder: FederationFolder) -> tuple[str, ...]:
    """Whom the ledger of a training knows as expelled."""
    return tuple(look_at(folder).server.barred) if folder.ledger.exists() else ()


def join_command(path: Path, site: str) -> None:
    folder = FederationFolder(path)
    check_barred(site, {*barred_of(folder), *folder.barred()})
    hand = f"send the folder {shown(add_site(folder, site))} to the person at {site}"
    renew(folder.server, {name: folder.site(name) for name in folder.invited()})
    found(site=site, folder=folder.site(site))
    say(f"{hand}. This person writes the path of the data file into site.toml.")
    say(f"The site joins when you run: {up_again(folder)}")


def depart_command(path: Path, sites: list[str], *, barred: bool) -> None:
    folder = FederationFolder(path)
    folder.config()
    new = [site for site in sites if site in pending(folder)]
    for site in new:
        _take_back(folder, site, barred)
    left = [site for site in sites if barred and site not in new and has_left(folder, site)]
    for site in left:
        folder.bar([site])
        bar_departed(folder, site)
        found(sites=[site], expelled=barred)
        say(f"{site} has already left the federation. From now on, {site} cannot be invited again")
    if sites := [site for site in sites if site not in (*new, *left)]:
        _depart(folder, sites, barred)


def _take_back(folder: FederationFolder, site: str, barred: bool) -> None:
    if barred:
        folder.bar([site])
    enrolled = take_back(folder, site, barred)
    found(sites=[site], expelled=barred)
    say(
        f"the enrolment of {site} is rejected: the coordinator deleted the keys that {site} sent, "
        f"and the invitation of {site} is no longer valid"
        if enrolled
        else f"the invitation of {site} is no longer valid"
    )
    if barred:
        return say(f"from now on, you cannot invite a site with the name {site!r}")
    again = f"feddcd federation invite {shlex.quote(shown(folder.path))} {site}"
    say(f"to invite {site} again: {again}")


def _depart(folder: FederationFolder, sites: list[str], barred: bool) -> None:
    from ..federation.coordinator.repeats import repeats_to_avoid

    if folder.config().plan is not None or not folder.ledger.exists():
        check_invited(folder, sites)
        for study in map(folder.of_study, folder.studies()):
            if study.ledger.exists():  # of a training: its sums are made right without them
                study.request(tuple(sites), barred)
        uninvite(folder, sites, barred)
        for name in folder.studies():
            study = folder.of_study(name)
            if state_of(study)["state"] == "running" and study.config().plan is not None:
                say(
                    f"study {name!r} ends now without a result, because {sentence_list(sites)} took "
                    f"part in it. {after_departure(study, sites)}"
                )
        for line in repeats_to_avoid(folder, sites):
            say(line)
        return
    members = look_at(folder).server.members
    for site in sites:
        if site not in members:
            raise SpecError(f"{site!r} is not a member; the members are: {', '.join(members)}")
    folder.request(tuple(sites), barred)
    found(sites=sites, expelled=barred)
    if barred:
        folder.bar(sites)
    say(
        f"{', '.join(sites)} can leave when all other sites have sent their last sums. If "
        f"the training does not run now, run: {up_again(folder)}"
    )
