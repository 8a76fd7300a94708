"""A site's side: a question in bytes to an answer in bytes, over its data and its state file.

Whatever goes wrong, an answer leaves, and it holds no value of the data and no path of this
machine: the whole story is in the site's own log.
"""

import hashlib
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..._errors import CodecError, DataError, LogError, PolicyError, Refused, SpecError, StateError
from ..._files import stamp
from ...data.agreement import Offer, SiteData, offer
from ...data.tables import read_site
from ...durable.client_state import ClientFile
from ...durable.protocol import Reply
from ...durable.site import Site
from ...measure import tangent
from .. import wire as parcels
from ..terms import Parts, joining, site_parts
from ..wire import REGRESSION, Ask, Closing, Hello, Opened, Proof, Refusal, Welcome
from . import training as leaving
from .disclosure import Outgoing
from .policy import Check
from .release import Door

Said = Welcome | Reply | Closing | Opened


class Place(NamedTuple):
    """Where a site keeps what is its own."""

    client: str
    folder: Path  # of the state file and the log
    data: Path
    label: str | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.folder / "site.log"


def answer(request: bytes, place: Place, ask: Callable[[str], str] | None = None) -> bytes:
    """`ask` puts what would leave before a person, who says yes or no."""
    door = Door(place.folder, place.client, ask)
    try:
        check = lambda out: door.check(out, request)
        said, out = _answer(parcels.opened(request), place, check)
        packed = parcels.packed(said)
        return packed if out is None else door.release(packed, out, request)
    except Refused as reason:
        said = str(reason)
    except PolicyError as error:
        said = _told(place, "its policy cannot be used", error)
    except LogError as error:
        said = _told(place, "its log of what leaves cannot be written", error)
    except (DataError, FileNotFoundError, SpecError) as error:
        said = _told(place, "its data cannot be used", error)
    except StateError as error:
        said = _told(place, "its state file cannot be used", error)
    except CodecError as error:
        said = _told(place, "it could not read the message", error)
    except Exception as error:
        said = _told(place, "it failed", error)
    return parcels.packed(Refusal(place.client, said))


def _told(place: Place, what: str, error: Exception) -> str:
    """One line without values for the server; everything for the site's administrator."""
    plain = isinstance(error, DataError | StateError | FileNotFoundError | SpecError | LogError)
    story = str(error) if plain else "".join(traceback.format_exception(error))
    with suppress(OSError):  # the answer leaves in any case
        place.folder.mkdir(parents=True, exist_ok=True)
        with place.log.open("a") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}: {story}\n")
    return f"{place.client}: {what} ({type(error).__name__}); its own log says why"


def _answer(parcel: Opened, place: Place, check: Check) -> tuple[Said, Outgoing | None]:
    if parcel.kind == "hello":
        return _greeting(parcels.hello(parcel), place, check)
    if parcel.kind in ("columns", "sums"):
        return _regression(parcel, place, check)
    if parcel.kind != "ask":
        raise Refused(f"{place.client}: a message of an unknown kind")
    terms = parcels.terms_of(parcel)
    leaving.check_method(terms, place.client)
    site = _rows(place)
    if len(site.labels) != parcel.meta["rows"]:
        raise _changed(place, f"{len(site.labels)} rows now, {parcel.meta['rows']} then")
    with jax.enable_x64(terms.double):
        parts = site_parts(terms, site, parcel.meta["scale"])
        count = sum(x.size for x in jax.tree.leaves(parts.w))
        out = leaving.training(terms, site, count, task=parcel.meta["number"] is not None)
        check(out)
        ask = parcels.ask(parcel, terms, parts.like, parts.w)
        place.folder.mkdir(parents=True, exist_ok=True)
        with ClientFile(place.state, federation=terms.federation, client=place.client) as file:
            _check_same(place, site, fresh=file.load() is None)
            said = _handled(parts, file, ask)
    return said, out._replace(arrays=leaving.arrays(said))


def _regression(parcel: Opened, place: Place, check: Check) -> tuple[Opened, Outgoing]:
    from . import tables as regress_site  # with pandas, which training does without

    handle = regress_site.columns if parcel.kind == "columns" else regress_site.sums
    return handle(parcel, regress_site.SiteTable(place.client, place.data), check)


def _check_same(place: Place, site: SiteData, *, fresh: bool) -> None:
    """The digest of the rows stays at the site, beside its state."""
    path, now = place.folder / "data.sha256", _digest(site)
    if fresh or not path.exists():
        path.write_text(now)
    elif path.read_text() != now:
        raise _changed(place, "as many rows, other values")


def _changed(place: Place, how: str) -> Refused:
    return Refused(
        f"{place.client}: its data changed since it joined: {how}. Put the old data back, or "
        "retire it and let it join again"
    )


def _digest(site: SiteData) -> str:
    total = hashlib.sha256(repr((site.X.shape, site.names, site.labels.dtype.str)).encode())
    X = site.X
    parts = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
    for array in (*parts, site.labels):
        total.update(np.ascontiguousarray(array).view(np.uint8).data)
    return total.hexdigest()


def _handled(parts: Parts, file: ClientFile, ask: Ask) -> Reply | Closing:
    first = lambda: joining(ask.terms, ask.rows)
    site = Site(file, parts.algorithm, parts.f, parts.w, parts.key, parts.like, first)
    said = site.handle(ask.message)
    if isinstance(said, Reply):
        return said
    if ask.model is None:
        return Closing(said, None)
    own = parts.algorithm.witness(site.client.state)
    return Closing(said, _proof(parts.f, ask.model, ask.model if own is None else own))


@eqx.filter_jit
def _proof(f, w, own) -> Proof:
    value = f(w)
    return Proof(value, f.score(w).astype(value.dtype), tangent(f, w), tangent(f, own))


def _greeting(hello: Hello, place: Place, check: Check) -> tuple[Welcome, Outgoing | None]:
    if hello.model == REGRESSION:
        return Welcome(Offer(place.client, 0, (), None), False), None  # its name, no more
    site = _rows(place)
    out = leaving.names(site, hello.model)
    check(out)
    said = offer(place.client, site, hello.model)
    place.folder.mkdir(parents=True, exist_ok=True)
    with ClientFile(place.state, federation=hello.federation, client=place.client) as file:
        saved = file.load()
    return Welcome(said, saved is not None and saved[0]["committed"] is not None), out


def _rows(place: Place) -> SiteData:
    return _read(place.data, place.label, *stamp(place.data))


@lru_cache(maxsize=4)
def _read(data: Path, label: str | None, *_: int) -> SiteData:
    return read_site(data, label)
