"""The proxy on the way to a coordinator: one answer for `enrol` and for a site that connects."""

import ipaddress
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

from ._errors import SpecError

THROUGH = "through the proxy "


def proxy_of(address: str) -> str:
    """The URL of the proxy for HOST:PORT, from HTTPS_PROXY, ALL_PROXY and NO_PROXY; none for this
    machine itself."""
    host = address.rpartition(":")[0].strip("[]")
    given = urllib.request.getproxies()
    url = given.get("https") or given.get("all") or ""
    if not url or _is_here(host) or urllib.request.proxy_bypass(host):
        return ""
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        whole = parts.scheme == "http" and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        whole = False
    if not whole:
        raise SpecError(
            "feddcd cannot use the proxy in the environment variable HTTPS_PROXY (or ALL_PROXY): "
            "write the proxy as http://HOST:PORT"
        )
    return url


def through(proxy: str) -> str:
    """For a message; the password of a proxy is in none."""
    return f" {THROUGH}{urlsplit(proxy).netloc.rpartition('@')[2]}" if proxy else ""


def _is_here(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"
