"""The sentences that readers judge: messages as people saw them, not as the source writes them."""

import importlib
from pathlib import Path

import pytest

import _recording

TOOLS = Path(__file__).parents[1] / "tools"
SOURCE = '''
def check(n, name, hint):
    """A docstring is no message, however long it is."""
    query = "SELECT value FROM meta WHERE key = ?"
    sizes = f"{n.rows} {n.columns} {n.levels} of {name.upper()} and {hint.strip()}"
    more = f"; {hint}the data sets are a and b and c"
    text = f"[bold]{n} rows of {name!r} have no value[/]{more}. Use <missing>, or remove these rows"
    option("--out", help="Write the results of this study into this folder.")
    return "nobody has ever seen this message of {} sites".format(n)
'''
ERROR = "3 rows of 'mine' have no value; did you mean x? the data sets are a and b and c"
FRAME = "╭─ Options ─╮\n│{:78}│\n│{:78}│\n│{:78}│\n"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    module = importlib.import_module("sentences")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "check.py").write_text(SOURCE)
    return module


@pytest.fixture
def seen(tool, tmp_path):
    record = _recording.Record(tmp_path / "seen")
    record("error", f"{ERROR}. Use missing='drop', or remove these rows")
    record("printed", f"\x1b[1merror: {ERROR}. Use --missing drop, or remove these rows\x1b[0m\n")
    option = " --out  FOLDER   Write the results of this study into this folder. Default:"
    record(
        "printed", FRAME.format(option, "                 another folder.", " --json  Print it.")
    )
    return tool.Seen(tmp_path / "seen")


def test_a_message_is_the_whole_sentence_that_a_terminal_showed(tool, seen, capsys):
    assert {found.text for found in tool.messages(seen)} == {
        f"error: {ERROR}.",
        "Use --missing drop, or remove these rows",
        "Write the results of this study into this folder.",
        "nobody has ever seen this message of {} sites",
    }
    assert capsys.readouterr().out == "4 of 5 templates were seen\n"


def test_a_drawn_sentence_stands_where_people_meet_it(tool, seen, tmp_path, capsys, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "# feddcd\n\n## Start\n\nTwo lines are here:\n\n- It is one table. A proof comes with it.\n"
    )
    (page,) = [found for found in tool.pages() if found.text == "A proof comes with it."]
    assert page.heading == "Start"
    assert page.around == "Two lines are here:\n    It is one table. A proof comes with it."
    (message,) = [found for found in tool.messages(seen) if found.text == f"error: {ERROR}."]
    assert message.around == f"error: {ERROR}. Use --missing drop, or remove these rows"
    (help,) = [found for found in tool.messages() if found.text.startswith("Write the results")]
    assert help.heading == "help of --out"
    monkeypatch.setattr("sys.argv", ["sentences", "--count", "5"])
    tool.main()
    assert "It is one table. ‹A proof comes with it.›" in capsys.readouterr().out


def test_with_records_an_unseen_part_of_a_message_is_left_out(tool, seen):
    source = tool.ROOT / "src" / "parts.py"
    source.write_text("""told = f"{used} of all, and there is no limit for this"
""")
    part = "{used} of all, and there is no limit for this"
    assert part in {found.text for found in tool.messages()}
    assert part not in {found.text for found in tool.messages(seen)}


def test_a_page_is_named_with_its_part_of_the_site(tool, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("It is for everybody who reads it.\n")
    (tmp_path / "docs" / "rules.md").write_text("A site has rules of its own.\n")
    nav = "nav:\n  - Home: index.md\n  - For hospital IT:\n      - The rules of a site: rules.md\n"
    (tmp_path / "mkdocs.yml").write_text(nav)
    assert [found.name for found in tool.pages()] == ["README.md", "For hospital IT: rules.md"]


def test_without_records_values_are_names(tool):
    found = [found.text for found in tool.messages()]
    assert "; {hint}the data sets are a and b and c" in found
    assert "{n} rows of {name} have no value{more}." in found
    assert not any("SELECT" in text or "upper" in text or "docstring" in text for text in found)


def test_what_a_terminal_broke_is_joined_and_rows_are_not(seen):
    texts = [place.text for place in seen.places]
    assert "Write the results of this study into this folder. Default: another folder." in texts


def test_pages_are_recorded_without_tags():
    page = "<!doctype html><head><title>T</title></head><p>It is <b>proven</b>\n &amp; short</p>"
    assert _recording.plain(page).split("\n")[-2] == "It is proven & short"
