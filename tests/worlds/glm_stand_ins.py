"""Fitted models for tests of what is shown and exported: the same attributes, from plain numpy."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
from scipy.special import softmax
from scipy.stats import norm, t

from feddcd.analysis._cost import Choice
from feddcd.analysis._measures import LinearFit
from feddcd.analysis._predictor import Predictor
from feddcd.analysis._result import SETTINGS, TableResult
from feddcd.analysis.families import CHOICES
from feddcd.formula import ColumnKind, learn, read_formula

MEAN = {
    "gaussian": lambda z: z,
    "binomial": lambda z: 1 / (1 + np.exp(-z)),
    "poisson": np.exp,
}
SPREAD = {
    "gaussian": lambda m: 1 + 0 * m,
    "binomial": lambda m: m * (1 - m),
    "poisson": lambda m: m,
}


KINDS = {name: ColumnKind(True) for name in ("age", "dose", "years", "c")} | {
    "sex": ColumnKind(False, ("f", "m")),
    **{name: ColumnKind(False, ("b", "x:y")) for name in ("job", "a", "b")},
}


class Lazy(dict):
    """Models by their names, each made where it is first asked for."""

    def __getitem__(self, name):
        made = super().__getitem__(name)
        if callable(made):
            self[name] = made = made()
        return made


def stand_in(
    family, names=("age", "dose", "C(sex)[T.m]"), n=800, sites=5, seed=0, formula=None, **more
):
    """A model of one outcome, fitted by Newton's method to random rows; `more` replaces."""
    design = None if formula is None else learn(read_formula(formula), KINDS)
    names = names if design is None else [name for name in design.names if name != "Intercept"]
    rng = np.random.default_rng(seed)
    X = np.hstack([np.ones((n, 1)), rng.normal(size=(n, len(names)))])
    truth = np.append(0.3, rng.normal(size=len(names)) / np.sqrt(len(names)))
    mean, spread = MEAN[family], SPREAD[family]
    draw = {"gaussian": rng.normal, "poisson": rng.poisson,
            "binomial": lambda m: rng.binomial(1, m)}[family]  # fmt: skip
    y, w = draw(mean(X @ truth)).astype(float), np.zeros(X.shape[1])
    for _ in range(30):
        m = mean(X @ w)
        H = X.T * spread(m) @ X
        w = w + np.linalg.solve(H, X.T @ (y - m))
    m = mean(X @ w)
    phi = float(np.sum((y - m) ** 2) / (n - len(w))) if family == "gaussian" else 1.0
    fit = common(family, w, phi * np.linalg.inv(H), ["Intercept", *names], n, sites, phi)
    fit.coef_, fit.intercept_ = w[1:], float(w[0])
    fit.predict = lambda rows: mean(fit.intercept_ + np.asarray(rows, float) @ fit.coef_)
    fit.bins_, fit.residual_bins_ = bins(family, m, y), None
    if family != "binomial":
        fit.residual_bins_ = residual_bins((y - m) / np.sqrt(phi * spread(m)))
    fit.site_table_ = site_table(fit.table_, sites, rng)
    fit.X, fit.y, fit.mean, fit.formula = X[:, 1:], y, m, formula
    fit.predictor_ = Predictor(family, formula, w[:, None], design, 0)
    return finished(SimpleNamespace(**vars(fit) | more))


def several(names=("age", "dose"), classes=("low", "mid", "high"), n=300, **more):
    rng = np.random.default_rng(1)
    classes = np.array(classes)
    W = rng.normal(size=(len(classes) - 1, len(names) + 1))
    labels = [f"{c}: {name}" for c in classes[1:] for name in ("Intercept", *names)]
    fit = common("multinomial", W.ravel(), np.diag(rng.uniform(0.1, 0.3, W.size)), labels, n, 4)
    fit.classes_, fit.coef_, fit.intercept_ = classes, W[:, 1:], W[:, 0]
    z = lambda rows: np.hstack([np.zeros((len(rows), 1)), rows @ W[:, 1:].T + W[:, 0]])
    fit.predict = lambda rows: softmax(z(np.asarray(rows, float)), axis=1)
    fit.X = rng.normal(size=(n, len(names)))
    return finished(SimpleNamespace(**vars(fit) | more))


def finished(fit):
    """With the result that an estimator has, from the same numbers."""
    at = {f.name: f"{f.name}_" for f in dataclasses.fields(TableResult)}
    at |= {name: name for name in SETTINGS} | {"covariance_matrix": "covariance_"}
    none = {"codebook": {}, "refused": {}, "left_out": (), "empty_levels": {}}
    fit.result_ = TableResult(**{name: getattr(fit, at[name], none.get(name)) for name in at})
    return fit


def common(family, w, cov, labels, n, sites, phi=1.0):
    se = np.sqrt(np.diag(cov))
    by, law = ("t", t(n - len(w))) if family == "gaussian" else ("z", norm)
    half, z = law.ppf(0.975) * se, w / se
    table = {"coef": w, "std_err": se, by: z, "p": 2 * law.sf(abs(z)), "ci_low": w - half,
             "ci_high": w + half}  # fmt: skip
    if family != "gaussian":
        ends = {"ratio": w, "ratio_low": w - half, "ratio_high": w + half}
        table |= {name: np.exp(end) for name, end in ends.items()}
    counts = {"rows": [n // sites] * sites, "missing": [1] * sites, "estimate": ["own fit"] * sites}
    return SimpleNamespace(
        family=family, link=CHOICES[family][0], unproven_="", formula=None, l2=0.0, tol=0.01,
        firth=False,        site_effects="none", covariance="model", theta_=None, theta_se_=None,
        standardize=False, bytes_down_=4 * sites * 64, level=0.95, df_residual_=n - len(w),
        df_null_=n - 1, bic_=840.5, pearson_=800.25, doubts_={}, grouped_=False,
        linear_=LinearFit(1.5, 0.5, 0.4, 12.0, (3, 796), 0.01) if family == "gaussian" else None,
        site_counts_=pd.DataFrame(counts, index=pd.Index(range(sites), name="site")),
        table_=pd.DataFrame(table, index=pd.Index(labels, name="name")),
        original_table_=pd.DataFrame(table, index=pd.Index(labels, name="name")),
        original_covariance_=pd.DataFrame(cov, labels, labels),
        covariance_=pd.DataFrame(cov, labels, labels), dispersion_=phi, deviance_=812.25,
        null_deviance_=1040.5, log_likelihood_=-406.125, aic_=820.25, n_exchanges_=4,
        n_uploads_=4 * sites, bytes_up_=4 * sites * 240, converged_=True, certified_error_=9.93e-5,
        n_rows_=n, n_dropped_=3, n_sites_=sites, sites_=np.arange(sites), history_=history(sites),
        bins_=None, residual_bins_=None, site_table_=None, choice_=choice(),
        n_clusters_=0, more_={},
        summary=lambda: "Federated generalised linear model",
    )  # fmt: skip


def history(sites, errors=(np.inf, 3.2, 0.041, 9.93e-5)):
    k = np.arange(1, len(errors) + 1)
    up, down = 240 * sites * k, 64 * sites * k
    return pd.DataFrame({
        "exchange": k, "asked": sites, "answered": sites, "uploads": sites * k, "bytes_up": up,
        "bytes_down": down, "objective": 0.4 + 0.1 * 0.1**k, "certified_error": errors,
        "seconds": 0.1 * k + (up + down) / 1e6,
    })  # fmt: skip


def choice():
    costs = {"exchanges": [4.0, 61.0], "bytes": [4800.0, 30000.0], "seconds": [0.4, 6.1]}
    predictions = pd.DataFrame(costs, index=["newton", "feddcd"])
    return Choice("newton", "With 4 columns a Hessian is small, so few exchanges win.", predictions)


def bins(family, mean, y):
    if family == "binomial":
        edges = np.linspace(0, 1, 101)
    else:
        inner = np.linspace(mean.min(), mean.max(), 39)
        edges = np.concatenate([[-np.inf], inner, [np.inf]])
    at = np.clip(np.searchsorted(edges, mean, "right") - 1, 0, len(edges) - 2)
    total = lambda v: np.bincount(at, v, minlength=len(edges) - 1)
    columns = {"low": edges[:-1], "high": edges[1:], "weight": total(np.ones(len(y))),
               "observed": total(y), "predicted": total(mean)}  # fmt: skip
    return pd.DataFrame(columns)


def residual_bins(r):
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6, 49), [np.inf]])
    at = np.clip(np.searchsorted(edges, r, "right") - 1, 0, len(edges) - 2)
    weight = np.bincount(at, minlength=len(edges) - 1).astype(float)
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "weight": weight})


def site_table(table, sites, rng):
    index = pd.MultiIndex.from_product([table.index, range(sites)], names=["name", "site"])
    se = np.repeat(table["std_err"].to_numpy(), sites) * np.sqrt(sites)
    coef = np.repeat(table["coef"].to_numpy(), sites) + se * rng.normal(size=len(se))
    return pd.DataFrame({"coef": coef, "std_err": se}, index=index)
