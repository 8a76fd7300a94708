"""A run as data: a frozen dataclass, TOML in, TOML out."""

import dataclasses
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import SpecError
from .._settings import check_names, read_toml, typed, unquoted
from .._text import nearest

PART = 4  # without tau, one client of so many takes part in a round
Setting = bool | int | float | str
DTYPES = ("auto", "float32", "float64")
OBJECTS = ("data", "problem", "model", "parts", "algorithm")  # what Python may give


@dataclass(frozen=True)
class Spec:
    """The settings of a run, as `feddcd run` takes them and `config.toml` holds them.

    Args:
        data: A name from `feddcd list`, or the path of a file.
        test_data: A file to score the model on. None: the test rows of the data, if there are any.
        label: The column of a table that the model predicts.
        group: The column of a table that names the client of each row.
        sep: The separator of the table. None: feddcd finds it, as it does for the next two.
        decimal: The decimal sign of the table, "." or ",".
        encoding: The encoding of the table, such as "utf-8".
        na: Words for a missing value, beside the usual ones.
        sheet: The sheet of an Excel file. None: the first.
        model: "softmax", "logistic", "ridge", "poisson" or "mlp".
        partition: How rows are divided among the clients, as in `partition`.
        clients: The number of clients, at least 1. None: one for each group.
        tau: The number of clients in a round. None: a quarter of them, at least two.
        algorithm: The name of the method, from `feddcd list`.
        settings: Settings of the method, by name.
        l2: The strength of the penalty, which is l2/2 times the squared length of the model.
        weighting: The objective has the same weight for each of the "clients", or "samples".
        participation: Who is asked in a round, such as "uniform": `feddcd list participation`.
        loss: The share of uploads that are lost, at least 0 and below 1.
        rounds: The largest number of rounds, at least 1.
        target_gap: The certified gap at which the run stops, above 0. None: it uses all rounds.
        certify_every: The number of rounds from one certificate to the next, at least 1.
        eval_every: The number of rounds from one measurement to the next, at least 1.
        seed: The seed of all random numbers, from 0 to below 2**31.
        split_seed: The seed of the division of the rows. None: `seed`.
        dtype: "float64", "float32", or "auto": feddcd chooses.
        given: The names of Python objects that were given; the objects are not here.

    Raises:
        SpecError: A setting has a wrong type or value.

    Examples:
        >>> feddcd.Spec(data="wine", rounds=5).l2
        0.001
    """

    data: str = "digits"
    test_data: str | None = None
    label: str | None = None
    group: str | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    sheet: str | None = None
    model: str = "softmax"
    partition: str = "iid"
    clients: int | None = 20
    tau: int | None = None
    algorithm: str = "feddcd"
    settings: dict[str, Setting] = field(default_factory=dict)
    l2: float = 1e-3
    weighting: str = "clients"
    participation: str = "uniform"
    loss: float = 0.0
    rounds: int = 100
    target_gap: float | None = None
    certify_every: int = 5
    eval_every: int = 1
    seed: int = 0
    split_seed: int | None = None
    dtype: str = "auto"
    given: tuple[str, ...] = ()

    def __post_init__(self):
        if isinstance(self.tau, float) and 0 < self.tau < 1:
            raise SpecError(
                "tau is the number of clients in a round, not a share of the clients: for 30 % of "
                f"20 clients, give 6; got tau={self.tau:g}"
            )
        for f in dataclasses.fields(self):
            value = typed(Spec, f.name, getattr(self, f.name))
            object.__setattr__(self, f.name, value)
        if self.group is not None:
            self._by_group()
        if self.rounds < 1:
            raise SpecError(f"rounds must be at least 1, got rounds={self.rounds}")
        for name in ("certify_every", "eval_every"):
            if (every := getattr(self, name)) < 1:
                raise SpecError(f"{name} must be at least 1, got {name}={every}")
        if self.target_gap is not None and not self.target_gap > 0:
            raise SpecError(f"target_gap must be above 0, got target_gap={self.target_gap}")
        if not 0 <= self.loss < 1:
            raise SpecError(
                "loss, the share of lost uploads, must be at least 0 and below 1; got "
                f"loss={self.loss}"
            )
        if self.dtype not in DTYPES:
            raise SpecError(f"unknown dtype {self.dtype!r}{nearest(self.dtype, DTYPES)}")
        for name in self.given:
            if name not in OBJECTS:
                raise SpecError(
                    f"the setting 'given' has the unknown name {name!r}"
                    f"{nearest(str(name), OBJECTS)}"
                )
        for name in ("seed", "split_seed"):
            seed = getattr(self, name)
            if seed is not None and not 0 <= seed < 2**31:
                raise SpecError(f"need 0 <= {name} < 2**31, got {name}={seed}")

    def _by_group(self) -> None:
        for name, value in (("partition", "group"), ("clients", None)):
            given = getattr(self, name)
            if given not in (getattr(Spec, name), value):
                raise SpecError(
                    f"with <group>, each value of this column is one client: leave out <{name}>",
                    settings={"group": self.group, name: given},
                )
            object.__setattr__(self, name, value)

    @property
    def sharing(self) -> int:
        """The seed by which rows are shared out."""
        return self.seed if self.split_seed is None else self.split_seed

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without those that are None, or lists of nothing."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v not in (None, ())}

    def save(self, path: Path) -> None:
        import tomli_w

        path.write_text(tomli_w.dumps(self.to_dict()))


def load_spec(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, checked by name and type; what it leaves out stays out."""
    values = read_toml(path)
    check_names(values, [f.name for f in dataclasses.fields(Spec)], path)
    for name, value in values.items():
        try:
            typed(Spec, name, value)
        except SpecError as error:
            raise error.placed(file=str(path)) from None
    for name, value in values.get("settings", {}).items():
        if hint := unquoted(value):
            raise SpecError(f"{name} in [settings] is the text {value!r}{hint}", file=str(path))
    return values


def parse_setting(text: str) -> tuple[str, Setting]:
    """`key=value` with the value as TOML would read it, or as a bare word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise SpecError(f"a setting must have the form key=value, not {text!r}")
    key, value = key.strip(), value.strip()
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        try:
            parsed = float(value)
        except ValueError:
            parsed = value
    if not isinstance(parsed, bool | int | float | str):
        raise SpecError(f"the setting {key!r} must be one number or one word, got {value!r}")
    return key, parsed


def of_method(text: str, label: str | None) -> str:
    """In a comparison, each setting that a message names belongs to one of the methods."""
    return text if label is None else text.replace("--set ", f"--set {label}.")


@contextmanager
def errors_of(label: str | None) -> Iterator[None]:
    """The same for what is refused."""
    try:
        yield
    except SpecError as error:
        error.message = of_method(error.message, label)
        raise


def parse_settings(texts: Iterable[str]) -> dict[str, Setting]:
    """Several `key=value`, each key only once."""
    found: dict[str, Setting] = {}
    for key, value in map(parse_setting, texts):
        if key in found and found[key] != value:
            option = "--bits or " * (key.rpartition(".")[2] == "bits")
            raise SpecError(
                f"the setting {key!r} has two values, {found[key]} and {value}: give only one of "
                f"them, with {option}--set"
            )
        found[key] = value
    return found
