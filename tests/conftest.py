"""For all tests."""

import gc
import itertools
import os
from pathlib import Path

import jax
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # machines are busy at times
settings.load_profile("patient")
MAPS, MANY = Path("/proc/self/maps"), 30_000
_tests = itertools.count(1)


def pytest_configure():
    """With FEDDCD_TEST_PIN each worker has a core of its own: XLA, which would start a thread for
    every core in each of them, then starts one. Not for tests whose processes need all cores."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if os.environ.get("FEDDCD_TEST_PIN") and worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker) % len(cores)]})


def pytest_make_parametrize_id(val, argname):
    """Bytes do not name a test: packed ones may hold the time, and workers must agree."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish():
    """What was imported stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


def pytest_runtest_teardown():
    """Each compiled program maps memory, and Linux allows a process 65,530 maps."""
    if next(_tests) % 25 == 0 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY:
        jax.clear_caches()
        gc.collect()
