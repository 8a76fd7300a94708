"""Compiled programs that stay on disk, for commands that compile more than they compute."""

import os
from pathlib import Path

FOLDER = "JAX_COMPILATION_CACHE_DIR"


def keep_programs(folder: Path) -> None:
    """In `folder`, for this process and those that it starts: a grid that goes on, or has more
    seeds, compiles nothing again. A folder that the user named stays."""
    if os.environ.get(FOLDER):
        return
    import jax

    os.environ[FOLDER] = str(folder.absolute())
    jax.config.update("jax_compilation_cache_dir", os.environ[FOLDER])
