"""The HTTP client below Flower's: where a call goes, and what of an answer is read."""

import ssl
from collections.abc import Callable, Sequence
from typing import Any

import httpx

CALL_S = 30.0  # for one call
Look = Callable[[httpx.Response], None]


def use_own(client: Any, authority: bytes, proxy: str = "", looks: Sequence[Look] = ()) -> None:
    """In place of Flower's own. A redirection would lead elsewhere, a packed body could unpack to
    any size, and a proxy of the environment would also get the calls to this machine."""
    client._client.close()
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.load_verify_locations(cadata=authority.decode("ascii"))
    client._client = httpx.Client(
        verify=trust, timeout=CALL_S, trust_env=False, proxy=proxy or None,
        headers={"accept-encoding": "identity"}, event_hooks={"response": list(looks)},
    )  # fmt: skip
