"""Where the lines of the documentation may break."""

import importlib.util
import re

import pytest

from docs_blocks import ROOT


@pytest.fixture(scope="module")
def site_words():
    spec = importlib.util.spec_from_file_location("site_words", ROOT / "tools" / "site_words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<code>run --out DIR</code>", '<code>run <span class="whole">--out</span> DIR</code>'),
        ("to 1e-6 or", 'to <span class="whole">1e-6</span> or'),
        ("0.25 to 0.3 s each", '0.25 to <span class="whole">0.3 s</span> each'),
        ("94 % of 12 sites", '<span class="whole">94 %</span> of 12 sites'),
        ("Only for --family", 'Only for <span class="whole">--family</span>'),
        ("<td>wine-iid-2</td>", '<td><span class="whole">wine-iid-2</span></td>'),
        (r"<td><code>1 + \|w\|</code></td>", "<td><code>1 + |w|</code></td>"),
        (
            "<code>federation/coordinator/nodes.py</code>",
            "<code>federation/<wbr>coordinator/<wbr>nodes.py</code>",
        ),
        ('<a href="x--out-1e-6">a-b</a>', '<a href="x--out-1e-6">a-b</a>'),
        ("<pre><code>run --out</code></pre>", "<pre><code>run --out</code></pre>"),
    ],
)
def test_where_a_line_may_break(site_words, html, made):
    assert site_words.on_page_content(html) == made


def test_a_cell_with_a_sentence_is_marked(site_words):
    short, long = "<td>five</td>", f'<td style="x">{"<b>a</b> word " * 9}</td>'
    made = site_words.on_page_content(f"<tr>{short}{long}</tr>")
    assert made == "<tr>" + short + long.replace("<td", '<td class="long"') + "</tr>"


def test_the_words_stay(site_words):
    html = "<p>With <code>--set a_b=1e-6</code>, <code>tests/test_long_names.py::a_b</code></p>"
    made = site_words.on_page_content(html)
    assert made != html
    assert re.sub("<[^>]*>", "", made) == re.sub("<[^>]*>", "", html)
