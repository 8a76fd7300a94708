"""Outcomes that vary more than the family allows, or hardly more than in a simpler one."""

from ._measures import OVERDISPERSED
from ._result import TableResult

MORE_SPREAD = {  # by family: those with the same mean, whose outcomes may vary more
    "binomial": ["quasibinomial"],
    "poisson": ["quasipoisson", "negative_binomial"],
}


def over_dispersion(result: TableResult, remedy: bool = True) -> str:
    """In words, or nothing."""
    if not result.overdispersed:
        return ""
    ratio = result.pearson / result.df_residual
    return (
        f"Over-dispersion: Pearson's X² is {ratio:.3g} times its degrees of freedom "
        f"(this note appears above {OVERDISPERSED:g}). The outcomes vary more than the "
        f"family allows{_allowed(result, remedy)}"
    )


def _allowed(result: TableResult, remedy: bool) -> str:
    """Robust standard errors hold whatever the variance is; those of the model do not."""
    if result.covariance != "model":
        errors = f"{'clustered' if result.covariance == 'cluster' else 'robust'} standard errors"
        return f". The {errors} of this table take this larger variation into account."
    families = "".join(f" or --family {name}" for name in MORE_SPREAD.get(result.family, ()))
    cure = f" Use --covariance HC1{families}." if remedy else ""
    return f", so the standard errors are too small.{cure}"


def uncertain_theta(result: TableResult, remedy: bool = True) -> str:
    """Where the outcomes hardly vary more than Poisson's: theta then runs off, and so does its
    standard error, as 1/theta is near 0."""
    theta, std_err = result.theta, result.theta_se
    if theta is None or std_err is None or std_err <= theta:
        return ""
    advice = ". --family poisson gives almost the same table" if remedy else ""
    return (
        "The outcomes hardly vary more than in a Poisson model, so theta is not well known: its "
        f"standard error is larger than theta{advice}."
    )
