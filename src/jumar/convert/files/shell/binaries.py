"""Tells which commands of a script start a compiled program, which reads CUDA's variables and not the NPU's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.convert.files.shell.scope import NO_PROGRAMS
from jumar.convert.files.shell.words import Command, Script

_PYTHON = re.compile(
    r"(python|pypy|ipython)[\d.]*$|^(torchrun|deepspeed|accelerate|horovodrun|ray|streamlit|jupyter|pytest|colossalai"
    r"|fairseq-\w+|llamafactory-cli|swift|uv|poetry|bash|sh|zsh|ksh|ssh|pdsh|sbatch|xargs)$|\.(py|sh|bash|slurm|sbatch|zsh)$"
)
_WRAPPERS = frozenset(
    {"mpirun", "mpiexec", "orterun", "srun", "nohup", "time", "numactl", "taskset", "exec", "sudo", "env", "stdbuf"}
    | {"timeout", "nsys", "ncu", "nvprof", "compute-sanitizer", "cuda-memcheck", "cuda-gdb", "gdb", "valgrind", "nice"}
)
_PATH = re.compile(r"(\.{1,2}/|/|[\w.-]+/|\ufffc/).*|.*\ufffc")
_DATA = re.compile(r"\.(?!out$|exe$|bin$|run$|x$)\w+$")
_FOLDERS = re.compile(r"(^|/)(build|bin|out|cmake-build-\w+|target|dist)(/|$)|^\./[^/]+$|\.(out|exe|run)$")


def started(script: Script) -> tuple[list[str], bool]:
    """Return the compiled programs that a script starts, and whether it starts Python or another script."""
    programs = [name for command in script.commands if (name := binary(command)) is not None]
    return programs, any(_starts_python(command) for command in script.commands)


def binary(command: Command) -> str | None:
    """Return the compiled program that a command starts, None where it starts none, as far as its words show."""
    words = [word.text for word in command.arguments]
    if not words or command.is_array or command.name in NO_PROGRAMS or _starts_python(command):
        return None
    if command.name not in _WRAPPERS:
        return words[0] if _is_program(words[0], first=True) else None
    return next((word for word in _operands(words[1:]) if _is_program(word, first=False)), None)


def _operands(words: list[str]) -> Iterator[str]:
    yield from (word for word in words if not word.startswith("-") and "=" not in word)


def _is_program(word: str, *, first: bool) -> bool:
    """Tell whether a word is the path of a program: by its folder, or as a command's first word by being a path."""
    name = word.rpartition("/")[2]
    if not _PATH.fullmatch(word) or "/" not in word or not name or _DATA.search(name) or _PYTHON.search(name):
        return False
    return first or _FOLDERS.search(word) is not None


def _starts_python(command: Command) -> bool:
    words = [word.text for word in command.arguments]
    if not words or command.name in NO_PROGRAMS:
        return False
    names = words if command.name in _WRAPPERS else words[:1]
    return any(_PYTHON.search(name.rpartition("/")[2]) for name in names)
