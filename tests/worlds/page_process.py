"""Pages in a process of their own, where tests hide packages (apart.py):
`python page_process.py '{"page.md": [blocks, [command, ...]], ...}'` runs the commands and the
first blocks of each page (null: all), and prints what failed as a JSON object."""

import contextlib
import json
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from unittest import mock

from docs_blocks import DOCS, run_line, run_page


def failures(pages: dict[str, tuple[int | None, list[str]]]) -> dict[str, str]:
    warnings.simplefilter("error")  # as pytest has it
    found = {}
    for name, (most, lines) in pages.items():
        with tempfile.TemporaryDirectory(prefix="a folder ") as made, contextlib.chdir(made):
            try:
                for line in lines:
                    run_line(DOCS / name, line, Path(made))
                run_page(DOCS / name, Path(made), most)
            except BaseException:
                found[name] = traceback.format_exc()
    return found


def main(pages: str) -> None:
    with mock.patch("feddcd.report.run.panels", return_value=[]):  # tests/report draws them
        print(json.dumps(failures(json.loads(pages))))


if __name__ == "__main__":
    main(sys.argv[1])
