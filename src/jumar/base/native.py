"""Jumar's C++ sources, compiled where they run: the compiler, the processor's features, a cache of libraries.

A machine may have no compiler. Code that uses such a library needs another way, too.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from jumar.base.errors import JumarError
from jumar.base.home import cache_folder
from jumar.base.process import compilers
from jumar.base.process.children import others_can_write
from jumar.base.process.compilers import NoRoomError

TIMEOUT_S = 300
CUT = ".cut"
"""Ending of the empty file beside a library that is missing because its compiler was ended with its caller."""
TURN_S = 900
"""So long is waited for the builds of other processes: three that take all their time."""
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
    One library is compiled at a time on this machine: other processes wait. Without a home folder there is no cache.
    Raises CompilerError when there is no compiler, no room for one, or it fails, and OSError when neither the cache nor
    a temporary folder can be written.
    """
    made = made or {}
    arguments, cached = _plan(source, flags, made)
    if cached is not None and _is_ours(cached):
        return cached
    folder = _made(cached.parent) if cached is not None else None
    with compilers.turn(folder, TURN_S) as lock:
        if cached is not None and _is_ours(cached):  # another process was first
            return cached
        draft = Path(tempfile.mkdtemp(prefix=compilers.DRAFT if folder else "jumar-native-", dir=folder))
        mark = cached.with_suffix(CUT) if cached is not None and folder is not None else None
        library = _compile(arguments, source, made, draft, lock, mark)
        if cached is None or folder is None:
            atexit.register(shutil.rmtree, draft, ignore_errors=True)
            return library
        try:
            library.replace(cached)
            cached.with_suffix(CUT).unlink(missing_ok=True)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return cached


def _made(folder: Path) -> Path | None:
    """Return the cache's folder, made where it is missing; None where it cannot be written, or others can write to it.

    A library is code: it is taken from no place where another user may have left it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:  # a cache that cannot be written costs the next process a compilation
        return None
    is_usable = os.access(folder, os.W_OK | os.X_OK) and not others_can_write(folder)
    return folder if is_usable else None


def _is_ours(library: Path) -> bool:
    """Tell whether a library is there and nobody else can have left it there."""
    try:
        told = library.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(told.st_mode) or not hasattr(os, "getuid"):
        return stat.S_ISREG(told.st_mode)
    is_own = told.st_uid in {0, os.getuid()} and not told.st_mode & stat.S_IWOTH
    return is_own and not others_can_write(library.parent)


def was_cut(source: Path, *, flags: Sequence[str] = (), made: Mapping[str, str] | None = None) -> bool:
    """Tell whether the last process that compiled this ended before the compiler did. Raises CompilerError."""
    _, cached = _plan(source, flags, made or {})
    return cached is not None and cached.with_suffix(CUT).is_file()


def cached_library(source: Path, *, flags: Sequence[str] = (), made: Mapping[str, str] | None = None) -> Path | None:
    """Return what `compiled` would take from the cache, None when it would compile. Raises CompilerError as it does."""
    _, cached = _plan(source, flags, made or {})
    return cached if cached is not None and _is_ours(cached) else None


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


def _compile(
    arguments: list[str], source: Path, made: Mapping[str, str], folder: Path, lock: int | None, mark: Path | None
) -> Path:
    target = folder / f"{source.stem}.so"
    problem: object
    try:
        for name, text in made.items():
            (folder / name).write_text(text, "utf-8")
        compilers.check_room(folder)
        command = [*arguments, "-I", str(folder), "-o", str(target), str(source)]
        code, said = compilers.compile_with(command, folder, lock, TIMEOUT_S, mark)
    except OSError as error:
        problem = error
    else:
        if code == 0 and target.is_file():
            return target
        lines = said.strip().splitlines() or ["no message"]
        problem = next((line for line in lines if "error" in line), lines[-1])
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    if isinstance(problem, NoRoomError):
        raise CompilerError(f"{source.name} is not compiled: {problem}; free some, then try again.")
    raise CompilerError(f"{arguments[0]} could not compile {source.name} ({problem}); set CXX to another compiler.")
