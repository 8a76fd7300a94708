"""Well-known files: where they come from and what is known of them.

A checksum is of the uncompressed text, since a packed file changes whenever it is packed again.
`a9a` and `phishing`: of copies with the publisher's content. `mnist`: of a file made again
from the original images with six digits; LIBSVM's own text may differ. So where one of these
differs, `check` goes on to counts. `rcv1-subset` has no publisher: its checksum is what it is.

LIBSVM's page states no licence; where a set comes from UCI, the licence is UCI's. Rows and features
are the page's. Sizes of `w8a` and `a9a.t`, non-zeros of `ijcnn1` and `covtype`: of public copies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .._errors import DataError
from .files import cache_dir

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
BINARY, MULTICLASS = f"{LIBSVM}/binary", f"{LIBSVM}/multiclass"
SUFFIXES = ("", ".bz2", ".gz", ".xz")
EITHER_SIGN = ((-1, None), (1, None))


@dataclass(frozen=True)
class File:
    """One file by its name without compression; None stands for what is not known for sure."""

    name: str
    rows: int
    labels: tuple[tuple[int, int | None], ...]
    nonzeros: int | None = None
    last: int | None = None  # the largest index in this file
    base: str | None = None  # the folder of the publisher, None where there is none
    packed: str = ""  # the compression there
    size: int | None = None  # bytes of the text
    sha256: str | None = None  # of the text
    blob: str | None = None  # the text's id in git
    exact: bool = False  # whether nothing but the checksum will do

    @property
    def address(self) -> str | None:
        return None if self.base is None else f"{self.base}/{self.name}{self.packed}"


@dataclass(frozen=True)
class KnownSet:
    """A set of files, looked for in FEDDCD_DATA and in the cache folder."""

    name: str
    about: str
    features: int
    licence: str
    train: File
    test: File | None = None
    needs_test: bool = False
    fetch_test: bool = True

    @property
    def rows(self) -> int:
        return self.train.rows

    @property
    def files(self) -> tuple[File, ...]:
        return (self.train,) if self.test is None else (self.train, self.test)


def _digits(*counts: int) -> tuple[tuple[int, int], ...]:
    return tuple(enumerate(counts))


_SETS = (
    KnownSet(
        "mnist", "handwritten digits 28 x 28, 10 classes", 780, "none stated",
        File(
            "mnist.scale", 60_000,
            _digits(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            8_994_156, 780, MULTICLASS, ".bz2", 114_766_413,
            "0e1315b38c66dec9d1a5539b51ca90009689fd754d35458ed19413b638190f72",
        ),
        File(
            "mnist.scale.t", 10_000,
            _digits(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
            1_511_219, 778, MULTICLASS, ".bz2", 19_254_722,
            "954ced1a0bb169e981bbd6753ff52e746d902e22938054c757d7bc25cbacc97c",
        ),
        needs_test=True,
    ),
    KnownSet(
        "rcv1", "words of news stories (LIBSVM's RCV1), 2 classes", 47_236, "none stated",
        File(
            "rcv1_train.binary", 20_242, EITHER_SIGN, None, 47_236, BINARY, ".bz2",
            blob="a2f9d78226e20b308e4c2dedf88cfec55dd92899",
        ),
        File("rcv1_test.binary", 677_399, EITHER_SIGN, base=BINARY, packed=".bz2"),
        fetch_test=False,
    ),
    KnownSet(
        "a9a", "income of adults, 2 classes", 123, "CC BY 4.0 (UCI)",
        File(
            "a9a", 32_561, ((-1, 24_720), (1, 7_841)), 451_592, 123, BINARY, "", 2_329_875,
            "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
            "6ce538e7f5105e65963166832f144d46cb57fdd9",
        ),
        File("a9a.t", 16_281, ((-1, 12_435), (1, 3_846)), base=BINARY, size=1_164_634),
    ),
    KnownSet(
        "w8a", "words of web pages, 2 classes", 300, "none stated",
        File("w8a", 49_749, EITHER_SIGN, None, 300, BINARY, "", 3_478_239),
        File("w8a.t", 14_951, EITHER_SIGN, base=BINARY),
    ),
    KnownSet(
        "phishing", "phishing web sites, 2 classes", 68, "CC BY 4.0 (UCI)",
        File(
            "phishing", 11_055, ((0, 4_898), (1, 6_157)), 331_650, 68, BINARY, "", 3_620_168,
            "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a",
        ),
    ),
    KnownSet(
        "ijcnn1", "misfires of an engine (IJCNN 2001), 2 classes", 22, "none stated",
        File("ijcnn1", 49_990, EITHER_SIGN, 649_870, 22, BINARY, ".bz2"),
        File("ijcnn1.t", 91_701, EITHER_SIGN, 1_192_113, 22, BINARY, ".bz2"),
    ),
    KnownSet(
        "covtype",
        "kinds of forest (one kind against all other kinds), features from 0 to 1, 2 classes", 54,
        "CC BY 4.0 (UCI)",
        File(
            "covtype.libsvm.binary.scale", 581_012, ((1, None), (2, None)), 6_940_438, 54, BINARY,
            ".bz2",
        ),
    ),
    KnownSet(
        "rcv1-subset", "news stories (not the same stories as in rcv1), 2 classes", 47_236,
        "LGPL >= 3",
        File(
            "rcv1sub_train.binary", 20_242, ((-1, 10_155), (1, 10_087)), 1_520_675,
            size=22_335_398, exact=True,
            sha256="aff88036d72d4d0544523eb81ceecbaa643727cfd86d3dcbc3e4d8f78ea93360",
        ),
        File(
            "rcv1sub_test.binary", 3_507, ((-1, 1_765), (1, 1_742)), 263_099,
            size=3_864_392, exact=True,
            sha256="bf5f5ea03949c2d87fa8208fe00dd91aab651a18156dab239e8f544674a7c215",
        ),
        needs_test=True,
    ),
)  # fmt: skip

KNOWN = {source.name: source for source in _SETS}


def folders() -> list[Path]:
    """Where files are looked for; the first is where they are put."""
    named = os.environ.get("FEDDCD_DATA")
    return [Path(named), cache_dir()] if named else [cache_dir()]


def find(file: File) -> Path | None:
    """The file in whatever compression, or None where it is in none of the folders."""
    paths = (folder / f"{file.name}{suffix}" for folder in folders() for suffix in SUFFIXES)
    return next((path for path in paths if os.path.isfile(path)), None)


def placing(file: File) -> str:
    """What to put where."""
    named, other = os.environ.get("FEDDCD_DATA"), "the environment variable FEDDCD_DATA"
    where = f"{cache_dir()}, or into another folder that you name in {other}"
    if named:
        where = f"{named} (named in {other}) or into the folder {cache_dir()}"
    what = f"{file.name} (unpacked, or packed as .bz2, .gz or .xz)"
    return f"put the file {what} into the folder {where}"


def absent(source: KnownSet, file: File) -> DataError:
    """The error for a file that is not here."""
    here = f"{source.name}: feddcd did not find the file {file.name} of this data set"
    if file.address is None:
        none = "This file has no public address, so feddcd cannot download it"
        return DataError(f"{here}. {none}: {placing(file)}")
    return DataError(
        f"{here}. To download it from {file.address}, use the command: feddcd data fetch "
        f"{source.name}. Or {placing(file)}"
    )
