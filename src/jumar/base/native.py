"""Jumar's C++ sources, compiled where they run: the compiler, the processor's features, a cache of libraries.

A machine may have no compiler. Code that uses such a library needs another way, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from jumar.base.errors import JumarError
from jumar.base.home import cache_folder

TIMEOUT_S = 300
_INSTRUCTIONS = re.compile(
    "(abm|adx|amx_|asimd|atomics|avx|bf16|bmi|f16c|fma|fp16|fphp|gfni|i8mm|movbe|movdir|popcnt|sha_ni|sme|sse|ssse|sve|"
    "tbm|vaes|vpclmulqdq|xop).*"
)
"""Features that are instructions; others depend on the system's version as well."""


class CompilerError(JumarError):
    """There is no C++ compiler, or it does not compile."""


def compiler() -> list[str]:
    """Return the command of the C++ compiler: `$CXX`, else g++, clang++ or c++; empty without one."""
    given = shlex.split(os.environ.get("CXX", ""))
    if given:
        return given if shutil.which(given[0]) else []
    return next(([found] for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), [])


def cpuinfo() -> str:
    """Return the text of /proc/cpuinfo; empty on other systems than Linux."""
    try:
        return Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return ""


@cache
def features() -> frozenset[str]:
    """Return the features of this processor as /proc/cpuinfo names them; empty where it cannot be read."""
    return features_in(cpuinfo())


def instructions() -> list[str]:
    """Return the instructions that compilers may use on this processor beyond its kind's first; empty as `features`."""
    return sorted(filter(_INSTRUCTIONS.fullmatch, features()))


def features_in(text: str) -> frozenset[str]:
    """Return the features of the first processor in the text of a /proc/cpuinfo."""
    named = (line.partition(":")[2] for line in text.splitlines() if line.startswith(("flags", "Features")))
    return frozenset(next(named, "").split())


def compiled(source: Path, *, flags: Sequence[str] = (), made: Mapping[str, str] | None = None) -> Path:
    """Return the shared library of `source` for this processor, compiled now or taken from the cache.

    `made` maps names of generated headers to their text. The headers in the source's folder count as part of it.
    Without a home folder there is no cache. Raises CompilerError when there is no compiler or it fails, and OSError
    when neither the cache nor a temporary folder can be written.
    """
    made = made or {}
    arguments, cached = _plan(source, flags, made)
    if cached is None:
        return _compile(arguments, source, made, _temporary())
    if cached.is_file():
        return cached
    try:
        cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(dir=cached.parent))
    except OSError:  # a cache that cannot be written costs the next process a compilation
        return _compile(arguments, source, made, _temporary())
    try:
        _compile(arguments, source, made, folder).replace(cached)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return cached


def cached_library(source: Path, *, flags: Sequence[str] = (), made: Mapping[str, str] | None = None) -> Path | None:
    """Return what `compiled` would take from the cache, None when it would compile. Raises CompilerError as it does."""
    _, cached = _plan(source, flags, made or {})
    return cached if cached is not None and cached.is_file() else None


def _plan(source: Path, flags: Sequence[str], made: Mapping[str, str]) -> tuple[list[str], Path | None]:
    """Return the command that compiles `source`, but for its files, and where the library belongs, if anywhere."""
    command = compiler()
    if not command:
        raise CompilerError("C++ sources need a C++ compiler and none was found; install g++ or set CXX.")
    arguments = [*command, "-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fno-math-errno", *flags]
    texts = [path.read_text("utf-8") for path in sorted(source.parent.glob("*.[ch]pp"))]
    parts = [source.name, *texts, *made, *made.values(), *arguments, *sorted(features()), platform.machine()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    folder = cache_folder()
    return arguments, None if folder is None else folder / "jumar" / "native" / f"{source.stem}-{digest}.so"


def _compile(arguments: list[str], source: Path, made: Mapping[str, str], folder: Path) -> Path:
    for name, text in made.items():
        (folder / name).write_text(text, "utf-8")
    target = folder / f"{source.stem}.so"
    problem: object
    try:
        subprocess.run(
            [*arguments, "-I", str(folder), "-o", str(target), str(source)],
            check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no message"]
        problem = next((line for line in lines if "error" in line), lines[-1])
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = error
    else:
        return target
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    raise CompilerError(f"{arguments[0]} could not compile {source.name} ({problem}); set CXX to another compiler.")


def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="jumar-native-"))
