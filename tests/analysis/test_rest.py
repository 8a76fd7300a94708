"""Each site holds the sum less its own part against what rows could have given."""

import numpy as np
import pytest
from test_replay import TABLES, patients

from feddcd import FederatedGLM
from feddcd.analysis import _fitting
from feddcd.analysis.adding import layout_of, values_of
from feddcd.analysis.rest import impossible
from feddcd.sums.layout import Layout, Slot
from slices import thinned


def exchanges(monkeypatch, family, formula, data, **options):
    """All sites' blocks of every exchange, and their sums."""
    heard, real = [], _fitting.add_up

    def add_up(each):
        every = list(each)
        layout = layout_of(every[0])
        own = [values_of(blocks) for blocks in every]
        words = layout.total(layout.encode(values) for values in own)
        heard.append((layout, own, layout.decode(words)))
        return real(every)

    monkeypatch.setattr(_fitting, "add_up", add_up)
    FederatedGLM(family, formula, answers="sum", **options).fit(data, groups="site")
    return heard


@pytest.mark.parametrize("name", thinned(TABLES, 2))
def test_the_rest_of_honest_sites_is_possible(name, monkeypatch):
    made, family, formula, options = TABLES[name]
    heard = exchanges(monkeypatch, family, formula, made(), **options)
    assert len(heard) >= 2
    for layout, each, sums in heard:
        for own in each:
            assert impossible(sums, own, layout) == ""


def test_a_made_up_table_in_place_of_the_sum_is_seen_by_every_site(monkeypatch):
    """The owned site sends the made-up table less what the others sent, exactly in the ring."""
    honest = exchanges(monkeypatch, "binomial", "y ~ x + z", patients(400, 0))
    made_up = exchanges(monkeypatch, "binomial", "y ~ x + z", patients(80, 1))
    layout, each, _ = honest[0]
    for own in each:
        assert impossible(made_up[0][2], own, layout) == "a count below zero (moments.n)"
    # with enough rows, but all of them elsewhere: what an honest site knows is not in it
    narrow = patients(5000, 2)
    narrow["x"] *= 1e-3
    table = exchanges(monkeypatch, "binomial", "y ~ x + z", narrow)[0][2]
    told = {impossible(table, own, layout) for own in each}
    assert told == {"a sum of weights or of squares that is below zero"}


def test_counts_below_none_and_bent_curvature_are_seen():
    counts = Layout([Slot("n", "count", (2,))])
    both = lambda a, b: ({"n": np.array(a, float)}, {"n": np.array(b, float)}, counts)
    assert impossible(*both([5, 3], [5, 3])) == ""
    assert impossible(*both([5, 3], [5, 4])) == "a count below zero (n)"
    bent = Layout([Slot("H", "sum", (3,))])
    H = {"H": np.array([2.0, 0.0, 2.0])}
    assert impossible(H, {"H": np.array([1.0, 0.5, 1.0])}, bent) == ""
    assert impossible(H, {"H": np.array([1.0, 1.5, 1.0])}, bent) == "a curvature below zero"
    assert impossible({"H": H["H"] * np.nan}, {"H": H["H"]}, bent) == ""
