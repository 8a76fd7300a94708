"""The README as a package index shows it, where no repository lies beside the page: what links
there and the pictures become text. All other settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

CODE = re.compile(r"(^```.*?^```$|^ {4}.*?$)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"<picture>.*?</picture>", re.DOTALL)
IMAGE = re.compile(r'<img src="(?!https?://)([^"]+)" alt="([^"]*)"[^>]*>')
PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?://)([^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?://|mailto:)[^)\s]+\)")
NOTE = """
This page leaves out the pictures and the links of the README. The documentation is in the folder
`docs` of the source package. Begin with `docs/index.md`.
"""


def for_index(text: str) -> str:
    """Markdown without a relative link or picture; code stays as it is."""
    parts = CODE.split(text)
    parts[::2] = map(_plain, parts[::2])  # code is every second one
    return "".join(parts).rstrip() + "\n" + NOTE


def _plain(text: str) -> str:
    alone = lambda block: "".join(found[0] for found in IMAGE.finditer(block[0])) or block[0]
    text = IMAGE.sub(r"Picture `\1`: \2.", BLOCK.sub(alone, text))
    return LINK.sub(r"\1", PICTURE.sub(r"Picture `\2`: \1.", text))


setup(
    long_description=for_index(Path(__file__).with_name("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
