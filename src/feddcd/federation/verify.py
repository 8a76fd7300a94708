"""A finished job of masked sums, worked out again from its proof: no data are needed for it."""

import csv
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from .._errors import FeddcdError, Refused
from .._files import Disk
from .._text import printable
from ..analysis.registry import read_plan
from ..sums.proof import JobProof
from ..sums.roster import Roster
from .following import FollowedJob, version

OWN = ("sites_refused",)
REFUSED = "Not part of this table: "
SITE = r"'(?:[A-Za-z0-9]|-(?:\{\})?|\\_){1,200}'"  # as LaTeX and Markdown have its name
SITES = rf"{SITE}(?:, {SITE}){{0,10}}(?:, and [0-9]{{1,9}} more)?"
LACKING = re.compile(rf"{REFUSED}{SITES}\.", re.ASCII)
REPORT = "report.html"
PRINTED = tuple(f"{name}.{end}" for name in ("table1", "by_site") for end in ("csv", "tex", "md"))
PRINTED = ("summary.txt", *PRINTED)
PRINTED += ("coefficients.tex", "coefficients.md")
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{0,30})?(e[+-]?[0-9]{1,3})?", re.ASCII)
EXACT = ("classes",)  # of model.json: numbers that are names
MOST_BYTES = 1 << 28  # of one file
LONGEST = 2000  # letters of a line on who refused


class Verified(NamedTuple):
    proof: JobProof
    result: Any
    sums: tuple[dict, ...]  # of each exchange, the first counts

    def about(self) -> list[str]:
        """What was asked, of the plan that all sites signed."""
        plan, job = read_plan(self.proof.job.plan), self.proof.job
        what = (
            [f"formula: {plan.formula}", f"family: {plan.family}, link: {plan.link}"]
            if hasattr(plan, "formula")
            else [f"description of: {', '.join(plan.names)}", *_groups(plan)]
        )
        book = f"codebook with the digest {job.codebook[:16]}" if job.codebook else "no codebook"
        return [*what, f"sites: {', '.join(job.cohort)}; {book}"]

    def said(self) -> list[str]:
        """Which site signed what, in words."""
        job, roster = self.proof.job, self.proof.roster
        answers = len(self.proof.exchanges)
        return [
            f"{site}: signed the roster, a nonce (a random number) for this job, and {answers} "
            "masked answers (one for the counts, and one for each other exchange)"
            if site in job.cohort
            else f"{site}: signed the roster, and takes no part in this job"
            for site in roster.names
        ]


def _groups(plan: Any) -> list[str]:
    return [f"groups: {plan.by}"] if plan.by else []


def verify_proof(proof: JobProof) -> Verified:
    """Signatures, sums, every question, the result; Refused says what is wrong."""
    proof.check()
    follow, sums = FollowedJob(proof.job), []
    try:
        for number, exchange in enumerate(proof.exchanges):
            follow.read(exchange.question)
            follow.check_layout(exchange.layout)
            sums.append(proof.sums(number))
            follow.take(sums[-1])
    except Refused as reason:
        raise Refused(f"exchange {follow.number}: {reason}") from None
    except (FeddcdError, ArithmeticError) as error:
        raise Refused(
            f"exchange {follow.number}: feddcd cannot compute the next question from the sums: "
            f"{error}"
        ) from None
    if follow.result is None:
        raise Refused("the proof is incomplete: it ends before the end of the job")
    result: Any = follow.result
    return Verified(proof, result.with_sites({"all": follow.dropped}, {}), tuple(sums))


def check_table(found: Verified, table: Path) -> list[str]:
    """The table beside a proof, and what else is beside it, follows from the proof, to the
    last digits; what is not there is not looked at. The names of what was compared."""
    if not table.is_file():
        raise Refused(f"{table.name} is missing, so feddcd cannot compare it with the proof")
    return check_files(found, table.parent)


def check_files(found: Verified, there: Path) -> list[str]:
    """The same of all files in a folder, whichever these are. Another version may have other words
    for the same numbers: then its words are not compared, but its numbers are."""
    compared = []
    with TemporaryDirectory() as folder:
        for path in found.result.write(Path(folder)):
            if path.name == REPORT:
                break
            written = there / path.name
            same = SAME.get(path.suffix)
            if same is None or not written.exists():
                continue
            if not written.is_file() or not same(written, path):
                if path.name in PRINTED and found.proof.job.version != version("feddcd"):
                    continue
                told = "somebody changed the file"
                raise Refused(f"{path.name} disagrees with the proof: {told}")
            compared.append(path.name)
    return compared


def not_compared(table: Path, compared: list[str]) -> list[str]:
    """What else is beside a table: whoever reads it has to believe who wrote it."""
    return sorted({path.name for path in table.parent.iterdir()} - set(compared))


def in_other_words(found: Verified, others: list[str]) -> str:
    """Of files that were not compared: that another version wrote them, or nothing."""
    names = [name for name in others if name in PRINTED]
    told = f"CAREFUL: feddcd {printable(found.proof.job.version)} made this proof. That version"
    told = f"{told} writes some texts differently, so feddcd did not compare these files"
    return f"{told}: {', '.join(names)}" if names else ""


EARLIER = "  at least 0", " none or few"  # words of version 0.2.0, and those of today
FORMULA = "Formula: "  # begins a line that tables of version 0.2.0 do not have


def _same_table(written: Path, own: Path) -> bool:
    """Cell by cell, as any program reads them: nothing is skipped, and nothing may follow."""
    try:
        a, b = (list(csv.reader(_lines(path), strict=True)) for path in (own, written))
    except (csv.Error, ValueError):
        return False
    b = [row for row in b if not _says_who_refused(row)]
    return len(a) == len(b) and all(
        len(x) == len(y) and all(map(_same_cell, x, y)) for x, y in zip(a, b, strict=True)
    )


def _says_who_refused(row: list[str]) -> bool:
    """A site and its reason, as a Table 1 has them, and nothing else."""
    told = len(row) > 1 and row[1].startswith(REFUSED) and all(map(_is_reason, row))
    return told and not any(row[2:])


def _same_cell(own: str, written: str) -> bool:
    """Last digits may differ where a number was computed; a whole number may be a code, and near
    it is the code of something else."""
    if own == written:
        return True
    if not (NUMBER.fullmatch(own) and NUMBER.fullmatch(written)) or not set(own) & set(".e"):
        return False
    return abs(float(written) - float(own)) <= 1e-9 * abs(float(own))


def _same_text(written: Path, own: Path) -> bool:
    """But for who refused, which only the coordinator knows."""
    try:
        told = _lines(written)
        both = _lines(own), [line.replace(*EARLIER) for line in told]
        a, b = ([line for line in lines if not line.startswith(REFUSED)] for lines in both)
        if not any(line.startswith(FORMULA) for line in b):
            a = [line for line in a if not line.startswith(FORMULA)]
    except ValueError:
        return False
    return a == b and all(_is_reason(line) for line in told if line.startswith(REFUSED))


def _same_paper(written: Path, own: Path) -> bool:
    """The same of a table for a paper: a note stands below an empty line, and has names alone."""
    try:
        told, mine = _lines(written), _lines(own)
    except ValueError:
        return False
    gone = [i for i, line in enumerate(told) if line.startswith(REFUSED)]
    if not all(i and not told[i - 1] and LACKING.fullmatch(told[i]) for i in gone):
        return False
    return mine == [x for i, x in enumerate(told) if i not in gone and i + 1 not in gone]


def _is_reason(text: Any) -> bool:
    """One line, also as a terminal shows it: no second table is drawn in it."""
    return (
        isinstance(text, str)
        and len(text) <= LONGEST
        and printable(text) == text
        and re.search(r"\s\s", text) is None
    )


def _lines(path: Path) -> list[str]:
    return _text(path).split("\n")


def _text(path: Path) -> str:
    """ValueError for what is no text, or more than fits into memory."""
    try:
        return (Disk().read(path, MOST_BYTES) or b"").decode()
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None


def _same_model(written: Path, own: Path) -> bool:
    """But for who refused."""
    try:
        a, b = (json.loads(_text(path), object_pairs_hook=once) for path in (own, written))
        for name in OWN:
            a.pop(name, None)
            if not all(map(_is_reason, itertools.chain.from_iterable(b.pop(name, {}).items()))):
                return False
        return _near(a, b)
    except (ValueError, AttributeError, RecursionError, OverflowError):
        return False


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that is there twice one program reads the first, another one the last."""
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("a name occurs twice")
    return made


SAME = {".csv": _same_table, ".json": _same_model}
SAME |= {".txt": _same_text, ".tex": _same_paper, ".md": _same_paper}


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(
            a[k] == b[k] if k in EXACT else _near(a[k], b[k]) for k in a
        )
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_near, a, b))
    if type(a) is float and type(b) in (int, float):
        return bool(np.isclose(b, a, rtol=1e-9, atol=0.0))
    return type(a) is type(b) and a == b


def check_own(found: Verified, client: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """What a site logged of its masked answers is what the proof has of them, neither more nor
    less. The study, as the log has it."""
    job, own = found.proof.job, {}
    if client not in job.cohort:
        raise Refused(f"the site {client!r} takes no part in the job of this proof")
    for entry in entries:
        if entry.get("name") == job.digest.hex() and "sha256" in entry:
            run = own.setdefault(entry["job"], ({}, entry.get("study", "")))
            run[0][entry["exchange"]] = entry["sha256"]
    if not own:
        told = f"the log of the site {client!r} has no answer to the job {job.short}"
        raise Refused(f"{told} of this proof")
    words = (each.answers[client].words for each in found.proof.exchanges)
    proven = {number: hashlib.sha256(each).hexdigest() for number, each in enumerate(words)}
    same = [study for logged, study in own.values() if logged == proven]
    if not same:
        told = f"the proof and the log of the site {client!r} contain different answers"
        raise Refused(f"{told} of this site to the job {job.short}")
    return same[0]


def check_roster(found: Verified, roster: Roster) -> None:
    """The proof is of the sites that this folder knows, with the keys that it knows."""
    if found.proof.roster.digest != roster.digest:
        told = f"The roster words in the proof are: {found.proof.roster.words()}"
        raise Refused(
            "the proof was made with a roster (a list of sites) that is not in this folder: it is "
            f"neither the current roster nor an earlier one. {told}"
        )
