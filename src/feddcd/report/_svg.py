"""Figures as files: SVG to put inside a page, and PNG."""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from ._style import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEAD = re.compile(r"<svg\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_ID = re.compile(r'(\bid="|url\(#|href="#)')


def svg(figure: "Figure", *, label: str = "", prefix: str | None = None) -> str:
    """An <svg> element for a page: ids of its own, ink as currentColor, the same each time."""
    import matplotlib

    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(), _quiet():
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "feddcd"})
        figure.savefig(file, format="svg", metadata=nothing, transparent=True)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, count=1, flags=re.S)
    if prefix is None:
        prefix = f"f{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    text = _TAG.sub(lambda tag: _ID.sub(rf"\g<1>{prefix}", tag[0]), text)
    text = text.replace(INK, "currentColor")
    return _HEAD.sub(_head(text, label), text, count=1)


def settled(figure: "Figure") -> "Figure":
    """The figure with its layout fixed, which else moves a little with each drawing."""
    import matplotlib

    if engine := figure.get_layout_engine():
        with _quiet():
            engine.execute(figure)
    with matplotlib.rc_context(
        {"figure.autolayout": False, "figure.constrained_layout.use": False}
    ):
        figure.set_layout_engine(None)  # not "none", with which each file is drawn twice
    return figure


def save_png(figure: "Figure", path: str | Path) -> None:
    with _quiet():
        figure.savefig(path, format="png", dpi=200, facecolor="white", metadata={"Software": None})


def save_svg(figure: "Figure", path: str | Path) -> None:
    """A file of its own, on white; the same bytes each time."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "feddcd"}), _quiet():
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})


@contextmanager
def _quiet() -> Iterator[None]:
    """No word about letters that matplotlib's font lacks: in an SVG the browser draws them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _head(text: str, label: str) -> str:
    box = re.search(r'viewBox="[^"]*"', text)
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    aria = f' role="img" aria-label={quoteattr(label)}' if label else ""
    look = 'stroke-linejoin="round" stroke-linecap="butt" font-family="sans-serif"'
    return f"<svg {names} {box[0] if box else ''} {look}{aria}>".replace("\\", r"\\")
