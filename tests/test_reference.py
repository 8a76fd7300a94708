"""The Python reference: every object says all that a reader needs, and its examples run."""

import doctest
import inspect
import pkgutil
import re

import pytest

from docs_blocks import DOCS, blocks, missing, run_python

PAGE = DOCS / "api.md"
SHOWN = re.findall(r"^::: (\S+)\n((?:    .*\n)*)", PAGE.read_text(), re.MULTILINE)
ENTRY = re.compile(r"^    (\w+): (.*)$", re.MULTILINE)
SELF = ("self", "cls")


def _members(options: str) -> list[str]:
    """Nothing is shown that nobody chose."""
    found = re.search(r"^ +members: (?:false|\[(.*)\])$", options, re.MULTILINE)
    return re.findall(r"\w+", found[1] or "") if found else []


def _objects() -> dict[str, object]:
    """What the page shows, by name."""
    found = {name: pkgutil.resolve_name(name) for name, _ in SHOWN}
    members = {
        f"{name}.{member}": getattr(found[name], member)
        for name, options in SHOWN
        for member in _members(options)
    }
    return found | members


OBJECTS = _objects()
each_object = pytest.mark.parametrize("name", OBJECTS)


def section(text: str, title: str) -> str:
    """The lines of one section of a docstring, without the others."""
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)*)", text + "\n", re.MULTILINE)
    return found[1] if found else ""


def undescribed(made: object) -> list[str]:
    """The parameters of a function or a class that its docstring leaves out."""
    parameters = inspect.signature(made).parameters  # pyright: ignore
    said = dict(ENTRY.findall(section(inspect.getdoc(made) or "", "Args")))
    return [name for name in parameters if name not in SELF and not said.get(name)]


def invented(made: object) -> list[str]:
    """Those that the docstring describes, and that there are not."""
    parameters = inspect.signature(made).parameters  # pyright: ignore
    said = dict(ENTRY.findall(section(inspect.getdoc(made) or "", "Args")))
    return [name for name in said if name not in parameters]


@each_object
def test_an_object_says_what_it_is_and_what_it_takes(name):
    made = OBJECTS[name]
    text = vars(made).get("__doc__") if inspect.isclass(made) else made.__doc__
    assert text, name
    assert re.match(r"[A-Z].*\.$", inspect.cleandoc(text).partition("\n")[0]), name
    assert not undescribed(made), name
    assert not invented(made), name


@each_object
def test_an_object_says_what_it_returns(name):
    made = OBJECTS[name]
    if inspect.isclass(made):
        return
    returns = inspect.signature(made).return_annotation  # pyright: ignore
    assert returns is not inspect.Signature.empty, name
    assert bool(section(inspect.getdoc(made) or "", "Returns")) is (str(returns) != "None"), name


class _Loosely(doctest.OutputChecker):
    """As on all pages: the same words, and numbers to about two digits."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or not missing(want, got)


def failures(name: str, text: str, names: dict) -> str:
    """What the examples of a docstring print otherwise than it says."""
    test = doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0)
    assert test.examples, f"{name} has no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(_Loosely(), verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=said.append)
    return "".join(said)


@pytest.fixture(scope="module")
def page_names():
    """Of the rows that the page makes for all examples."""
    (block,) = (block for block in blocks(PAGE) if block.language == "python")
    names: dict = {"__name__": "page"}
    run_python(block, names)
    return names


@each_object
def test_the_examples_of_an_object_run(name, page_names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])
    assert not failures(name, inspect.getdoc(OBJECTS[name]) or "", page_names)


def test_the_whole_page_is_read():
    """Members are named one by one, so that nothing comes to the page without a look."""
    assert len(OBJECTS) >= 35
    for name, options in SHOWN:
        assert inspect.isclass(OBJECTS[name]) is ("members:" in options), name


def lacking(x: int, y: int = 0):
    """An object that lacks much.

    Args:
        x: A number.
        z: It is not there.
    """


def test_a_text_that_lacks_something_is_found():
    assert undescribed(lacking) == ["y"]
    assert invented(lacking) == ["z"]
    assert "Expected:\n    3" in failures("sum", ">>> 1 + 1\n3\n", {})
    assert failures("sum", ">>> 1 + 1\n2\n", {}) == ""
    with pytest.raises(AssertionError, match="has no example"):
        failures("none", "Nothing.", {})
