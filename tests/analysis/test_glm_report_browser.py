"""The report in a real browser: drawn, quiet, as wide as a phone, a desktop, a page."""

import re

import pytest

import browser
from feddcd.analysis import report
from feddcd.report.page import document
from feddcd.report.tables import table
from glm_stand_ins import Lazy, stand_in

FITS = Lazy(
    {
        "few columns": lambda: stand_in("binomial", n=3000),
        "many columns": lambda: stand_in(
            "poisson", names=[f"a_long_name_of_a_column_{k}" for k in range(120)]
        ),
        "odd names": lambda: stand_in(
            "gaussian", names=("<b>x", "a & $b$", "</script><script>two()</script>")
        ),
    }
)


@pytest.fixture(scope="module")
def chromium():
    program = browser.executable()
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(browser.NAMES)} is there")
    with browser.Browser(program) as window:
        yield window


SEEN = """({
  wide: document.documentElement.scrollWidth, drawn: document.querySelectorAll(".chart").length,
  rows: document.querySelectorAll(".strip").length,
  empty: [...document.querySelectorAll(".chart")].filter(f => !f.querySelector(".line")).length,
  cut: [...document.querySelectorAll(".chart")].filter(
    s => s.getBoundingClientRect().right > innerWidth + 1).length,
})"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", FITS)
def test_in_a_browser_it_is_drawn_without_error_or_request(tmp_path, chromium, name, width):
    path = report.write(FITS[name], tmp_path / "report.html")
    chromium.open(path, width)
    seen = chromium.evaluate(SEEN)
    assert chromium.errors == []
    assert {url.partition(":")[0] for url in chromium.requests} <= {"file", "data"}
    assert sum(url.startswith("file:") for url in chromium.requests) == 1
    assert seen["wide"] == width
    assert (seen["empty"], seen["cut"]) == (0, 0)
    assert seen["drawn"] >= 3
    assert seen["rows"] == {"few columns": 4, "many columns": 25, "odd names": 4}[name]


INKS = """({
  page: getComputedStyle(document.body).color,
  tick: getComputedStyle(document.querySelector(".strip .tick")).fill,
  paper: getComputedStyle(document.body).backgroundColor,
  behind: getComputedStyle(document.querySelector(".chart")).backgroundColor,
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_the_ink_and_the_paper_of_the_page(tmp_path, chromium, scheme):
    chromium.scheme(scheme)
    chromium.open(report.write(FITS["few columns"], tmp_path / "report.html"))
    inks = chromium.evaluate(INKS)
    chromium.scheme("light")
    assert inks["tick"] == inks["page"]
    assert inks["behind"] in ("rgba(0, 0, 0, 0)", inks["paper"])
    assert (inks["paper"] == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_browser_helper_notices_errors_and_requests(tmp_path, chromium):
    path = tmp_path / "bad.html"
    path.write_text(
        '<img src="http://127.0.0.1:9/a.png"><script>console.error("one");two()</script>'
    )
    chromium.open(path)
    assert "http://127.0.0.1:9/a.png" in chromium.requests
    assert any("one" in line for line in chromium.errors)
    assert any("two is not defined" in line for line in chromium.errors)


def test_on_paper_it_has_a_few_pages(tmp_path, chromium):
    chromium.open(report.write(FITS["few columns"], tmp_path / "report.html"), 1280)
    chromium.pdf(tmp_path / "a.pdf")
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 6


WIDE = """[...document.querySelectorAll(".scroll")].map(x => x.offsetWidth)"""


def test_a_table_of_two_columns_is_not_pulled_over_the_window(tmp_path, chromium):
    groups = [("", [("age", "1"), ("sex", "2")])]
    two, four = table("A", ["name", "all"], *groups), table("B", list("abcd"), ("", ["1234"]))
    (tmp_path / "a.html").write_text(document("A", two, four), encoding="utf-8")
    widths = []
    for window in (1280, 390):
        chromium.open(tmp_path / "a.html", window)
        widths += chromium.evaluate(WIDE)
    assert widths[0] < 600 < 1000 < widths[1]
    assert widths[2] == widths[3] == 390 - 32


TORN = """[...document.querySelectorAll(".facts, .settings")].map(
  t => getComputedStyle(t).breakInside)"""


def test_on_paper_no_table_of_facts_is_torn(tmp_path, chromium):
    chromium.open(report.write(FITS["few columns"], tmp_path / "report.html"), 1280)
    chromium._call("Emulation.setEmulatedMedia", media="print")
    seen = chromium.evaluate(TORN)
    chromium._call("Emulation.setEmulatedMedia", media="")
    assert len(seen) >= 2
    assert set(seen) == {"avoid"}


def test_on_paper_a_table_of_twelve_sites_is_as_wide_as_the_page(tmp_path, chromium):
    head = ["column", "all", *(f"hospital: h{k}" for k in range(10, 22))]
    rows = [["f", *["1,506 (50.2 %)"] * 13], ["median", *["67.35 [56.875, 76.1]"] * 13]]
    (tmp_path / "a.html").write_text(document("A", table("A", head, ("", rows))), encoding="utf-8")
    chromium.open(tmp_path / "a.html", 688)  # A4 without its margins
    chromium._call("Emulation.setEmulatedMedia", media="print")
    wide = chromium.evaluate("document.documentElement.scrollWidth")
    chromium._call("Emulation.setEmulatedMedia", media="")
    assert wide <= 700


DOTS = """[...document.querySelectorAll(".strip circle.dot")].map(
  x => x.getBoundingClientRect().width)"""


def test_the_dots_of_the_effects_can_be_seen_on_a_phone(tmp_path, chromium):
    path = report.write(FITS["few columns"], tmp_path / "report.html")
    for width in (390, 1280):
        chromium.open(path, width)
        assert min(chromium.evaluate(DOTS)) >= 5
