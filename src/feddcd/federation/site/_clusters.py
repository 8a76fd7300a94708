"""Standard errors by cluster: what their sums reveal beside those of another job.

They add up products of two rows of the same cluster. Of two jobs, one by cluster and the other not,
or by another column, the difference holds the pairs of rows that one of them alone has together: of
two rows, it is these two rows.
"""

from typing import Any

import numpy as np

from ..._errors import FeddcdError
from ..._text import plural
from ...analysis.protocol import SiteRows
from ._sets import least_apart
from .memory import Memory
from .policy import Policy, Ruled, not_allowed


def check_by_site(policy: Policy, plan: Any) -> None:
    """Where the site itself is the cluster, its own gradient enters, squared: two sites' sums of
    both reveal those of each. No value is looked at."""
    alone = getattr(plan, "covariance", "") == "cluster" and plan.cluster is None
    if alone and policy.answers != "each" and policy.min_support > 1:
        raise not_allowed(
            "standard errors by site, because these standard errors reveal numbers of single "
            "sites (answers = 'sum' in policy.toml). A new plan can name a column of "
            "clusters instead"
        )


def check_clusters(
    policy: Policy, rows: SiteRows, facts: Any, parameters: int, id: str | None, memory: Memory
) -> None:
    """Rows that are together with others here than in another job on the same rows are none, or so
    many as sets of rows have to differ by."""
    if policy.min_support < 2:
        return
    least = least_apart(policy, parameters)
    alone = np.arange(rows.n)
    own = alone if rows.cluster is None else rows.cluster
    for other in [alone, *_earlier(facts, id, memory)]:
        if 0 < (few := _apart(own, other)) < least:
            what = (
                "share their cluster with other rows"
                if other is alone
                else "are in other clusters than in an earlier job"
            )
            told = (
                f"only {plural(few, 'row')} {what}. The number of such rows must be 0, or at "
                f"least {least}"
            )
            raise Ruled("clusters", told)


def _earlier(facts: Any, id: str | None, memory: Memory) -> list[np.ndarray]:
    """The clusters of earlier jobs over the same rows."""
    found = []
    for job, known in memory.jobs().items():
        if facts.rebuild is None or id is None or job == facts.job or known["set"] != id:
            continue
        try:
            made_of = [known.get(name, "") for name in ("plan", "agreed", "caps")]
            again = facts.rebuild(*made_of) if known.get("plan") else None
        except FeddcdError:  # the export of today lacks what it was made of
            continue
        if again is not None and again.cluster is not None:
            found.append(again.cluster)
    return found


def _apart(a: np.ndarray, b: np.ndarray) -> int:
    """Rows that are not with the same rows in both partitions."""
    codes = [np.unique(x, return_inverse=True)[1].ravel() for x in (a, b)]
    both = np.unique(codes[0] * (codes[1].max(initial=0) + 1) + codes[1], return_inverse=True)[1]
    one, other, shared = (np.bincount(x)[x] for x in (*codes, both.ravel()))
    return int(np.sum((one != shared) | (other != shared)))
