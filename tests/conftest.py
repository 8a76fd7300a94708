"""What holds for all tests, however pytest is started: how XLA compiles, where compiled programs
are kept, how many threads they have, and in which order workers go about it."""

import contextlib
import fcntl
import functools
import gc
import itertools
import os
import pickle
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from hypothesis import settings
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "tests"
# most tests compile more than they compute: one thread, quickly rather than well, and kept; what
# is set outside is left as it is. Processes that tests start inherit all of it.
SETTINGS = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=1",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_COMPILATION_CACHE_DIR": str(KEPT / "xla"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "FEDDCD_THREADS": "1",
    "FEDDCD_CACHE": str(KEPT / "data"),
}
for name, value in SETTINGS.items():
    os.environ.setdefault(name, value)  # before anybody imports JAX, which reads them then
# where images forbid byte code, each worker and each process would compile this package anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# tests flush tens of thousands of files; what a disk makes of that is not what they ask
MEMORY, ENOUGH = Path("/dev/shm"), 2 << 30
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


settings.register_profile("patient", deadline=None)  # machines are busy at times
settings.load_profile("patient")
# these compute more than they compile, and hold the longest tests
LONG = ("test_paper_data.py", "test_real_data.py", "test_theory.py")
MAPS, MANY = Path("/proc/self/maps"), 45_000
_tests = itertools.count(1)
_level = {"quick": True}


def pytest_configure(config):
    import typer.main

    from feddcd.federation.site import approval

    approval.FIRST_S = 0.0  # of waiting, which one test looks at
    # a process has one command; tests call it many hundred times, and it is long in the making
    typer.main.get_command = functools.cache(typer.main.get_command)
    threadpool_limits(1)  # a plugin loaded NumPy before OPENBLAS_NUM_THREADS was set
    tomllib.loads = kept(tomllib.loads)
    if folder := os.environ.get("FEDDCD_RECORD"):
        import _recording

        _recording.start(Path(folder), config.pluginmanager)
    if "PYTEST_XDIST_WORKER" in os.environ:
        compile_a_share_of_the_tests(config)
        start_jax_with_one_thread()


def pytest_make_parametrize_id(val, argname):
    """Bytes do not name a test: packed ones may hold the time, and workers must agree."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Workers begin with parts of equal length, and steal from the ends of others' later: what
    takes long stands first in a part. The first begins with real processes, which mostly wait, the
    second with the longest tests, the third with commands as users have them."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return
    heads, rest = [[] for _ in range(workers)], []
    for item in items:
        if item.get_closest_marker("processes"):
            heads[0].append(item)
        elif item.path.name in LONG:
            heads[1].append(item)
        elif item.get_closest_marker("smoke"):
            heads[min(2, workers - 1)].append(item)
        else:
            rest.append(item)
    size = len(items) // workers
    for head in heads[:-1]:
        more = max(0, size - len(head))
        head += rest[:more]
        rest = rest[more:]
    items[:] = [item for head in [*heads[:-1], heads[-1] + rest] for item in head]


def pytest_collection_finish():
    """What was imported stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


def pytest_runtest_setup(item):
    """Programs of one level of optimisation only are there at a time: a test that compares bits
    would otherwise depend on who compiled a program before."""
    import jax

    quick = item.path.name not in LONG
    if quick != _level["quick"]:
        _level["quick"] = quick
        jax.config.update("jax_disable_most_optimizations", quick)
        jax.clear_caches()


def pytest_runtest_teardown():
    """Each compiled program maps memory, and Linux allows a process 65,530 maps."""
    if next(_tests) % 25 == 0 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY:
        import jax

        jax.clear_caches()
        gc.collect()


def kept(loads):
    """Sites read their rules at each message, and tests send many: a text is parsed once, and
    everybody has a copy of what it says."""
    pickled = functools.lru_cache(500)(lambda text: pickle.dumps(loads(text)))
    return lambda text: pickle.loads(pickled(text))


def compile_a_share_of_the_tests(config):
    """Where all tests are asked for, workers compile a part of them each, before they import all:
    pytest would compile all of them in each worker of a new clone."""
    if [Path(name).resolve() for name in config.args] != [ROOT / "tests"]:
        return
    first, workers = (os.environ[f"PYTEST_XDIST_WORKER{end}"] for end in ("", "_COUNT"))
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[int(first[2:]) :: int(workers)]:
        with contextlib.suppress(AttributeError):  # no part of what pytest promises
            compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
            if rewrite._read_pyc(path, compiled) is None:
                compiled.parent.mkdir(exist_ok=True)
                stat, code = rewrite._rewrite_test(path, config)
                state = config.stash[rewrite.assertstate_key]
                rewrite._write_pyc(state, code, stat, compiled)


def start_jax_with_one_thread():
    """XLA starts a thread for every core that it may use, in each of several workers: it sees one
    when it starts. Afterwards all may use all cores again: a worker that waits blocks none."""
    if not hasattr(os, "sched_setaffinity"):
        return
    import jax

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    jax.devices()
    for thread in map(int, os.listdir("/proc/self/task")):
        os.sched_setaffinity(thread, cores)


@pytest.fixture(autouse=True)
def _one_after_the_other(request, tmp_path_factory):
    """Real federations share a port and are large, whichever worker has them."""
    if request.node.get_closest_marker("processes") is None:
        yield
        return
    with (tmp_path_factory.getbasetemp().parent / "processes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def plain_environment():
    """As users have it: without anything that is set above."""
    return {name: value for name, value in os.environ.items() if name not in SETTINGS}
