"""A finished job of masked sums, worked out again from its proof: no data are needed for it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from .._errors import FeddcdError, Refused
from ..sums.proof import JobProof
from .following import FollowedJob


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
    """The table that lies beside a proof is the one that follows from it, to the last digits."""
    import pandas as pd

    written = pd.read_csv(csv, keep_default_na=False, dtype=str)
    with TemporaryDirectory() as folder:
        next(path for path in found.result.write(Path(folder)) if path.name == csv.name)
        own = pd.read_csv(Path(folder, csv.name), keep_default_na=False, dtype=str)
    number = lambda frame: frame.apply(pd.to_numeric, errors="coerce")
    words = lambda frame: frame.where(number(frame).isna(), "")
    same = list(own) == list(written) and len(own) == len(written)
    if same:
        near = abs(number(written) - number(own)) <= 1e-9 * abs(number(own))
        same = (near | number(own).isna()).all(axis=None) and words(own).equals(words(written))
    if not same:
        raise Refused(f"{csv.name} is not the table that follows from the proof")
