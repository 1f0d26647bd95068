"""Reads MindSpore's graph files (`.ir` of `MS_DEV_SAVE_GRAPHS`): operators, layers, shapes, dtypes and source lines.

A node is a line `%1(x) = PrimFunc_MatMul(…)`, then its types `(<Tensor[Float32], (2, 3)>, …) -> (…)`, its scoped name,
and the lines of source that led to it, the innermost last. There are no values in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jumar.base.errors import RecordingError
from jumar.operators.names import MINDSPORE
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.formats.mindspore.updates import DumpedCall
from jumar.recording.foreign.values import bare_row, plain_row
from jumar.recording.schema import CallRow, TensorRow

_FIRST = "# IR entry:"
_NODE = re.compile(r"^ +%\d+\([^)]*\) = (?:PrimFunc_|Prim_|@)?(\w+)", re.MULTILINE)
_TYPES = re.compile(r"^ +: \((.*)\) -> \((.*)\)\s*$", re.MULTILINE)
_TENSOR = re.compile(r"Tensor\[(\w+)\]\]?>?, \(([\d, -]*)\)")
_SCOPE = re.compile(r"# Fullname with scope: \((.*)\)")
_SOURCE = re.compile(r"# In file (.+?):(\d+)")
_NO_OPERATORS = frozenset({"Load", "UpdateState", "MakeTuple", "TupleGetItem", "Depend", "Return", "Partial", "Switch"})
"""Nodes that order or hold values."""


def recognises(path: Path) -> bool:
    """Tell whether a file is such a graph, by its name and its first bytes."""
    if path.suffix != ".ir" or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_FIRST)) == _FIRST.encode()
    except OSError:
        return False


def open_ir(path: Path) -> Dump:
    """Return the graph as a step of calls without values. Raises RecordingError where no node is in it."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror or error}); check the path.") from error
    rows = list(_rows(text))
    if not rows:
        raise RecordingError(f"{path} holds no operator; save the graphs again (MS_DEV_SAVE_GRAPHS=1).")
    return Dump(path, "MindSpore's graph file", {(0, 0): Part(rows=lambda: rows)}, framework="mindspore")


def _rows(text: str) -> Iterator[CallRow]:
    """Yield the operators. A node ends where the next one begins."""
    starts = list(_NODE.finditer(text))
    for match, following in zip(starts, [*starts[1:], None], strict=False):
        if match[1] not in _NO_OPERATORS:
            yield _row(match[1], text[match.end() : following.start() if following is not None else len(text)])


def _row(kind: str, body: str) -> CallRow:
    types = _TYPES.search(body)
    scope = _SCOPE.search(body)
    call = DumpedCall(kind, scope[1] if scope is not None else "", 0)
    layers = call.layers
    sources = [(file, line) for file, line in _SOURCE.findall(body) if "site-packages" not in file]
    return bare_row(
        f"{MINDSPORE}{kind}",
        tuple(_tensors("input", types[1])) if types is not None else (),
        tuple(_tensors("output", types[2])) if types is not None else (),
        phase=call.phase,
        module_path=call.path,
        module_type=layers[-1][1] if layers else "",
        source=f"{Path(sources[-1][0]).name}:{sources[-1][1]}" if sources else "",
    )


def _tensors(side: str, text: str) -> Iterator[TensorRow]:
    for place, (dtype, shape) in enumerate(_TENSOR.findall(text)):
        sizes = tuple(int(size) for size in shape.replace(" ", "").split(",") if size)
        yield plain_row(f"{side}.{place}", sizes, dtype.lower())


FORMAT = DumpFormat("a graph file of MindSpore (.ir)", recognises, open_ir)
