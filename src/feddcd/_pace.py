"""How often: calls that strangers may make, and lines that they may cause in a log."""

import ipaddress
import time
from collections import deque
from collections.abc import Callable

MINUTE_S = 60.0
OWN_NETWORK = 64  # bits of an IPv6 address that name a network: who has one has all below it
Clock = Callable[[], float]


def network_of(host: str) -> str:
    """Which calls count together: those of an IPv4 address, or a network of IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), OWN_NETWORK), strict=False))


class Pace:
    """How often somebody may call in a minute; only calls that were let in count."""

    def __init__(self, of_host: int, of_all: int, now: Clock = time.monotonic):
        self._of_host, self._now = of_host, now
        self._calls: deque[tuple[float, str]] = deque(maxlen=of_all)

    def let(self, host: str) -> bool:
        host, now, calls = network_of(host), self._now(), self._calls
        while calls and now - calls[0][0] > MINUTE_S:
            calls.popleft()
        same = sum(other == host for _, other in calls)
        if len(calls) == calls.maxlen or same >= self._of_host:
            return False
        calls.append((now, host))
        return True


class LinePace:
    """At most this many lines a minute, so that strangers cannot fill a disk."""

    def __init__(self, most: int, now: Clock = time.monotonic):
        self._most, self._now = most, now
        self._began, self._written, self._left_out = now(), 0, 0

    def let(self) -> str | None:
        """What to write behind a line: how many were left out before it. None: leave it out."""
        if self._now() - self._began > MINUTE_S:
            self._began, self._written = self._now(), 0
        if self._written >= self._most:
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        self._written += 1
        return f" (before this line, {left_out:,} similar lines were left out)" if left_out else ""
