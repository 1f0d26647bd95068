"""The C++ library: compiled once a machine, kept beside the program it computes."""

from __future__ import annotations

import hashlib
import platform
import shutil
from functools import cache
from pathlib import Path

from jumar.base.native import CompilerError, compiled, features
from jumar.tune.engines.kernels.program import header
from jumar.tune.model.errors import TuneError

SOURCE = Path(__file__).parent / "native" / "kernels.cpp"
LIBRARY = "kernels.so"
FEATURES = "features.txt"
_WIDTHS = (("avx512f", 16), ("avx2", 8), ("asimd", 4))
"""Features of processors, and how many floats their vectors hold; the widest first."""


def widths() -> list[int]:
    """Return how many floats a vector may hold here, the widest first; 4 works everywhere."""
    known = features()
    return [width for feature, width in _WIDTHS if feature in known and width > 4] + [4]


@cache
def source_digest() -> str:
    """Return a digest of the kernels, C++ and Python."""
    files = [*SOURCE.parent.glob("*.[ch]pp"), *Path(__file__).parent.rglob("*.py")]
    parts = [header(), *(path.read_text("utf-8") for path in sorted(files))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def build_library(folder: Path, lanes: int) -> Path:
    """Leave the library for vectors of `lanes` floats in `folder`, compiled now or taken from the cache.

    Raises TuneError when there is no compiler or it fails.
    """
    flags = [f"-DJUMAR_VL={lanes}", f"-DJUMAR_NEON={int(platform.machine() == 'aarch64')}"]
    try:
        library = compiled(SOURCE, flags=flags, made={"fields.hpp": header()})
    except CompilerError as error:
        raise TuneError(str(error)) from error
    (folder / FEATURES).write_text(" ".join(sorted(features())), "utf-8")
    return Path(shutil.copyfile(library, folder / LIBRARY))


def check_features(folder: Path) -> None:
    """Raise TuneError when the library in `folder` was compiled for a processor that can do more than this one."""
    needed = (folder / FEATURES).read_text("utf-8").split()
    missing = sorted(set(needed) - features())
    if missing:
        raise TuneError(
            f"the kernels in {folder} were compiled for a processor with {', '.join(missing[:4])}, which this one has "
            "not; tune on this machine."
        )
