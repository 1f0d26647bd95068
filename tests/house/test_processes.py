"""Python processes are started in one way: `jumar.base.process.children` says what they may import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from house_sources import SOURCE, modules

NAMES_PYTHON = "the interpreter is named"
STARTS = "a process is started"
FORKS = "this process is copied"

STARTING = {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
OF_OS = {"system", "popen", "startfile"}
MULTIPROCESSING = ("multiprocessing", "torch.multiprocessing", "concurrent.futures", "concurrent.futures.process")
POOLS = {"Process", "Pool", "ProcessPoolExecutor", "get_context", "spawn", "start_processes"}

ALLOWED = {
    ("base/process/children.py", NAMES_PYTHON): "here it is said what such a process may import",
    ("base/process/compilers.py", STARTS): "with children.command",
    ("tune/model/machine.py", STARTS): "a C++ compiler that is asked for its version",
    ("comparison/bisect/runs.py", STARTS): "the check that the user named on the command line",
    ("advise/doctor/machine/interpreter.py", STARTS): "with children.command",
    ("advise/doctor/machine/survey/processes.py", STARTS): "npu-smi, the driver's tool",
    ("advise/doctor/bundle/gather.py", STARTS): "dmesg",
    ("advise/doctor/fixes/change.py", STARTS): "tools of the system, each shown to the user before",
    ("advise/datasets/measure.py", STARTS): "the interpreter that the user named, without the working folder",
    ("capture/frameworks/tensorflow/tuning.py", STARTS): "with children.command; the jumar that JUMAR_TUNER names",
    ("capture/process/launcher.py", STARTS): "with children.command",
    ("capture/process/processes.py", STARTS): "with children.command",
    ("base/process/pool.py", STARTS): "with children.command",
    ("tune/graph/capture/apart.py", STARTS): "with children.command; the model that the user named runs there",
    ("tune/graph/from_tensorflow/interpreter.py", STARTS): "the interpreter that the user named, without the working "
    "folder",
    ("tune/measure/worker/client.py", STARTS): "with children.command",
    ("tune/search/precision/examiner.py", STARTS): "with children.command",
    ("tune/measure/worker/nursery.py", FORKS): "it imports nothing of the user's, and has imported its own before",
    ("testing/contracts/engine.py", STARTS): "with children.command",
}
"""Places that do one of these, with the reason."""


def deeds(path: Path) -> Iterator[str]:
    """Yield how a file starts processes. `from X import *` and names that are put together at run time are not seen."""
    tree = ast.parse(path.read_text("utf-8"))
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    imported |= {
        alias.asname or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    types = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Subscript)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in types:  # `subprocess.Popen[bytes]`
            first, _, rest = ast.unparse(node).partition(".")
            name = imported.get(first, first) + (f".{rest}" if rest else "")
            if name in {"sys.executable", "sys._base_executable"}:
                yield NAMES_PYTHON
            elif name in {"os.fork", "os.forkpty", "pty.fork"}:
                yield FORKS
            elif _starts(*name.rpartition(".")[::2]):
                yield STARTS


def _starts(owner: str, last: str) -> bool:
    if owner == "os":
        return last in OF_OS or last.startswith(("exec", "spawn", "posix_spawn"))
    if owner in {"subprocess", "asyncio.subprocess"}:
        return last in STARTING
    return owner in MULTIPROCESSING and last in POOLS


@cache
def places() -> frozenset[tuple[str, str]]:
    return frozenset((path.relative_to(SOURCE).as_posix(), deed) for path in modules().values() for deed in deeds(path))


@pytest.mark.parametrize("deed", [NAMES_PYTHON, STARTS, FORKS])
def test_processes_are_started_where_it_is_known_what_they_import(deed: str) -> None:
    found = {place for place in places() if place[1] == deed}
    assert found == {place for place in ALLOWED if place[1] == deed}, "use jumar.base.process.children, or say why not"


@pytest.mark.parametrize("place", [place for place, why in ALLOWED.items() if why == "with children.command"])
def test_what_starts_python_takes_the_command_from_one_place(place: tuple[str, str]) -> None:
    assert "children.command(" in (SOURCE / place[0]).read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        ("import sys\nsys.executable", NAMES_PYTHON),
        ("from sys import executable as python\npython", NAMES_PYTHON),
        ("import subprocess as s\ns.run(['x'])", STARTS),
        ("from subprocess import Popen\nPopen('x')", STARTS),
        ("import os\nos.execvp('x', [])", STARTS),
        ("from torch.multiprocessing import spawn\nspawn(f)", STARTS),
        ("import multiprocessing as mp\nmp.get_context('spawn')", STARTS),
        ("import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()", STARTS),
        ("import os\nos.fork()", FORKS),
    ],
)
def test_other_ways_to_start_a_process_are_seen(tmp_path: Path, text: str, deed: str) -> None:
    (tmp_path / "file.py").write_text(text, "utf-8")
    assert deed in set(deeds(tmp_path / "file.py"))
