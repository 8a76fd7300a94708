"""Sentences that people read, drawn at random: for a test whether each is understood at once.

    FEDDCD_RECORD=FOLDER pytest  # records what users see, once
    python tools/sentences.py [--seen FOLDER] [--count 30] [--seed 0] [--all deploy.md _site.py]

The draw is from README and docs (whole sentences of running text and lists, no code and no
tables) and from the messages and help texts of the source, each sentence with the same chance.
A message that the tests recorded is the whole sentence that people saw; in one that they did not,
values are shown as their names in braces. With records, the draw leaves out what no test showed and
what begins or ends with a value: other parts of the message may stand there. A drawn sentence
stands between the signs ‹ and ›, where people meet it: after the paragraphs and tables before it,
in its message, or beside its option. A page is named with its part of the site, which says for whom
it is. `--all` prints sentences alone.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from seen_texts import CLOSE, END, HOLE, LEAST, OPEN, Seen, plain

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(
    r"^(\[\w+\]$|\w+=|FROM |RUN |#!)", re.M
)  # a file that feddcd writes, not a message
WORDS = 5  # shorter ones are labels
BEFORE = 2  # paragraphs, tables or points of a list that are shown before that of a sentence
NO_WORDS = re.compile(
    r"\b(INSERT INTO|SELECT|CREATE|UPDATE|DELETE|NOT LIKE)\b"
    r"|\{ *[\w-]+:|: *#[0-9a-f]+;|\\[bdsw]|\(\?"
)


class Sentence(NamedTuple):
    name: str  # of the file
    text: str
    around: str  # what people read with it
    heading: str = ""


def pages() -> list[Sentence]:
    found, readers = [], parts_of_site()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        name = f"{readers[path.name]}: {path.name}" if path.name in readers else path.name
        heading, before = "", []
        text = re.sub(r"```.*?```|<picture>.*?</picture>", "\n\n", path.read_text(), flags=re.S)
        text = re.sub(r"\$\$.*?\$\$", "\n\n", text, flags=re.S)
        for block in re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. )", text):
            if block.startswith("#"):
                heading, before = block.splitlines()[0].strip("# "), []
            if block.startswith("|"):
                before = [*before[-BEFORE:], block.strip().replace("\n", "\n    ")]
            if block.startswith(("    ", "#", "|", "!", "<", ":::")) or not block.strip():
                continue
            plain = " ".join(re.sub(r"^\s*([-*]|\d+\.) ", "", block).split())
            plain = re.sub(r" ?\(\[[^]]*\]\([^)]*\)\)", "", plain)  # links
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain).replace("**", "")
            before = [*before[-BEFORE:], plain]
            found += [Sentence(name, s, "\n    ".join(before), heading) for s in END.split(plain)]
    return [sentence for sentence in found if whole(sentence.text)]


def parts_of_site() -> dict[str, str]:
    """Of each page, the part of the site in which it stands."""
    found, part = {}, ""
    settings = ROOT / "mkdocs.yml"
    for line in settings.read_text().splitlines() if settings.exists() else ():
        if head := re.fullmatch(r"  - ([\w ]+):", line):
            part = head[1]
        elif page := re.fullmatch(r"      - .*: (\w[\w-]*\.md)", line):
            found[page[1]] = part
    return found


def whole(sentence: str) -> bool:
    """Neither the head of a list or a table, nor a line of links."""
    return len(sentence.split()) >= WORDS and sentence.endswith((".", "!", "?"))


def messages(seen: Seen | None = None) -> list[Sentence]:
    """As people saw them, where they did, each once."""
    found: dict[str, Sentence] = {}
    counts = [0, 0]
    for name, template, option, whole in templates():
        sentences = seen.sentences(template) if seen else []
        if sentences or (message(template) and not (seen and open_ended(template))):
            counts[bool(sentences)] += 1
            for text in sentences or [bare(template)]:
                around = seen.around(text) if seen and sentences else text
                if around == text and text in whole:
                    around = whole  # what stands in the same message
                beside = f"help of {option}" if option else ""
                found[text] = Sentence(name, text, around, beside)
    if seen:
        print(f"{counts[True]} of {sum(counts)} templates were seen")
    return list(found.values())


def templates() -> Iterator[tuple[str, str, str, str]]:
    """The file, the sentence, the option that a help text stands beside, and the whole text."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text())
        skip = {id(c) for node in ast.walk(tree) for c in inner(node)}
        beside = {id(c): name for name, helped in options(tree) for c in ast.walk(helped)}
        for node in ast.walk(tree):
            if id(node) not in skip and isinstance(node, ast.Constant | ast.JoinedStr):
                text = "" if CODE.search(shown(node)) else plain(shown(node)).strip()
                name = beside.get(id(node), "")
                parts = (s for s in END.split(text) if len(s.split()) > WORDS)
                yield from ((path.name, s, name, bare(text)) for s in parts)


def options(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What people type, with its command, and what of the source describes it: the last counts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := written(node)):
            yield name, node
    for command in ast.walk(tree):
        if isinstance(command, ast.FunctionDef):
            for node in command.args.args + command.args.kwonlyargs:
                if node.annotation is not None:
                    name = written(node.annotation) or "--" + node.arg.replace("_", "-")
                    yield f"{command.name.replace('_', '-')} {name}", node.annotation


def written(node: ast.AST) -> str:
    """The option that stands in this part of the source."""
    parts = (p.value for p in ast.walk(node) if isinstance(p, ast.Constant))
    names = [p for p in parts if isinstance(p, str) and re.fullmatch(r"--[a-z][\w/-]*", p)]
    return names[0].split("/")[0] if names else ""


def bare(template: str) -> str:
    return template.replace(OPEN, "").replace(CLOSE, "")


def message(template: str) -> bool:
    """Neither values alone, nor a page, a style, a query or a pattern."""
    words = HOLE.sub("", template)
    return "<" not in template and len(words.split()) >= LEAST and not NO_WORDS.search(words)


def open_ended(template: str) -> bool:
    ends = HOLE.split(template.strip(" .,;:()'"))
    return not (ends[0].strip() and ends[-1].strip())


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
        return f"{OPEN}{{{ast.unparse(node.value)}}}{CLOSE}"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(shown, node.values))
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", nargs="+", metavar="FILE", help="every sentence of these files")
    parser.add_argument("--seen", type=Path, metavar="FOLDER", help="texts that the tests recorded")
    asked = parser.parse_args()
    if asked.seen and not any(asked.seen.glob("*.jsonl")):
        parser.error(f"{asked.seen} has no recorded texts")
    pool = pages() + messages(asked.seen and Seen(asked.seen))
    if asked.all:
        for sentence in pool:
            if sentence.name.split(": ")[-1] in asked.all:
                print(f"[{sentence.name}] {sentence.text}")
        return
    print(f"{asked.count} of {len(pool)} sentences")
    for k, drawn in enumerate(random.Random(asked.seed).sample(pool, asked.count), 1):
        place = f"{drawn.name}, {drawn.heading}" if drawn.heading else drawn.name
        print(f"\n{k:2d}. [{place}] {drawn.around.replace(drawn.text, f'‹{drawn.text}›', 1)}")


if __name__ == "__main__":
    main()
