"""Names of a graph's operators, of the text files beside a dump: GE's `ge_proto_*.txt`, TensorFlow's `.pbtxt`.

A file of a dump has `_` in place of the slashes of its operator's name; the graph tells the name, and so the scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jumar.recording.schema import Phase

_BLOCK = re.compile(r"\s*(?:op|node)\s*:?\s*\{\s*")
_NAME = re.compile(r'\s*name\s*:\s*"([^"]*)"')
_KIND = re.compile(r'\s*(?:type|op)\s*:\s*"([^"]*)"')
_LEVELS_UP = 2
"""GE writes its graphs where the program runs, a dump some folders below."""


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator of a graph."""

    name: str
    """`fc/MatMul`."""
    kind: str
    """`MatMul`."""

    @property
    def scope(self) -> str:
        """The scope, dotted: `fc`."""
        return self.name.rpartition("/")[0].replace("/", ".")

    @property
    def phase(self) -> Phase:
        """The phase that scopes and kinds tell."""
        if self.name.startswith("gradients") and "/" in self.name:
            return "backward"
        return "optimizer" if re.match(r"(Resource|Sparse)*Apply", self.kind) else "forward"


def graph_operators(folder: Path) -> Mapping[str, NamedOperator]:
    """Return the operators of the graphs in, below or a little above a dump's folder, by their names in files.

    A name that two operators would share in files is left out. Files that cannot be read, or are no graph, give none.
    """
    found: dict[str, NamedOperator] = {}
    shared: set[str] = set()
    for path in _graph_files(folder):
        for operator in _operators(path):
            key = file_text(operator.name)
            if found.setdefault(key, operator).name != operator.name:
                shared.add(key)
    return {key: operator for key, operator in found.items() if key not in shared}


def file_text(name: str) -> str:
    """Return an operator's name as it stands in the name of a file."""
    return re.sub(r"[./\\:\s]+", "_", name)


def _graph_files(folder: Path) -> Iterator[Path]:
    seen = {path for pattern in ("*.pbtxt", "ge_*.txt") for path in folder.rglob(pattern)}
    for above in list(folder.absolute().parents)[:_LEVELS_UP]:
        seen |= {path for pattern in ("*.pbtxt", "ge_*.txt") for path in above.glob(pattern)}
    yield from sorted(path for path in seen if path.is_file() and not path.is_symlink())


def _operators(path: Path) -> Iterator[NamedOperator]:
    name = kind = ""
    is_inside = False
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if _BLOCK.fullmatch(line):
                    name, kind, is_inside = "", "", True
                elif is_inside:
                    name = name or _first(_NAME, line)
                    kind = kind or _first(_KIND, line)
                    if name and kind:
                        yield NamedOperator(name, kind)
                        is_inside = False
    except OSError:
        return


def _first(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.match(line)
    return match[1] if match is not None else ""
