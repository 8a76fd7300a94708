"""The regression table as text."""

import numbers
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .estimator import FederatedGLM

WIDTH = 78


def summary(model: "FederatedGLM") -> str:
    left = [
        ("Family", model.family),
        ("Rows used", f"{model.n_rows_:,}"),
        ("Rows dropped", f"{model.n_dropped_:,}"),
        ("Sites", f"{model.n_sites_:,}"),
        ("Covariance", {"model": "model-based", "cluster": "cluster (site)"}[model.covariance]),
        ("Penalty", _penalty(model.l2)),
    ]
    right = [
        ("Deviance", f"{model.deviance_:.6g}"),
        ("Null deviance", f"{model.null_deviance_:.6g}"),
        ("Dispersion", f"{model.dispersion_:.5g}"),
        ("Log-likelihood", f"{model.log_likelihood_:.6g}"),
        ("AIC", f"{model.aic_:.6g}"),
        ("Exchanges", f"{model.n_exchanges_}"),
    ]
    half = WIDTH // 2 - 1
    head = [f"{_pair(a, half)}  {_pair(b, half)}" for a, b in zip(left, right, strict=True)]
    title = "Federated generalised linear model".center(WIDTH)
    return "\n".join([title, "=" * WIDTH, *head, "=" * WIDTH, *_table(model), "", *_words(model)])


def _penalty(l2) -> str:
    if isinstance(l2, numbers.Real):
        return f"{l2:g}" if l2 else "none"
    return "by coefficient"


def _pair(pair: tuple[str, str], width: int) -> str:
    name, value = pair
    return f"{name}:{value:>{width - len(name) - 1}}"


def _table(model: "FederatedGLM") -> list[str]:
    names = [str(name) for name in model.table_.index]
    first = max([16, *map(len, names)])
    titles = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    head = " " * first + "".join(f"{c:>11}" for c in titles)
    lines = []
    for name, (coef, std_err, z, p, low, high) in zip(names, model.table_.to_numpy(), strict=True):
        cells = f"{coef:>11.4g}{std_err:>11.4g}{z:>11.3f}{p:>11.3f}{low:>11.4g}{high:>11.4g}"
        lines.append(f"{name:<{first}}{cells}")
    return [head, "-" * len(head), *lines, "=" * len(head)]


def _words(model: "FederatedGLM") -> list[str]:
    cost = (
        f"{model.n_exchanges_} exchanges with {model.n_sites_} sites, "
        f"{model.n_uploads_:,} uploads, {model.bytes_up_:,} bytes sent by the sites."
    )
    error = model.certified_error_
    if model.converged_:
        proof = (
            f"Proven: no coefficient is further than {error:.2g} standard errors from that of the "
            "pooled data."
        )
    else:
        proof = (
            f"NOT proven to tol={model.tol:g}: the bound is {error:.2g} standard errors; "
            "raise max_exchanges."
        )
    return [cost, proof]
