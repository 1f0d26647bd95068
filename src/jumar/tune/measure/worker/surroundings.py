"""What a process of the tuner finds around it: variables, a folder to work in, a place for what it compiles."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from pathlib import Path

from jumar.base.process import children
from jumar.tune.model.process import OwnFolder, temporary_folder

ROOT = Path(sys.base_prefix).anchor
"""Worker processes work here: no file of the user's folder is found by a name without a folder."""
_INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker process. Raises TuneError where no temporary file can be written."""
    environment = children.environment()
    # The same as here: looking for one, a process in the root would not find a working folder that has to do.
    environment["TMPDIR"] = str(temporary_folder())
    # TorchInductor imports what it finds in its cache, by default in a folder of a known name that anyone may make.
    environment.setdefault(_INDUCTOR, str(_compiled(os.getpid())))
    return environment


@cache
def _compiled(_process: int) -> Path:
    """Return this process's folder for what its workers compile; it goes with the process."""
    folder = OwnFolder("jumar-inductor-")
    atexit.register(folder.remove)
    return folder.path
