"""Messages as people saw them: looks up templates of the source in what the tests recorded.

FEDDCD_RECORD=FOLDER pytest writes the texts (tests/_recording.py). A template is a text in which
values stand between the signs OPEN and CLOSE, or as <setting>, {name} or %s.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from recorded_texts import ESCAPES, Place, recorded

OPEN, CLOSE = "\ue000", "\ue001"
HOLE = re.compile(rf"{OPEN}.*?{CLOSE}|<\w+>|\{{\w*\}}|%[sd]", re.S)
END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\)))\s+(?=[A-Z`*\"(]|feddcd )")
COLOURS = "bold|dim|italic|red|green|yellow|cyan|blue|magenta"
MARKUP = re.compile(rf"\[(?:/|/?(?:{COLOURS})(?: (?:{COLOURS}))*)\]")
ALIKE = str.maketrans("’−\xa0", "'- ")
STRANGE = re.compile(r"[^\x00-\x7f]|[^\w\s.,:;'\"()[\]/=<>%~*+-]|\w{25,}|__|\\")
KINDS = ("printed", "warned", "page", "error")  # an error as the terminal says it comes first
VALUE = 400  # characters
LEAST = 3  # words of a template: fewer are found anywhere
MANY = 300  # matches to choose from


class Seen:
    def __init__(self, folder: Path):
        self.places = sorted(set(recorded(folder)), key=lambda p: (KINDS.index(p.kind), p.text))
        self.taken: set[str] = set()

    @cached_property
    def index(self) -> dict[str, set[int]]:
        found = defaultdict(set)
        for k, place in enumerate(self.places):
            for word in set(words(place.text)):
                found[word].add(k)
        return found

    def sentences(self, template: str) -> list[str]:
        """The whole sentences that the template became, where it was shown best; or none."""
        needed = whole_words(template)
        if not needed or len(re.findall(r"[a-z]\S*", HOLE.sub(" ", template), re.I)) < LEAST:
            return []
        pattern = expression(template)
        matches = [m for k in self._candidates(needed) if (m := within(self.places[k], pattern))]
        if not matches:
            return []
        best = min(matches[:MANY], key=self._order(matches[:MANY]))
        self.taken |= set(best[1])
        return best[1]

    def around(self, sentence: str) -> str:
        """The line in which people saw this sentence, if it is not a whole page."""
        texts = (place.text for place in self.places if sentence in place.text)
        return min(texts, key=len, default=sentence)

    def _candidates(self, needed: Iterable[str]) -> list[int]:
        sets = sorted((self.index.get(word, set()) for word in set(needed)), key=len)
        return sorted(set.intersection(*sets))[: 10 * MANY]

    def _order(self, matches: list[tuple[str, list[str]]]):
        """What another template became too, then what is plain and of the usual length."""
        lengths = sorted(len(" ".join(found)) for _, found in matches)
        usual = lengths[len(lengths) // 4]  # several messages may stand in one line

        def order(match):
            kind, found = match
            text = " ".join(found)
            new = not self.taken.issuperset(found)
            strange = len(STRANGE.findall(text)) + (text.count("(") != text.count(")"))
            return new, KINDS.index(kind), strange, abs(len(text) - usual), text

        return order


def within(place: Place, pattern: re.Pattern[str]) -> tuple[str, list[str]] | None:
    match = pattern.search(place.text.translate(ALIKE))
    if match is None:
        return None
    spans = [match.span(k) for k in range(1, pattern.groups + 1)]
    touched = lambda a, b: any(a < end and start < b for start, end in spans)
    return place.kind, [sentence for a, b, sentence in parts(place.text) if touched(a, b)]


def parts(text: str) -> Iterator[tuple[int, int, str]]:
    """Where sentences begin and end, and the sentences."""
    start = 0
    for end in [*END.finditer(text), None]:
        stop = len(text) if end is None else end.start()
        yield start, stop, text[start:stop]
        start = len(text) if end is None else end.end()


def expression(template: str) -> re.Pattern[str]:
    """Values may be anything, within a line; words are words."""
    pieces = []
    for piece in HOLE.split(plain(template).translate(ALIKE)):
        if words(piece):
            before = r"(?<!\w)" if piece[0] == " " else ""
            after = r"(?!\w)" if piece[-1] == " " else ""
            pieces.append(f"{before}({re.escape(piece.strip())}){after}")
    return re.compile(f".{{0,{VALUE}}}?".join(pieces), re.I)


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", MARKUP.sub("", ESCAPES.sub("", text)))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.translate(ALIKE).lower())


def whole_words(template: str) -> list[str]:
    """Those that no value touches."""
    text = HOLE.sub("\0", plain(template).translate(ALIKE))
    return re.findall(r"(?<![\w\0])\w+(?![\w\0])", text.lower())
