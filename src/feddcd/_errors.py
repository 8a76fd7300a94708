"""What a person can mend: one base class, its kinds, and where the trouble is, as fields.

A message says what is wrong; who knows the file, the line or the name of an option adds it with
`placed`, so that no message has to be taken apart again. The command line catches the base alone.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

Spell = Callable[[str, Any], str]


class Above(NamedTuple):
    """For the value of a setting in a message: any that is larger than this."""

    least: float


def in_python(setting: str, value: Any) -> str:
    """A setting as Python has it: missing='drop', label=... for any value, or its bare name."""
    if isinstance(value, Above):
        return f"{setting} > {value.least:g}"
    if value is ...:
        return f"{setting}=..."
    return setting if value is None else f"{setting}={value!r}"


def at_row(row: int) -> str:
    return f"at row {row} (counted from 0)"


class FeddcdError(Exception):
    """`message` may name settings in angle brackets, as in <missing>; `settings` has their values
    (None: the name alone), and `spell` says how they are written where the message is read.
    `lines` are the parts of a long message, for who reads it in lines."""

    lines: tuple[str, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        row: int | None = None,
        column: str | None = None,
        value: Any = None,
        settings: Mapping[str, Any] | None = None,
    ):
        super().__init__(message)
        self.message, self.file, self.row, self.column = message, file, row, column
        self.value, self.settings = value, dict(settings or {})
        self.place: Callable[[int], str] = at_row  # a named function: errors cross processes
        self.spell: Spell = in_python

    def placed(
        self,
        file: str | None = None,
        place: Callable[[int], str] | None = None,
        spell: Spell | None = None,
    ) -> Self:
        """The same error, in the words of its reader."""
        self.file = self.file if file is None else file
        self.place = self.place if place is None else place
        self.spell = self.spell if spell is None else spell
        return self

    def __str__(self) -> str:
        text = self.message
        for name, value in self.settings.items():
            text = text.replace(f"<{name}>", self.spell(name, value))
        if self.row is not None:
            text = text.replace("<row>", self.place(self.row))
        return text if self.file is None else f"{self.file}: {text}"


class SpecError(FeddcdError, ValueError):
    """A setting, a name or an argument that cannot be used."""


class DataError(FeddcdError, ValueError):
    """Data that cannot be used, with the place and the value. `public` says it to others, where it
    does not depend on values: it may name columns, and names no value and no file."""

    def __init__(self, message: str, *, public: str | None = None, **fields: Any):
        super().__init__(message, **fields)
        self.public = public

    def told(self, public: str) -> Self:
        """The same error with words for others, unless it has its own."""
        self.public = self.public or public
        return self


class MissingExtra(FeddcdError, ImportError):
    """A library that comes with an extra of this package is not installed; says which."""


class FolderError(FeddcdError, ValueError):
    """A run folder, or a file in it, cannot be used."""


class PolicyError(SpecError):
    """A policy that cannot be used, so nothing leaves; says where and why, for the site alone."""


class Refused(FeddcdError, ValueError):
    """A message that must not be acted on; the reason is for an administrator."""

    logged = False  # by the site that refuses


class CodecError(FeddcdError, ValueError):
    """These bytes, or this value, cannot be coded."""


class VersionError(CodecError):
    """The bytes are of another version of the codec."""


class Diverged(FeddcdError, ArithmeticError):
    """The model stopped being finite; what was computed before is kept."""


class DivergedWarning(RuntimeWarning):
    """A run ended with a larger objective than the one with which it began."""


class StateError(FeddcdError, RuntimeError):
    """The state of a client cannot be trusted, or could not be written; says what to do."""


class LedgerError(FeddcdError, RuntimeError):
    """The ledger cannot be trusted, or could not be written; says what to do."""


class LogError(FeddcdError, RuntimeError):
    """The log of what left cannot be written or trusted, so nothing leaves."""


class FlowerError(FeddcdError, RuntimeError):
    """One of Flower's programs failed; the message says which, and where its log is."""


class Stalled(FeddcdError, RuntimeError):
    """Not enough sites for too long; what was committed is kept. `sites` are those waited for."""

    def __init__(self, message: str, sites: Iterable[str] = ()):
        super().__init__(message)
        self.sites = tuple(sites)


class Failed(FeddcdError, RuntimeError):
    """Training stopped; the reason is the coordinator's."""
