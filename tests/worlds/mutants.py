"""Small mistakes in shipped source, made one at a time: `python mutants.py MODULE [NUMBER ...]`
runs the tests of the protocol against each and says how it ended."""

import ast
import copy
import importlib
import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from disks import in_memory

TESTS = ("test_protocol_steps.py", "test_protocol.py", "test_protocol_machine.py")
MODULES = ("feddcd.durable.protocol.client", "feddcd.durable.protocol.server")
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
FOUND, SURVIVED, BROKEN = "found", "survived", "broken"  # by an assertion; not; by other errors
LIMIT_S = 300
OPTIONS = ["-p", "no:cacheprovider", "-k", "not mutant", "--tb=no"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # imported here, before


def mutations(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in place of a node, each with words for it."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield "compare", _with(node, ops=[SWAPS[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        yield "operator", _with(node, op=SWAPS[type(node.op)]())
    elif isinstance(node, ast.If):
        yield "never", _with(node, test=ast.Constant(False))
        yield "always", _with(node, test=ast.Constant(True))
    elif isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "dropped", ast.Pass()
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_replace"):
        for i, keyword in enumerate(node.keywords):
            rest = node.keywords[:i] + node.keywords[i + 1 :]
            yield f"without {keyword.arg}", _with(node, keywords=rest)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "one more", ast.Constant(node.value + 1)


def _with(node: ast.AST, **changes) -> ast.AST:
    new = copy.copy(node)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


class _Replace(ast.NodeTransformer):
    """Puts mutation number `wanted` in its place; counts them all."""

    def __init__(self, wanted: int | None):
        self.wanted, self.names = wanted, []

    def visit(self, node: ast.AST) -> ast.AST:
        # texts for people, and what is there for the types
        if isinstance(node, ast.Assert | ast.JoinedStr | ast.ClassDef):
            return node
        chosen = None
        for name, new in mutations(node):
            if len(self.names) == self.wanted:
                chosen = new
            line = getattr(node, "lineno", 0)
            text = ast.unparse(node).splitlines()[0]
            self.names.append(f"line {line}, {name}: {text[:70]}")
        return chosen if chosen is not None else self.generic_visit(node)


def mutants(source: str) -> list[str]:
    """All of a source, in words; the number of one is its place."""
    counted = _Replace(None)
    counted.visit(ast.parse(source))
    return counted.names


def mutated(source: str, number: int) -> ast.Module:
    return ast.fix_missing_locations(_Replace(number).visit(ast.parse(source)))


@contextmanager
def in_force(module: ModuleType, number: int) -> Iterator[None]:
    """The functions of a module with one mistake, wherever they were imported to."""
    tree = mutated(_source(module), number)
    new = dict(module.__dict__)
    exec(compile(tree, str(module.__file__), "exec"), new)
    with pytest.MonkeyPatch.context() as patch:
        for name, old in list(module.__dict__.items()):
            if isinstance(old, FunctionType) and old.__module__ == module.__name__:
                for part in ("__code__", "__defaults__", "__kwdefaults__"):
                    patch.setattr(old, part, getattr(new[name], part))
            elif type(old) is int:
                patch.setattr(module, name, new[name])
        yield


def _source(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text()


class _Judge:
    """Ends the tests at the first assertion that fails; other errors are no proof."""

    def __init__(self):
        self.result = SURVIVED

    def pytest_exception_interact(self, node, call):
        kinds = {kind.__name__ for kind in call.excinfo.type.__mro__}
        if kinds & {"AssertionError", "Failed", "Refused"}:
            self.result = FOUND
            node.session.shouldstop = "found"
        elif self.result == SURVIVED:
            self.result = BROKEN


def judge(module: ModuleType, number: int) -> str:
    """How a mutant ends; one that runs for ever is stopped, and has not been found."""
    tests = [str(Path(__file__).parents[1] / "durable" / name) for name in TESTS]
    seen, said = _Judge(), io.StringIO()
    signal.alarm(LIMIT_S)
    with in_force(module, number), redirect_stdout(said), redirect_stderr(said), in_memory() as own:
        pytest.main([*OPTIONS, f"--basetemp={own}", *tests], plugins=[seen])
    signal.alarm(0)
    return seen.result


def _too_long(*_):
    raise TimeoutError


def main(name: str, *numbers: str) -> None:
    """A line for each: how it ended, its number, and what it is."""
    signal.signal(signal.SIGALRM, _too_long)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    importlib.import_module("conftest")  # which sets what JAX reads
    module = importlib.import_module(name)
    words = mutants(_source(module))
    for number in map(int, numbers or range(len(words))):
        print(judge(module, number), number, words[number], sep="\t", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
