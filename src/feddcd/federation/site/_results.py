"""What comes back to a site: the table of a study in which it took part, as text."""

import csv
import io
import re
from typing import Any

from ..._errors import Refused
from ..._files import Disk, owner_only, save
from ..._text import printable_lines, spreadsheet_cell
from ..wire import RESULT_FILES, Envelope
from .log import append

FOLDER = "results"
MOST_STUDIES = 1000
MOST_LETTERS = 1 << 21  # of one file
MOST_BYTES = 1 << 26  # of all studies


def keep_result(envelope: Envelope, place: Any) -> Envelope:
    """results/STUDY/: only text of known names, of a bounded size, without what moves a cursor."""
    study, files = envelope.meta.get("study"), envelope.meta.get("files")
    if not isinstance(study, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", study):
        raise Refused(f"{place.client}: the message has a result without the name of a study")
    if not isinstance(files, dict) or not files or not set(files) <= set(RESULT_FILES):
        raise Refused(
            f"{place.client}: the message has a result with files that a site does not accept"
        )
    if not all(isinstance(text, str) and len(text) <= MOST_LETTERS for text in files.values()):
        raise Refused(
            f"{place.client}: the message has a result that is not a text, or is too long"
        )
    plain = {name: _plain(name, text, place.client).encode() for name, text in files.items()}
    there = place.folder / FOLDER
    if not (there / study).exists() and len(list(there.glob("*"))) >= MOST_STUDIES:
        raise Refused(
            f"{place.client}: this site already has the results of {MOST_STUDIES} studies; remove "
            "old results from the folder 'results' of this site"
        )
    held = sum(path.stat().st_size for path in there.glob("*/*") if path.parent.name != study)
    if held + sum(map(len, plain.values())) > MOST_BYTES:
        raise Refused(
            f"{place.client}: the results of all studies need more than {MOST_BYTES >> 20} MiB; "
            "remove old results from the folder 'results' of this site"
        )
    with owner_only():
        (there / study).mkdir(parents=True, exist_ok=True)
        for name in plain:
            save(Disk(), there / study / name, plain[name])
    append(place.folder, {"result": study})
    return Envelope("result", {"client": place.client}, {})


def _plain(name: str, text: str, client: str) -> str:
    """Without what moves a cursor; of a table no cell is a formula."""
    text = printable_lines(text)
    if not name.endswith(".csv"):
        return text
    try:
        rows = list(csv.reader(text.split("\n"), strict=True))
    except csv.Error:
        raise Refused(f"{client}: the message has a result that is not a table") from None
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows(map(spreadsheet_cell, row) for row in rows)
    return made.getvalue().removesuffix("\n")
