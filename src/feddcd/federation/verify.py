"""A finished job of masked sums, worked out again from its proof: no data are needed for it."""

from pathlib import Path
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

    written = pd.read_csv(csv, index_col="name")
    own = found.result.original_table
    same = [str(name) for name in own.index] == [str(name) for name in written.index]
    if not same or not (abs(written - own.to_numpy()) <= 1e-9 * abs(own.to_numpy())).all(axis=None):
        raise Refused(f"{csv.name} is not the table that follows from the proof")
