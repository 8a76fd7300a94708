"""Free memory: what would not fit is refused by name before it is asked for."""

import os
from contextlib import suppress
from pathlib import Path

from ._errors import DataError

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")


def free_memory() -> int | None:
    """Bytes that this process can still have; None where the system does not tell."""
    known = [free for free in (_of_machine(), _of_container()) if free is not None]
    return min(known, default=None)


def check_fits(need: int, what: str, remedy: str) -> None:
    free = free_memory()
    if free is not None and need > free:
        told = f"{what} need {gibibytes(need)} of memory, but only {gibibytes(free)} are free"
        raise DataError(f"{told}: {remedy}")


def gibibytes(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def _of_machine() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_container() -> int | None:
    with suppress(OSError, ValueError):  # "max" where there is no limit
        most, used = (int(Path(path).read_text()) for path in _LIMITS)
        return most - used
    return None
