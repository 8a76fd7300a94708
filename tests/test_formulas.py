"""The formulas of the documentation: set as formulas, in the browser and where Markdown is read."""

import importlib.util
import re
from xml.etree import ElementTree

import pytest

from docs_blocks import DOCS, FENCE, INDENTED, ROOT

PAGES = sorted(DOCS.glob("*.md"))
SHOWN = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.M | re.S)
INLINE = re.compile(r"(?<!\$)\$(?=[^\s$])([^$\n]+?)(?<!\s)\$(?!\$)")
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


@pytest.fixture(scope="module")
def as_html(site_pages):
    """A text as the site shows it: Markdown with the extensions of mkdocs.yml, then formulas."""
    config = importlib.import_module("mkdocs.config").load_config(str(ROOT / "mkdocs.yml"))
    markdown = importlib.import_module("markdown")
    reader = markdown.Markdown(
        extensions=config.markdown_extensions, extension_configs=config.mdx_configs
    )
    return lambda text: site_pages.on_page_content(reader.reset().convert(text))


def prose(text: str) -> str:
    """Without code."""
    return re.sub(r"`[^`\n]*`", "", INDENTED.sub("", FENCE.sub("", text)))


def test_every_formula_becomes_mathml(as_html):
    assert len(FORMULAS) >= 10
    for page in PAGES:
        made = as_html(page.read_text())
        assert "arithmatex" not in made, page.name
        assert "$$" not in made, page.name
        found = re.findall(r"<div class=\"formula\" tabindex=\"0\">(<math .*?</math>)</div>", made)
        assert len(found) == len(SHOWN.findall(page.read_text())), page.name
        inline = re.findall(r"<math [^>]*display=\"inline\".*?</math>", made)
        written = INLINE.findall(SHOWN.sub("", prose(page.read_text())))
        assert len(inline) == len(written), page.name
        for formula in [*found, *inline]:
            assert ElementTree.fromstring(formula).tag.endswith("math"), page.name


@pytest.mark.parametrize("latex", [r"\unknown x", r"\begin{aligned} a &= b \end{aligned}"])
@pytest.mark.parametrize("text", ["Then\n\n$$\n{}\n$$\n", "Then ${}$ holds."])
def test_a_formula_that_cannot_be_set_is_refused(as_html, latex, text):
    with pytest.raises(Exception, match="cannot set this formula"):
        as_html(text.replace("{}", latex))


def test_a_formula_in_a_line_is_set_and_prices_and_code_are_not(as_html):
    made = as_html("A $\\tfrac12 a_1 < b_1 \\cdot c_1$ costs 5 $ or `$x$`.")
    assert made.count("<math ") == 1
    assert "<msub><mi>a</mi><mn>1</mn></msub>" in made
    assert "<code>$x$</code>" in made
    assert "5 $ or" in made


@pytest.mark.parametrize("bar", [r"\|", "|"])
def test_the_bars_of_a_norm_have_one_height_and_stand_at_what_they_enclose(as_html, bar):
    made = as_html(f"At most $\\max {bar}x^T v{bar} + {bar}w{bar}^2$.")
    forms = re.findall(r'<mo stretchy="false" form="(\w+)">', made)
    assert forms == ["prefix", "postfix"] * 2


@pytest.mark.parametrize("name", ["estimators", "certificate", "methods", "glm"])
def test_no_formula_of_the_page_stands_as_text(name):
    """Of these pages: sums, norms, gradients and products of several letters."""
    text = INLINE.sub("", SHOWN.sub("", prose((DOCS / f"{name}.md").read_text())))
    assert not re.search(r"sum_\w|‖|\|\w+\\?\|²|∇\w|√|\bsqrt\(|\b\w_i\b|⁻¹", text), name


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
