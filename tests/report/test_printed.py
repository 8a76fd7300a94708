"""Tables in LaTeX and Markdown: what a compiler and a renderer make of names from data."""

import html
import re
import shutil
import subprocess

import markdown as python_markdown
import pytest
from markdown_it import MarkdownIt

from feddcd.report.printed import latex, markdown
from feddcd.report.tables import Bold

NAMES = [
    "a & b", "50 %", "$x$", "#1", "crp_mg", "{x}", "~x~", "x^2^", r"\input{x}", "a|b", "*x*",
    "**x**", "`x`", "[0, 5)", "[x](y)", "[x][y]", "<b>x</b>", "&lt;", "< 5", "x--y", 'a "b"',
    "*", "_x_", "≥ 65 µg", "TNF-α", "a\\\\b", "a\nb", "x@y", "é – ü", r"\end{tabular}", "%",
]  # fmt: skip
HEAD = ["", "coefficient", "p"]
GROUPS = [("", [[name, "−1.5", "< 0.001"] for name in NAMES]), ("C_{0}", [["[x", "≈ 3", "–"]])]


_ROWS = [[f"stage = {i} (against I)", "−12.3456", "0.1234", "1.234 (0.987 to 1.543)", "< 0.001"]
         for i in range(30)]  # fmt: skip
_LONG = [[f"a name of a column that is very long, {i}", *["120 (34.5 %)"] * 8] for i in range(6)]
WIDE = [
    (["", "coefficient", "standard error", "odds ratio (95 % CI)", "p"], ("", _ROWS)),
    (["", *[f"hospital: {city}" for city in "ABCDEFGH"]], ("", _LONG), ("stage", _LONG[:4])),
]


def shown(name: str) -> str:
    return name.replace("\n", "\\n")  # as `printable` has it


def test_every_row_of_latex_has_all_cells_and_no_command_of_a_name():
    lines = latex(HEAD, *GROUPS, notes=["50 %\n\\input{x}"]).splitlines()
    assert lines[-2] == r"50 \%\textbackslash{}n\textbackslash{}input\{x\}"
    assert r"\begin{tabular}{@{}lrr@{}}" in lines
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert len(body) == len(NAMES) + 3  # space, heading, row
    for line in body[: len(NAMES)]:
        assert line.endswith(r" & $-$1.5 & $<$ 0.001 \\")
        name = line.removesuffix(r" & $-$1.5 & $<$ 0.001 \\")
        assert not re.search(r"(?<!\\)[&%#_~]", name)
        assert not name.startswith(("[", "*"))
        known = r"\\(textbackslash|symbol|geq|mu|alpha|[&%$#_{}^~])"
        assert "\\" not in re.sub(known, "", name)


def test_powers_of_ten_are_numbers_and_names_stay_names():
    cells = ["1e-3 a", "5.9e-4", "1e−5", "[2e-4, 1e7]", "e-4"]
    text = latex(["", "x to 1e-3", "", "", ""], ("", [cells]))
    assert "$10^{-3}$" in text
    shown = [r"$5.9\cdot 10^{-4}$", "$10^{-5}$", r"{}[$2\cdot 10^{-4}$, $10^{7}$]", "e-4"]
    assert " & ".join(["1e-3 a", *shown]) in text
    noted = latex(["", "p"], ("", [["a", "1"]]), notes=["Not 1e-3. Nor 1e-6.", "see 1e-3.csv"])
    assert "Not $10^{-3}$. Nor $10^{-6}$.\n\nsee 1e-3.csv\n" in noted


def test_a_wide_table_gets_a_smaller_font_and_then_blocks_of_columns():
    small, blocks = (latex(*each) for each in WIDE)
    assert r"\centering\small" in small
    assert small.count(r"\toprule") == 1
    assert r"standard \\ error" in small
    assert r"\centering\normalsize" in latex(["", "p"], ("", [["age", "0.5"]]))
    assert blocks.count(r"\toprule") > 1
    assert blocks.count("hospital: ") == 8


USUAL_HEAD = ["", "coefficient", "standard error", "rate ratio (95 % CI)", "p"]
USUAL = [  # as a logistic regression has them, and with longer names
    ["sex = male (against female)", "−0.091\u2007\u2007", "0.168\u2007\u2007",
     "0.00171 (0.00049 to 0.00591)", "< 0.001"],
    ["age", "0.06854", "0.00632", "1.0709 (1.0578 to 1.0843)", "< 0.001"],
]  # fmt: skip
SMALLER = [[f"smoking = {row[0]}", *row[1:]] for row in USUAL]
OF_THREE = [["median [quartiles]", *["1,379 [1,491, 23,379]"] * 3]]
OF_FOUR = [["median [quartiles]", *["1,379 [1,491, 23,379]"] * 4]]
ONE = [(USUAL_HEAD, ("", USUAL)), (USUAL_HEAD, ("", SMALLER)),
       (["", "all", "sex: female", "sex: male"], ("age", OF_THREE))]  # fmt: skip
TINY = (["", *"abcd"], ("", [["x", *["1.23 (1.012 to 1.456)"] * 4]]))
FOUR = (["", "all", "stage: I", "stage: II", "stage: III"], ("age", OF_FOUR))


@pytest.mark.parametrize("table", ONE, ids=["usual", "longer names", "Table 1"])
def test_a_usual_table_is_not_divided(table):
    assert latex(*table).count(r"\toprule") == 1


def test_a_font_is_smaller_before_columns_are_torn_apart():
    text = latex(*TINY)
    assert r"\centering\scriptsize" in text
    assert text.count(r"\toprule") == 1


def test_no_narrow_column_stands_alone_below_a_full_block():
    lines = latex(*FOUR).splitlines()
    assert [line for line in lines if "begin{tabular}" in line] == [
        r"\begin{tabular}{@{}lrr@{}}"
    ] * 2


def _needs_booktabs():
    if subprocess.run(["kpsewhich", "booktabs.sty"], stdout=subprocess.DEVNULL).returncode:
        pytest.skip("needs booktabs")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
@pytest.mark.parametrize("size", [10, 11, 12])
def test_no_box_is_wider_than_the_text(size, tmp_path):
    _needs_booktabs()
    pages = "\n\n".join(latex(*each) for each in [*ONE, TINY, FOUR, *WIDE])
    first = rf"\documentclass[{size}pt]{{article}}\usepackage{{booktabs}}\begin{{document}}"
    (tmp_path / "t.tex").write_text(f"{first}\n{pages}\n\\end{{document}}", "utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path, capture_output=True,
    )  # fmt: skip
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-2000:]
    assert "Overfull" not in said


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
def test_latex_compiles(tmp_path):
    _needs_booktabs()
    table = latex(HEAD, *GROUPS, notes=["50 % of \\undefined"])
    small, blocks = (latex(*each, notes=["a note " * 40]) for each in WIDE)
    pages = f"\\begin{{table}}\n{small}\\end{{table}}\n\n{blocks}"
    first = r"\documentclass[12pt]{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "t.tex").write_text(f"{first}\n{table}\n\n{pages}\n\\end{{document}}", "utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path, capture_output=True,
    )  # fmt: skip
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-2000:]
    assert "Overfull" not in said, "a table is wider than the text"
    assert "Float too large" not in said


RENDERERS = {
    "as here": lambda text: python_markdown.markdown(text, extensions=["tables"]),
    "as elsewhere": MarkdownIt("commonmark").enable(["table"]).render,
}


@pytest.mark.parametrize("render", RENDERERS.values(), ids=RENDERERS)
def test_markdown_shows_the_names_as_they_are(render):
    page = render(markdown(HEAD, *GROUPS, notes=["# 50 % of `x`"]))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)
    names = [html.unescape(cell) for cell in cells[: 3 * len(NAMES) : 3]]
    assert names == [shown(name) for name in NAMES]
    assert not re.search(r"<(?!/?(t[drh]|thead|tbody|table|p|strong)\b)", page)
    assert cells[3 * len(NAMES)] == "<strong>C_{0}</strong>"
    assert len(re.findall("text-align: ?right", page)) == 2 * (len(NAMES) + 3)
    assert html.unescape(page).strip().endswith("<p># 50 % of `x`</p>")


def test_a_sign_that_means_nothing_alone_stays_in_markdown():
    text = markdown(["", "x"], ("", [["I(age^2)", "1"], ["x^2^", "2"], ["~y", "3"]]))
    assert "| I(age^2) |" in text
    assert "| x&#94;2^" in text
    assert "| ~y " in text


def test_columns_stand_in_line_and_bold_stays_bold():
    text = markdown(["setup", "method", "rounds"], ("", [["a", "b", Bold("12")]]), left=2)
    assert text == (
        "| setup | method | rounds |\n| ----- | ------ | -----: |\n| a     | b      | **12** |\n"
    )
    assert r"a & \textbf{12\%} \\" in latex(["", "x"], ("", [["a", Bold("12%")]]))
