"""What `base` does stands there once: whole files and locks, the host's memory and cores, sizes in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from house_sources import SOURCE, modules

MOVES_A_FILE = "a file or folder is moved to its place"
FLUSHES = "a file is flushed to the disk"
LOCKS = "a file is locked"
COUNTS_CORES = "the cores are counted"
READS_MEMORY = "the memory or the limits of the machine are read"
WRITES_SIZE = "a size is written in words"

SYSTEM = {
    "fsync": FLUSHES, "fdatasync": FLUSHES, "fcntl": LOCKS, "flock": LOCKS, "lockf": LOCKS, "msvcrt": LOCKS,
    "cpu_count": COUNTS_CORES, "process_cpu_count": COUNTS_CORES, "sched_getaffinity": COUNTS_CORES,
    "psutil": READS_MEMORY, "disk_usage": READS_MEMORY, "statvfs": READS_MEMORY,
}  # fmt: skip
"""Names of the standard library, or of a package, to what they do."""
READING = re.compile(r"MemTotal|MemAvailable|meminfo|memory\.(max|current)|cpu\.max|cfs_quota|limit_in_bytes")
UNIT = re.compile(r"\s?[KMGT]iB\b")

ALLOWED = {
    ("convert/disk/writing.py", MOVES_A_FILE): "the next run recognises the folders of a killed one and puts them back",
    ("npu/api/utils/affinity.py", COUNTS_CORES): "torch_npu.utils.reset_thread_affinity gives back this very mask",
    ("npu/profiler/profiler.py", COUNTS_CORES): "the default in the signature of torch_npu's analyse",
    ("testing/contracts/engine_models.py", COUNTS_CORES): "the mask is compared: an engine leaves it as it was",
    ("capture/frameworks/tensorflow/collector/notes.py", MOVES_A_FILE): "it runs where `jumar.base` cannot be imported",
    ("advise/doctor/fixes/change.py", MOVES_A_FILE): "a user's file is moved aside, and nothing is written",
    ("advise/doctor/bundle/gather.py", READS_MEMORY): "files that are packed as they are",
    ("npu/memory/memory.py", WRITES_SIZE): "the words of PyTorch's own out-of-memory message",
}
"""Places outside `base` that do one of these for a reason."""


def deeds(path: Path) -> Iterator[str]:
    """Yield what the file does by itself; texts of documentation do not count."""
    tree = ast.parse(path.read_text("utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="replace" | "rename")):
                yield MOVES_A_FILE
            case ast.Call(func=ast.Attribute(attr="replace" | "rename"), args=[_], keywords=[]):
                yield MOVES_A_FILE  # of a Path: that of a text takes two arguments
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name) if name in SYSTEM:
                yield SYSTEM[name]
            case ast.Constant(value=str(text)) if id(node) not in documentation and READING.search(text):
                yield READS_MEMORY
            case ast.JoinedStr(values=[*_, ast.FormattedValue(), ast.Constant(value=str(text))]) if UNIT.match(text):
                yield WRITES_SIZE


@cache
def places() -> frozenset[tuple[str, str]]:
    """Return (file, what it does by itself) of every file outside `base`."""
    others = [path for name, path in modules().items() if not name.startswith("jumar.base.")]
    return frozenset((path.relative_to(SOURCE).as_posix(), deed) for path in others for deed in deeds(path))


@pytest.mark.parametrize("deed", [MOVES_A_FILE, FLUSHES, LOCKS, COUNTS_CORES, READS_MEMORY, WRITES_SIZE])
def test_only_base_does_it(deed: str) -> None:
    found = {place for place in places() if place[1] == deed}
    assert found == {place for place in ALLOWED if place[1] == deed}, "use jumar.base, or say why not in ALLOWED"
