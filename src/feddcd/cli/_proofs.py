"""What `feddcd federation roster` and `verify` do where sums are masked."""

import dataclasses
import shlex
from pathlib import Path

from .._errors import FolderError, Refused, SpecError
from .._files import shown
from .._text import plural, printable
from ..federation import sign_up
from ..federation.folder import FederationFolder, load_place
from ..federation.roster import ROSTER, EarlierRoster, held_before, load_roster
from ..federation.site.log import read_log, verify_log
from ..federation.status import OWN
from ..federation.trial import is_trial
from ..federation.verify import (
    Verified,
    check_files,
    check_own,
    check_roster,
    check_table,
    in_other_words,
    not_compared,
    verify_proof,
)
from ..sums.proof import JobProof
from ..sums.roster import Roster
from ._ending import judged
from ._habits import found
from ._terminal import say, say_lines, width

VERIFIED = "VERIFIED"
NO_LIST = (
    "there is no list of sites (roster) yet. This is normal: the coordinator makes the list "
    "when the first study begins. Then a person at each site calls the other sites, compares "
    "the roster words and approves the list"
)
NOT = f"NOT {VERIFIED}: do not use this result before you know the reason"


def roster_command(
    folder: Path, key: bool, members: list[Path], sign: Path | None, merge: list[Path]
) -> None:
    at_site = (folder / "site.toml").exists()
    if (key or sign) and not at_site:
        raise SpecError(
            f"--key and --sign work in the folder of a site, but {folder} is the folder "
            "of a coordinator"
        )
    if (members or merge) and at_site:
        raise SpecError(
            f"--member and --merge work in the folder of a coordinator, but {folder} is "
            "the folder of a site"
        )
    if key:
        sign_up.new_member(folder, load_place(folder).client)
        found(member=folder / sign_up.MEMBER)
        return say(
            f"send {shown(folder / sign_up.MEMBER)} to the coordinator; this file has no secret"
        )
    server = folder if at_site else FederationFolder(folder).server
    if members:
        _show(sign_up.propose(server, map(sign_up.read_member, members)))
    elif sign:
        _show(sign_up.sign(folder, sign))
    elif merge:
        _show(sign_up.merge(server, merge))
    else:
        if not (server / ROSTER).exists():
            found(words=None, sites=[], unsigned=[])
            return say(NO_LIST)
        _show(sign_up.read_roster(server / ROSTER))


def _show(roster: Roster) -> None:
    say(
        "these are the roster words. Call every other site in the list, at a phone number that "
        "you found yourself; all people must have the same words:"
    )
    say(f"  {roster.words()}")
    missing = sign_up.unsigned(roster)
    found(words=roster.words(), sites=list(roster.names), unsigned=list(missing))
    for name in roster.names:
        say(f"  {printable(name)}: {'has not signed' if name in missing else 'signed'}")
    if missing:
        say(
            "no sum is possible until all sites have signed the roster; each site signs with: "
            "feddcd federation roster SITE_DIR --sign FILE"
        )


def verify_job_command(place: Path | FederationFolder, site: Path | None = None) -> None:
    """Of a proof, and at a site of its log and table; of a copy of a study, with
    its table; or of a federation or a study, with its table and roster."""
    results = place if isinstance(place, Path) else place.results
    file = results / "proof" if results.is_dir() else results
    if not file.is_file():
        if isinstance(place, FederationFolder) and not place.events.exists():
            raise SpecError(f"this study did not run yet. To run it: {_first_run(place)}")
        raise SpecError(
            f"there is no proof at {shown(file)}; a job in mode 'sum' writes a proof at its end. "
            "Give the folder of a federation or of a study, or a proof file"
        )
    with judged(NOT):
        try:
            proven = verify_proof(JobProof.read(file))
        except Refused as reason:
            raise Refused(f"this proof was changed, or is not complete: {reason}") from None
        table = _table_of(results, proven)
        copied = isinstance(place, Path)
        compared = check_table(proven, table) if table and (not copied or table.exists()) else []
        around = [] if isinstance(place, Path) else _check_around(place, proven)
        logged, own = _check_site(site, proven) if site is not None else ("", [])
    certified = "certified_error" in proven.result.facts()  # a description has no certificate
    parts = "questions, table and certificate" if certified else "questions and table"
    say(f"{VERIFIED}: signatures, sums, {parts} are right")
    others = not_compared(table, compared) if table and compared else []
    for line in filter(None, (*around, in_other_words(proven, others))):
        say(line)
    job, result, found_id = proven.proof.job, proven.result, proven.proof.id.hex()
    study = logged if isinstance(place, Path) else place.study
    found(
        valid=True, job=job.short, study=study, id=found_id, version=job.version,
        roster=proven.proof.roster.words(), exchanges=len(proven.proof.exchanges) - 1,
        said=list(proven.said()), compared=compared, not_compared=[],
    )  # fmt: skip
    say("all sites in this proof signed this plan:")
    for line in proven.about():
        say(f"  {printable(line)}")
    found(about=proven.about())
    say_lines(result.summary(width()))
    say(f"job {job.short} of feddcd {printable(job.version)}")
    if study:
        where = f"the log of {load_place(site).client} has" if site else "the study's folder has"
        told = f"{where} this name; no site signed this name"
        say(f"name of the study: {printable(study)!r} ({told})")
    if isinstance(place, Path) or not is_trial(place):  # whose sites are all on this machine
        say(f"the roster words of the list of sites are: {proven.proof.roster.words()}")
        say(
            "A proof does not contain the name of a federation. To know that these are the right "
            "sites, compare these words by phone with a person at each site. There, this command "
            "shows the words: feddcd federation status SITE_DIR"
        )
    for line in proven.said():
        say(f"  {printable(line)}")
    spent = plural(len(proven.proof.exchanges) - 1, "exchange")
    say(
        f"feddcd calculated everything again, from {spent} for the table and 1 exchange for the "
        "counts. Signatures, sums, every question, "
        + ("the table and its certificate are right" if certified else "and the table are right")
    )
    if table and compared:
        say(f"these files follow from the proof: {', '.join(compared)}")
        found(not_compared=others)
        say(f"  feddcd did not compare these files: {', '.join(map(printable, others)) or 'none'}")
    elif own:
        for line in own:
            say(line)
    else:
        say("the table above follows from the proof; feddcd compared no other files")
    if not isinstance(place, Path):
        _say_others(place)


def _first_run(study: FederationFolder) -> str:
    at = shlex.quote(shown(study.path))
    do = "serve" if study.study else "simulate" if is_trial(study) else "up"
    return f"feddcd federation {do} {at}"


def _say_others(folder: FederationFolder) -> None:
    """A federation can have more tables than the one that was checked."""
    every = [dataclasses.replace(folder, study=name) for name in ("", *folder.studies())]
    proven = [each for each in every if (each.results / "proof").is_file()]
    others = [each.study or OWN for each in proven if each.study != folder.study]
    found(not_checked=others)
    for name in others:
        say(
            f"this federation also has the study {printable(name)!r}. feddcd did not check this "
            f"study now. To check it: feddcd federation verify {shlex.quote(shown(folder.path))} "
            f"{shlex.quote(name)}"
        )


def _check_site(folder: Path, proven: Verified) -> tuple[str, list[str]]:
    """For who has the log of a site, and perhaps a table that came back: the study, and lines."""
    place, count = load_place(folder), len(proven.proof.exchanges)
    verify_log(folder)
    study = check_own(proven, place.client, read_log(folder))
    there = folder / "results" / study
    files = check_files(proven, there) if study and there.is_dir() else []
    found(own_answers=count, own_files=files)
    own = f"this proof has {plural(count, 'answer')} of the site {place.client!r}. The log of"
    table = (
        f"these files in {shown(there)} follow from the proof: {', '.join(files)}"
        if files
        else f"{place.client} got no table of this study, so feddcd compared no table at this site"
    )
    return study, [f"{own} this site has the same answers to this job, and no others", table]


def _check_around(folder: FederationFolder, proven: Verified) -> list[str]:
    """The roster of the federation, or one that it had; and what a reader should know."""
    lines = _earlier(folder, held_before(folder.server, proven.proof.roster.digest))
    if not lines and (folder.server / ROSTER).exists():
        check_roster(proven, load_roster(folder.server))
    plan = folder.config().plan
    same = proven.proof.job.plan == plan.to_dict() | {"analysis": plan.analysis}
    found(same_plan=same)
    other = "CAREFUL: the plan in this folder has changed. The proof belongs to another plan"
    return lines if same else [*lines, other]


def _earlier(folder: FederationFolder, before: EarlierRoster | None) -> list[str]:
    """That a result was made with another list of sites than that of now; nothing otherwise."""
    if before is None:
        return []
    found(earlier_roster={"sites": list(before.roster.names), "time": before.time})
    try:
        now = load_roster(folder.server)
    except FolderError:  # a proposal, which not all have signed yet
        now = None
    return before.told(now)


def _table_of(results: Path, proven: Verified) -> Path | None:
    """Where the table of a proof is in the folder of its study; none beside a proof file."""
    from ..analysis.registry import ANALYSES

    analysis = ANALYSES[str(proven.proof.job.plan["analysis"])]
    return results / analysis.part / analysis.proven if results.is_dir() else None


def verify_training_command(folder: FederationFolder) -> None:
    from ..federation.coordinator.inspect import verify

    with judged(NOT):
        seen = verify(folder)
    found(valid=True, records=seen.records, signed=list(seen.signed), roster=seen.words)
    say(
        f"{VERIFIED}: all {seen.records} records are right. Each record follows from the record "
        "before it, and the sums and the model follow from the records"
    )
    for line in _earlier(folder, seen.earlier):
        say(line)
    there = lambda *names: [name for name in names if (folder.results / name).exists()]
    others = there("config.toml", "history.csv", "report.html")
    found(compared=there("model.npz", "summary.json"), not_compared=others)
    say(f"  feddcd did not compare these files: {', '.join(others) or 'none'}")
    if not seen.signed:
        return say(
            "no site signed these records, so this check shows only that the files of the "
            "coordinator agree with each other"
        )
    say("every question, and the certificate in summary.json, follow from what these sites signed:")
    say(f"  {', '.join(map(printable, seen.signed))}")
    say(f"roster: {seen.words}")
