"""Table 1 beside R: summary(), table(), quantile() and sd() of five data sets, to the last digit
that R prints, from four sites that share the rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import feddcd
from feddcd.data.frames import read_frame

HERE = Path(__file__).parent
DATA = HERE.parent / "reference" / "data"
FACTS = pd.read_csv(HERE / "r" / "describe.csv", dtype=str, keep_default_na=False)
BY = {"airquality": "Month", "survey": "Sex", "Pima.tr2": "type", "pbc": "sex", "birthwt": "race"}
LEVELS = ("stage", "edema", "smoke", "ftv")


@pytest.mark.parametrize("name", BY)
def test_the_same_numbers_as_in_r(name):
    facts = FACTS[FACTS.set == name]
    frame = read_frame(DATA / f"{name}.csv.gz").frame
    frame = frame.assign(site=np.arange(len(frame)) % 4)
    columns = [c for c in facts.column.unique() if c]
    asked = [f"C({c})" if c in LEVELS else c for c in columns]
    result = feddcd.describe(frame, asked, by=BY[name], site="site")
    found = result.numbers().query("table == 'all'")
    key = ["column", "level", "cell", "statistic"]
    value = dict(zip(map(tuple, found[key].to_numpy()), found.value, strict=True))
    for fact in facts.itertuples():
        own = value.pop((fact.column, fact.level, fact.cell, fact.statistic))
        assert own == pytest.approx(float(fact.value), rel=1e-14), fact
        if fact.statistic in ("count", "rows", "missing") or "q" in fact.statistic:
            assert own == float(fact.value), fact
        assert as_printed(own, fact.printed) == fact.printed, fact
    # R's table() leaves rows without a group out, and levels that do not occur in one
    rest = {k: v for k, v in value.items() if k[2] != "(missing)" and k[3] != "present"}
    assert not any(rest.values())


def as_printed(value, printed):
    """With as many decimals as R shows."""
    if printed.endswith("%"):
        return f"{100 * value:.1f} %"
    return f"{value:.{len(printed.partition('.')[2])}f}"
