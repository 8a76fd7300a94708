"""What a federation trains and how it deals with its sites: `federation.toml`."""

import dataclasses
import ipaddress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tomli_w

from .._errors import SpecError
from .._settings import read_toml, typed
from .._text import listed, nearest
from ..runs.spec import Spec
from ..sums.roster import FEWEST
from .about import check_purpose

PATIENCE_S, PEOPLE_S = 600.0, 7 * 86400.0  # for programs, and for people
ANSWERS = ("", "sum", "each")
SHARED = ("nobody", "cohort")
# the settings of a Spec that are agreed on; all others may change while a federation lives
AGREED = ("algorithm", "model", "l2", "weighting", "seed", "dtype", "settings")
HOW_MADE = (
    "; to try a federation on this machine: feddcd federation init DIR --job job.toml --data FILE "
    "--group COLUMN; for sites on other machines: feddcd federation init DIR --host NAME"
)
_TIMES = ("deadline", "patience", "fewest")
_OF_SPEC = (*AGREED, "tau", "rounds", "target_gap", "certify_every")


@dataclass(frozen=True)
class Config:
    """`rounds` counts committed rounds; times are in seconds."""

    name: str  # of this federation; its sites' files carry it
    spec: Spec = field(default_factory=lambda: Spec(weighting="samples"))
    fewest: int = 2  # uploads without which a round is given up
    deadline: float = 120.0  # for one answer
    patience: float = PATIENCE_S  # without enough sites, before it stops
    approval_patience: float | None = None  # for people at sites, who have to decide
    largest: float = 1e6  # |upload| <= largest (1 + |model|)
    host: str = "127.0.0.1"  # of the SuperLink, as the sites call it
    port: int = 9093
    bind: str = ""  # the address on which it listens; without a word, loopback or all
    features: tuple[str, ...] | int | None = None  # None: what most sites have
    classes: tuple[str, ...] | tuple[float, ...] | None = None
    answers: str = ""  # of training: sum or each; without a word, each
    share: str = "nobody"  # or cohort: the sites of a table get it, too
    repeat_without: bool = False  # a finished table may be made again without one of its sites
    purpose: str = ""  # what it is for, as people at the sites read it
    plan: Any = None  # of an analysis, as [glm] or [describe] has it, instead of training

    def __post_init__(self):
        # with JAX, which tables do without: a federation that has none yet trains nothing
        if self.plan is None and find_spec("equinox") is not None:
            from ..runs import build

            build.check_names(self.spec, absences=True)
        if not self.name or not self.name.isprintable():
            raise SpecError(
                "the setting `name` must be a text of one line that is not empty, got "
                f"name={self.name!r}"
            )
        if self.spec.tau is not None and self.spec.tau < 2:
            raise SpecError(f"the setting `tau` must be at least 2, got tau={self.spec.tau}")
        if not 0 < self.port < 2**16:
            raise SpecError(f"the setting `port` must be from 1 to 65535, got port={self.port}")
        if self.bind and not _is_address(self.bind):
            raise SpecError(f"bind must be an IP address of this machine, got bind={self.bind!r}")
        if self.fewest < 2:
            raise SpecError(
                "the setting `fewest` must be at least 2, because a round needs 2 uploads; got "
                f"fewest={self.fewest}"
            )
        if self.share not in SHARED:
            raise SpecError(f"share must be {' or '.join(SHARED)}, not {self.share!r}")
        check_purpose(self.purpose)
        if self.answers not in ANSWERS:
            raise SpecError(f"the setting `answers` must be 'sum' or 'each', not {self.answers!r}")
        if self.answers and self.plan is not None:
            raise SpecError(
                "in federation.toml, the setting `answers` is only for trainings; for a table, "
                "write this setting into the plan"
            )
        if self.answers == "sum":
            _check_sums(self.spec)
        above = {what: getattr(self, what) for what in ("deadline", "patience", "largest")}
        for what, value in (above | {"approval_patience": self.approvals}).items():
            if not value > 0:
                raise SpecError(f"the setting `{what}` must be above 0, got {what}={value}")

    @property
    def approvals(self) -> float:
        """Seconds for a person's decision. Who set another patience meant it for people, too."""
        if self.approval_patience is not None:
            return self.approval_patience
        return PEOPLE_S if self.patience == PATIENCE_S else self.patience

    def to_toml(self) -> str:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values = {
            k: v for k, v in fields.items() if v not in (None, "") and k not in ("spec", "plan")
        }
        if self.share == SHARED[0]:  # it would read as if a study gave its table to nobody
            del values["share"]
        if self.plan is not None:
            from ..analysis.registry import ANALYSES

            return tomli_w.dumps(values | {ANALYSES[self.plan.analysis].part: self.plan.to_dict()})
        spec = {k: v for k, v in self.spec.to_dict().items() if k in _OF_SPEC}
        return tomli_w.dumps(values | spec)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_sums(spec: Spec) -> None:
    if spec.tau is not None and spec.tau < FEWEST:
        raise SpecError(
            f"with answers = 'sum', a round needs at least {FEWEST} sites, so tau must be at least "
            f"{FEWEST}; got tau={spec.tau}"
        )
    from ..algorithms.catalogue import get_method

    row = get_method(spec.algorithm)
    if "bits" in spec.settings and "bits" not in row.settings:
        raise SpecError(
            f"{spec.algorithm} cannot use the setting bits with answers = 'sum', because the "
            "coordinator would have to read the answer of each site"
        )
    if spec.tau is not None and row.apart:
        raise SpecError(
            f"with answers = 'sum', {spec.algorithm} needs every site in every round. Remove the "
            "setting `tau`. With `tau`, a round can have exactly one site that takes part for the "
            "first time. Then the sum could show the numbers of this site"
        )
    if not row.in_sums:
        raise SpecError(
            f"{spec.algorithm} is not possible with answers = 'sum', because the sites cannot "
            "repeat the steps of this method exactly. You can make a regression table in mode "
            "`sum` instead: the table has the same result"
        )


def load_config(path: Path) -> Config:
    return _read(path, read_toml(path, HOW_MADE))


def _read(path: Path, values: dict[str, Any]) -> Config:
    names = {f.name for f in dataclasses.fields(Config)} - {"spec", "plan"} | {*_OF_SPEC}
    parts = {k: v for k, v in values.items() if k not in names}
    try:
        plan = _plan(parts, names) if parts else None
        if "name" not in values:
            raise SpecError("the setting `name` is missing; write for example: name = 'north'")
        spec: dict[str, Any] = {"weighting": "samples"}
        spec |= {k: values.pop(k) for k in _OF_SPEC if k in values}
        own = {k: _plain(k, v) for k, v in values.items() if k not in parts}
        return Config(spec=Spec(**spec), plan=plan, **own)
    except (SpecError, TypeError) as error:
        raise SpecError(f"{path}: {error}") from None


def load_study(path: Path, federation: Config, study: str) -> Config:
    """What a study says in its own file; where the sites call is the federation's."""
    values = read_toml(path, "; to begin a study: feddcd federation study DIR NAME --job job.toml")
    for name in values:
        if name in ("name", "host", "port", "bind"):
            raise SpecError(
                f"{path}: the setting `{name}` belongs to the federation, so write this setting "
                "into federation.toml, not into the file of a study"
            )
    kept: dict[str, Any] = {n: getattr(federation, n) for n in _TIMES}
    kept |= {"host": federation.host, "port": federation.port, "bind": federation.bind}
    if federation.approval_patience is not None:
        kept["approval_patience"] = federation.approval_patience
    kept["share"] = "cohort"  # who took part may see what came of it, unless the study says no
    return _read(path, {"name": f"{federation.name}/{study}", **kept, **values})


def _plan(parts: dict[str, Any], names: set[str]) -> Any:
    """Of the one part that says what is made instead of training."""
    from ..analysis import registry  # with pandas

    known = registry.parts()
    for name in parts:
        if name not in known:
            raise SpecError(f"unknown setting {name!r}{nearest(name, {*names, *known})}")
    if len(parts) > 1:
        raise SpecError(f"a file can have only one analysis, but this file has {listed(parts)}")
    return registry.read_part(*next(iter(parts.items())))


def _plain(name: str, value: Any) -> Any:
    if name in ("features", "classes"):
        return tuple(value) if isinstance(value, list) else value
    if value != value:  # nan: the checks above say what it should be
        return value
    return typed(Config, name, value)
