"""The site's page for wrong addresses: from a folder, and from a server at any depth."""

import functools
import importlib
import re
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import browser

ROOT = Path(__file__).parents[1]
PAGE = "404.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site of one page, with the project's theme, below the top of a server."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    top = tmp_path_factory.mktemp("top")
    docs = top / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Start\n\nHospitals and banks.\n")
    for name in ("site.css", "iframe-worker.js"):
        (docs / name).write_bytes((ROOT / "docs" / name).read_bytes())
    config = importlib.import_module("mkdocs.config").load_config(
        str(ROOT / "mkdocs.yml"), docs_dir=str(docs), site_dir=str(top / "served/below"),
        plugins=["search", "material/offline"], nav=[{"Home": "index.md"}],
    )  # fmt: skip
    importlib.import_module("mkdocs.commands.build").build(config)
    return top / "served/below"


def test_it_links_to_the_start_and_asks_nothing_of_the_top_of_a_server(site):
    text = (site / PAGE).read_text("utf-8")
    assert "There is no such page" in text
    assert re.search(r'href="[^"]*index\.html">Start page<', text)
    assert not re.search(r'(href|src)="/', text)
    assert not re.search(r'(href|src)="https?://(?!squidfunk)', text)
    for path in re.findall(r'(?:href|src)="\./([^"#?]+)"', text):
        assert (site / path).exists(), path


class Handler(SimpleHTTPRequestHandler):
    """As servers are told to: the page in place of every one that is not there."""

    def send_error(self, code, *_):
        body = Path(self.directory, "below", PAGE).read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def served(folder):
    serve = functools.partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/below/"
        finally:
            server.shutdown()
            thread.join()


SEEN = """({
  start: document.querySelector("a.md-button").href,
  bar: getComputedStyle(document.querySelector(".md-header")).position,
  wide: document.documentElement.scrollWidth,
})"""
FOUND = """new Promise(done => {
  document.querySelector("button.md-button").click();
  const field = document.querySelector("[name=query]");
  field.value = "banks";
  field.dispatchEvent(new Event("keyup"));
  const look = () => {
    const hit = document.querySelector(".md-search-result__link");
    hit && document.activeElement === field ? done(hit.href) : setTimeout(look, 50);
  };
  look();
})"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("place", ["folder", "wrong.html", "a/b/wrong", "a/b/c/"])
def test_in_a_browser_it_has_its_look_its_links_and_the_search(site, place, width):
    program = browser.executable()
    if program is None:
        pytest.skip("no browser is installed")
    with served(site.parent) as address, browser.Browser(program) as window:
        start = (site / "index.html").as_uri() if place == "folder" else f"{address}index.html"
        window.open(site / PAGE if place == "folder" else address + place, width)
        seen = window.evaluate(SEEN)
        assert seen == {"start": start, "bar": "sticky", "wide": width}
        assert window.evaluate(FOUND).startswith(start)
