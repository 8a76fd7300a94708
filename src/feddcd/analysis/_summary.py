"""The table as text."""

import numbers

from . import _more
from ._result import TableResult
from ._robust import named, notes
from .families import CHOICES

WIDTH = 78


def summary(result: TableResult) -> str:
    left = [
        ("Family", _family(result)),
        ("Rows used", f"{result.n_rows:,}"),
        ("Rows dropped", f"{result.n_dropped:,}"),
        ("Sites", f"{result.n_sites:,}"),
        ("Covariance", named(result.covariance, result.n_clusters)),
        ("Penalty", _penalty(result.l2)),
    ]
    right = [
        ("Deviance", f"{result.deviance:.6g}"),
        ("Null deviance", f"{result.null_deviance:.6g}"),
        ("Dispersion", f"{result.dispersion:.5g}"),
        ("Log-likelihood", f"{result.log_likelihood:.6g}"),
        ("AIC", f"{result.aic:.6g}"),
        ("Exchanges", f"{result.n_exchanges}"),
    ]
    half = WIDTH // 2 - 1
    head = [f"{_pair(a, half)}  {_pair(b, half)}" for a, b in zip(left, right, strict=True)]
    title = "Federated generalised linear model".center(WIDTH)
    body = [*_table(result), "", *_words(result), *_more.lines(result.more)]
    return "\n".join([title, "=" * WIDTH, *head, "=" * WIDTH, *body])


def _family(result: TableResult) -> str:
    usual = result.link == CHOICES[result.family][0]
    return result.family if usual else f"{result.family}, {result.link}"


def _penalty(l2) -> str:
    if isinstance(l2, numbers.Real):
        return f"{l2:g}" if l2 else "none"
    return "by coefficient"


def _pair(pair: tuple[str, str], width: int) -> str:
    name, value = pair
    return f"{name}:{value:>{width - len(name) - 1}}"


def _table(result: TableResult) -> list[str]:
    names = [str(name) for name in result.table.index]
    first = max([16, *map(len, names)])
    titles = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    head = " " * first + "".join(f"{c:>11}" for c in titles)
    lines = []
    for name, (coef, std_err, z, p, low, high) in zip(names, result.table.to_numpy(), strict=True):
        cells = f"{coef:>11.4g}{std_err:>11.4g}{z:>11.3f}{p:>11.3f}{low:>11.4g}{high:>11.4g}"
        lines.append(f"{name:<{first}}{cells}")
    return [head, "-" * len(head), *lines, "=" * len(head)]


def _left_out(result: TableResult) -> list[str]:
    """What R would show as NA."""
    if not result.left_out:
        return []
    named = ", ".join(result.left_out)
    return [f"Left out, as no row is there or other columns determine them: {named}."]


def _words(result: TableResult) -> list[str]:
    cost = (
        f"{result.n_exchanges} exchanges with {result.n_sites} sites, "
        f"{result.n_uploads:,} uploads, {result.bytes_up:,} bytes sent by the sites."
    )
    error = result.certified_error
    if result.unproven:
        how = "has settled" if result.converged else "has NOT settled; raise max_exchanges"
        proof = f"Not proven: {result.unproven}. Newton's method {how}."
    elif result.converged:
        proof = (
            f"Proven: no coefficient is further than {error:.2g} standard errors from that of the "
            "pooled data."
        )
    else:
        proof = (
            f"NOT proven to tol={result.tol:g}: the bound is {error:.2g} standard errors; "
            "raise max_exchanges."
        )
    return [*_left_out(result), cost, proof, *notes(result.covariance, result.n_clusters)]
