"""Sentences that people read, drawn at random: for a test whether each is understood at once.

    python tools/sentences.py [--count 30] [--seed 0]

The draw is from README and docs (whole sentences of running text and lists, no code and no
tables) and from the messages and help texts of the source, each sentence with the same chance.
Values in messages are shown as their names in braces.
"""

import argparse
import ast
import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\)))\s+(?=[A-Z`*\"(]|feddcd )")
CODE = re.compile(
    r"^(\[\w+\]$|\w+=|FROM |RUN |#!)", re.M
)  # a file that feddcd writes, not a message
WORDS = 5  # shorter ones are labels
SQL = ("INSERT ", "SELECT ", "CREATE ", "UPDATE ", "DELETE ")


def pages() -> list[tuple[str, str]]:
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = re.sub(r"```.*?```|<picture>.*?</picture>", "\n\n", path.read_text(), flags=re.S)
        text = re.sub(r"\$\$.*?\$\$", "\n\n", text, flags=re.S)
        for block in re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. )", text):
            if block.startswith(("    ", "#", "|", "!", "<", ":::")):
                continue
            plain = " ".join(re.sub(r"^\s*([-*]|\d+\.) ", "", block).split())
            plain = re.sub(
                r"^\*\*[^*]*[.:]\*\* | ?\(\[[^]]*\]\([^)]*\)\)", "", plain
            )  # labels, links
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain).replace("**", "")
            found += [(path.name, sentence) for sentence in END.split(plain)]
    return [(name, s) for name, s in found if whole(s)]


def whole(sentence: str) -> bool:
    """Neither the head of a list or a table, nor a line of links."""
    return len(sentence.split()) >= WORDS and sentence.endswith((".", "!", "?"))


def messages() -> list[tuple[str, str]]:
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text())
        skip = {id(c) for node in ast.walk(tree) for c in inner(node)}
        for node in ast.walk(tree):
            if id(node) not in skip and isinstance(node, ast.Constant | ast.JoinedStr):
                text = "" if CODE.search(shown(node)) else " ".join(shown(node).split())
                found += [(path.name, s) for s in END.split(text)]
    return [(name, s) for name, s in found if len(s.split()) > WORDS and message(s)]


def message(text: str) -> bool:
    return "<" not in text and not text.startswith(SQL)


def inner(node: ast.AST) -> list[ast.AST]:
    """Parts of an f-string, and docstrings: not messages of their own."""
    if isinstance(node, ast.JoinedStr):
        return [part for part in ast.walk(node) if part is not node]
    if isinstance(node, ast.Expr):
        return [node.value]
    return []


def shown(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(shown, node.values))
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pool = pages() + messages()
    print(f"{options.count} of {len(pool)} sentences")
    for k, (name, text) in enumerate(random.Random(options.seed).sample(pool, options.count), 1):
        print(f"{k:2d}. [{name}] {text}")


if __name__ == "__main__":
    main()
