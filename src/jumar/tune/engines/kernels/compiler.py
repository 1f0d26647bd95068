"""The C++ library: compiled once a machine, kept beside the program it computes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from jumar.tune.engines.kernels.fields import header
from jumar.tune.errors import TuneError

SOURCES = Path(__file__).parent / "native"
LIBRARY = "kernels.so"
FEATURES = "features.txt"
TIMEOUT_S = 300
_WIDTHS = (("avx512f", 16), ("avx2", 8), ("asimd", 4))
"""Features of processors, and how many floats their vectors hold; the widest first."""


def compiler() -> list[str]:
    """Return the command of the C++ compiler: `$CXX`, else g++, clang++ or c++; empty without one."""
    given = shlex.split(os.environ.get("CXX", ""))
    if given:
        return given if shutil.which(given[0]) else []
    return next(([found] for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), [])


def features() -> frozenset[str]:
    """Return what this processor can do, in the words of /proc/cpuinfo; empty where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return frozenset()
    named = (line.partition(":")[2] for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(named, "").split())


def widths() -> list[int]:
    """Return how many floats a vector may hold here, the widest first; 4 works everywhere."""
    known = features()
    return [width for feature, width in _WIDTHS if feature in known and width > 4] + [4]


@cache
def source_digest() -> str:
    """Return a digest of the kernels, C++ and Python."""
    files = [*SOURCES.glob("*.[ch]pp"), *SOURCES.parent.glob("*.py")]
    parts = [header(), *(path.read_text("utf-8") for path in sorted(files))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def build_library(folder: Path, lanes: int) -> Path:
    """Leave the library for vectors of `lanes` floats in `folder`, compiled now or taken from the cache.

    Raises TuneError when there is no compiler or it fails.
    """
    command = compiler()
    if not command:
        raise TuneError("the kernels need a C++ compiler and none was found; install g++ or set CXX.")
    flags = ["-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fno-math-errno", f"-DJUMAR_VL={lanes}"]
    flags.append(f"-DJUMAR_NEON={int(platform.machine() == 'aarch64')}")
    known = " ".join(sorted(features()))
    identity = "\0".join([source_digest(), *command, *flags, known, platform.machine()])
    cached = _cache_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.so"
    target = folder / LIBRARY
    (folder / FEATURES).write_text(known, "utf-8")
    if cached.is_file():
        shutil.copyfile(cached, target)
        return target
    _compile([*command, *flags], target)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs the next build a compilation
        cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as copy:
            copy.write(target.read_bytes())
        Path(copy.name).replace(cached)
    return target


def check_features(folder: Path) -> None:
    """Raise TuneError when the library in `folder` was compiled for a processor that can do more than this one."""
    needed = (folder / FEATURES).read_text("utf-8").split()
    missing = sorted(set(needed) - features())
    if missing:
        raise TuneError(
            f"the kernels in {folder} were compiled for a processor with {', '.join(missing[:4])}, which this one has "
            "not; tune on this machine."
        )


def _compile(command: list[str], target: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "fields.hpp").write_text(header(), "utf-8")
        made = Path(scratch, LIBRARY)
        arguments = [*command, "-I", scratch, "-o", str(made), str(SOURCES / "kernels.cpp")]
        try:
            subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or ["no message"])[-1]
            raise TuneError(f"{command[0]} could not compile the kernels ({last}); set CXX to another one.") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TuneError(f"{command[0]} could not compile the kernels ({error}); set CXX to another one.") from error
        shutil.copyfile(made, target)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "jumar" / "kernels"
