"""A finished job of masked sums, worked out again from its proof: no data are needed for it."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from .._errors import FeddcdError, Refused
from ..sums.proof import JobProof
from ..sums.roster import Roster
from .following import FollowedJob

BESIDE = ("model.json", "table1.csv", "patterns.csv")
OWN = ("sites_refused",)


class Verified(NamedTuple):
    proof: JobProof
    result: Any
    sums: tuple[dict, ...]  # of each exchange, the first counts

    def said(self) -> list[str]:
        """Which site signed what, in words."""
        job, roster = self.proof.job, self.proof.roster
        answers = len(self.proof.exchanges)
        return [
            f"{site}: signed the roster, a nonce for this job, and {answers} masked answers"
            if site in job.cohort
            else f"{site}: signed the roster; it takes no part in this job"
            for site in roster.names
        ]


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
        raise Refused(f"exchange {follow.number}: no question follows from it: {error}") from None
    if follow.result is None:
        raise Refused("the proof ends before the job does")
    result: Any = follow.result
    return Verified(proof, result.with_sites({"all": follow.dropped}, {}), tuple(sums))


def check_table(found: Verified, csv: Path) -> None:
    """The table that lies beside a proof, and what lies beside that, follows from the proof, to the
    last digits; what is not there is not looked at."""
    beside = [name for name in BESIDE if (csv.parent / name).exists()]
    with TemporaryDirectory() as folder:
        left = {csv.name, *beside}
        for path in found.result.write(Path(folder)):
            left.discard(path.name)
            if not left:
                break
        for name in dict.fromkeys([csv.name, *beside]):
            same = _same_model if name.endswith(".json") else _same_table
            if not same(csv.parent / name, Path(folder, name)):
                raise Refused(f"{name} is not the one that follows from the proof: it was changed")


def _same_table(written: Path, own: Path) -> bool:
    import pandas as pd

    a, b = (pd.read_csv(path, keep_default_na=False, dtype=str) for path in (own, written))
    if list(a) != list(b) or len(a) != len(b):
        return False
    number = lambda frame: frame.apply(pd.to_numeric, errors="coerce")
    words = lambda frame: frame.where(number(frame).isna(), "")
    near = abs(number(b) - number(a)) <= 1e-9 * abs(number(a))
    return bool((near | number(a).isna()).all(axis=None)) and words(a).equals(words(b))


def _same_model(written: Path, own: Path) -> bool:
    """But for who refused, which only the coordinator knows."""
    try:
        a, b = (json.loads(path.read_text("utf-8")) for path in (own, written))
        return _near(*({k: v for k, v in each.items() if k not in OWN} for each in (a, b)))
    except (ValueError, AttributeError):
        return False


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(_near(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_near, a, b))
    pair: list[Any] = [a, b]
    if all(isinstance(x, int | float) and not isinstance(x, bool) for x in pair):
        return bool(np.isclose(pair[1], pair[0], rtol=1e-9, atol=0.0))
    return type(a) is type(b) and a == b


def check_roster(found: Verified, roster: Roster) -> None:
    """The proof is of the sites that this folder knows, with the keys that it knows."""
    if found.proof.roster.digest != roster.digest:
        told = f"its six words are {found.proof.roster.words()}"
        raise Refused(f"the proof is of another roster than the one in this folder: {told}")
