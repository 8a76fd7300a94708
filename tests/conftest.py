"""For all tests."""

import gc


def pytest_collection_finish():
    """What was imported stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
