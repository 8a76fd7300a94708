"""Questions to one site, in bytes, as a coordinator that reads single sites would send them."""

import numpy as np
import pandas as pd

from feddcd.analysis._sums import PointQuestion
from feddcd.analysis.protocol import arrays
from feddcd.analysis.registry import ANALYSES, read_plan
from feddcd.federation import wire

SITES = ["east", "north", "south"]
NONE = np.zeros(0)


def asked(place, formula, w=(), family="gaussian", pilot=True, sites=SITES, **plan):
    """One question of a regression, over the columns that the site's file has now."""
    plan, analysis = (
        read_plan({"formula": formula, "family": family, **plan}),
        ANALYSES["regression"],
    )
    offer = analysis.offer(pd.read_csv(place.data), plan).offer
    agreed, _ = analysis.agree(dict.fromkeys(sites, offer), plan)
    d = len(agreed.names)
    w = np.zeros((d, 1)) if not len(w) else np.reshape(np.asarray(w, float), (d, 1))
    question = PointQuestion(w, w, NONE, np.zeros(1), NONE, np.ones(()), pilot)
    meta = {"plan": plan.to_dict(), "agreed": agreed.to_dict()}
    return wire.pack_message(wire.Envelope("sums", meta, arrays(question)))
