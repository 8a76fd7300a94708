"""Four figures of the certified error: against exchanges, uploads, bytes and predicted seconds."""

from typing import Any

import numpy as np

from ._numbers import number, trimmed, upper
from ._style import BAND, BLUE, ORANGE, Figure, layout, line

FLOOR = 1e-16  # an error of 0 on a logarithmic axis
AXES = {
    "exchanges": "exchanges",
    "uploads": "uploads, all sites",
    "bytes": "bytes, up and down",
    "seconds": "predicted seconds",
}


def convergence(fit: Any) -> list[Figure]:
    """Empty where nothing was ever proven."""
    history = fit.history_
    error = history["certified_error"].to_numpy(float)
    known = np.isfinite(error)
    if not known.any():
        return []
    x = {
        "exchanges": history["exchange"],
        "uploads": history["uploads"],
        "bytes": history["bytes_up"] + history["bytes_down"],
        "seconds": history["seconds"],
    }
    y = np.maximum(error[known], FLOOR)
    return [_panel(name, x[name].to_numpy(float), known, y, fit.tol) for name in AXES]


def _panel(name: str, x: np.ndarray, known: np.ndarray, y: np.ndarray, tol: float) -> Figure:
    low = np.floor(np.log10(min(y.min(), tol)) - 0.4)
    high = np.ceil(np.log10(max(y.max(), tol)) + 0.2)
    ticks = range(int(low), int(high) + 1, max(1, int(np.ceil((high - low) / 5))))
    ends = [0.0, float(x.max()) * 1.04]
    told = [f"{number(a)} {AXES[name]}<br>error at most {upper(b)}"
            for a, b in zip(x[known], y, strict=True)]  # fmt: skip
    data = [
        line(x[known], np.full(len(y), 10.0**low), line={"width": 0}, hoverinfo="skip"),
        line(x[known], y, mode="lines+markers", fill="tonexty", fillcolor=BAND,
             marker={"size": 7, "color": BLUE}, hovertext=told, hoverinfo="text"),
        line(ends, [tol, tol], ORANGE, line={"dash": "dash", "width": 1.5},
             hoverinfo="skip"),
    ]  # fmt: skip
    drawn = layout(250, AXES[name], "certified error, in standard errors")
    drawn["xaxis"] |= {"range": ends, "nticks": 6, "tickformat": "~s" if x.max() >= 1e4 else ""}
    drawn["yaxis"] |= {
        "type": "log", "range": [float(low), float(high)], "tickvals": [10.0**k for k in ticks],
        "ticktext": [f"{10.0**k:g}" if k >= -3 else f"1e{k}" for k in ticks],
    }  # fmt: skip
    drawn["annotations"] = [{
        "x": 0, "xref": "paper", "xanchor": "left", "y": float(np.log10(tol)), "yanchor": "bottom",
        "text": f"tol {trimmed(tol, 2)}", "showarrow": False, "font": {"color": ORANGE},
    }]  # fmt: skip
    alt = (
        f"Certified error against {AXES[name]}: at the end {upper(y[-1])} standard errors after "
        f"{number(x[known][-1])}."
    )
    return Figure(f"convergence-{name}", data, drawn, alt, "")
