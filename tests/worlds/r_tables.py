"""Tables that come with R, and what R makes of them: tests/analysis/r/inference.R."""

import json
from pathlib import Path

import pandas as pd

from feddcd import FederatedGLM

FOLDER = Path(__file__).parents[1] / "analysis" / "r"
FACTS = json.loads((FOLDER / "inference.json").read_text())
INSURANCE = "Claims ~ District + Group + Age + offset(log(Holders))"
MODELS = {  # by R's fit: the table, the family, the formula, the column of weights, the link
    "birthwt": ("birthwt", "binomial", "low ~ age + lwt + race + smoke", None),
    "mtcars": ("mtcars", "gaussian", "mpg ~ wt + hp + cyl", None),
    "weighted": ("mtcars", "gaussian", "mpg ~ wt + hp + cyl", "carb"),
    "insurance": ("insurance", "poisson", INSURANCE, None),
    "warpbreaks": ("warpbreaks", "poisson", "breaks ~ wool * tension", None),
    "menarche": ("menarche", "binomial", "share ~ Age", "Total"),
    "probit": ("birthwt", "binomial", "low ~ age + lwt + race + smoke", None, "probit"),
    "gamma": ("mtcars", "gamma", "mpg ~ wt + hp + cyl", None, "log"),
    "reciprocal": ("mtcars", "gamma", "mpg ~ wt + hp", None, "inverse"),
    "quasi": ("warpbreaks", "quasipoisson", "breaks ~ wool + tension", None),
}
EXACT = 1e-9


def table(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{MODELS[name][0]}.csv")


def fit(name: str, formula: str | None = None, **options) -> FederatedGLM:
    """The model of that name, or another formula on the same rows."""
    _, family, own, weight, *link = MODELS[name]
    options |= {"link": link[0]} if link else {}
    columns = {key: options.pop(key) for key in ("cluster",) if key in options}
    model = FederatedGLM(family, formula or own, tol=EXACT, **options)
    return model.fit(table(name), groups="site", sample_weight=weight, **columns)
