"""The formulas of the documentation: set as formulas, in the browser and where Markdown is read."""

import importlib.util
import re
from xml.etree import ElementTree

import pytest

from docs_blocks import DOCS, FENCE, INDENTED, ROOT

PAGES = sorted(DOCS.glob("*.md"))
SHOWN = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.M | re.S)
FORMULAS = [(page.name, found) for page in PAGES for found in SHOWN.findall(page.read_text())]
TYPED = re.compile(r"[A-Za-z]\*? (?:>=|<=|≥|≤) |[²⁻√∇Σ]|\bsqrt\(|\bln\(|\)/\(|<\w+, \w+>")


@pytest.fixture(scope="module")
def site_pages():
    for library in ("mkdocs", "latex2mathml"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed: pip install 'feddcd[docs]'")
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "tools" / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_formula_becomes_mathml(site_pages):
    assert len(FORMULAS) >= 10
    for page in PAGES:
        made = site_pages.on_page_markdown(page.read_text(), page=None, config=None, files=None)
        assert "$$" not in made, page.name
        found = re.findall(
            r"^<div class=\"formula\" tabindex=\"0\">(<math .*</math>)</div>$", made, re.M
        )
        assert len(found) == len(SHOWN.findall(page.read_text())), page.name
        for formula in found:
            assert ElementTree.fromstring(formula).tag.endswith("math"), page.name


@pytest.mark.parametrize("latex", [r"\unknown x", r"\begin{aligned} a &= b \end{aligned}"])
def test_a_formula_that_cannot_be_set_is_refused(site_pages, latex):
    with pytest.raises(Exception, match="cannot set this formula"):
        site_pages.on_page_markdown(f"Then\n\n$$\n{latex}\n$$\n")


def test_no_formula_is_broken_by_markdown():
    """A line that begins like a list, a heading or a quotation would end the formula there."""
    for page, formula in FORMULAS:
        for line in formula.splitlines():
            assert re.match(r"[A-Za-z\\({]", line), (page, line)


def typed(text: str) -> list[str]:
    """The lines of indented blocks that are formulas in the letters of a typewriter."""
    rest = FENCE.sub("", text)
    return [
        line
        for block in INDENTED.findall(rest)
        for line in block.splitlines()
        if TYPED.search(line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_formula_stands_as_code(page):
    assert not typed(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_product_is_lost_as_a_tag(page):
    """A browser shows nothing of `<a, b>` outside of code."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    assert not re.search(r"<\w+, \w+>", text)


@pytest.mark.parametrize(
    "line",
    ["F* >= φ(w) - |∇φ(w)|² / (2 l2)", "rho = Σ|y_i|² / Σ<y_i, s_i>", "G/(G-1) · (n-1)/(n-p)"],
)
def test_a_formula_that_stands_as_code_is_found(line):
    assert typed(f"Then\n\n    {line}\n\nholds.\n")
