"""`Pair`, which the rules of the proof look at: one converted file, before and after."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jumar.base.findings import Finding, Location
from jumar.base.rules import Rule
from jumar.convert.model.outcome import Success
from jumar.convert.model.text import SourceText, parse_python
from jumar.convert.syntax.source import Source, SourceError, parse

PYTHON = (".py", ".pyw")
NOTEBOOK = ".ipynb"

_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|[\w.]+\?{1,2}\s*|(?:\w+\s*=\s*)[%!].*)$")


@dataclass(frozen=True)
class Code:
    """Python text with what parsing it gave; `tree` is None when Python's parser refuses it."""

    text: str

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree of Python's own parser."""
        try:
            return parse_python(self.text)
        except (SyntaxError, ValueError, RecursionError):
            return None

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, outermost first; empty without a tree."""
        return [] if self.tree is None else list(ast.walk(self.tree))

    @cached_property
    def stored(self) -> Counter[str]:
        """How often each name is bound: assigned, imported, or a parameter; definitions are left out."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            if isinstance(node, ast.Name):
                found[node.id] += not isinstance(node.ctx, ast.Load)
            elif isinstance(node, ast.arg):
                found[node.arg] += 1
            elif isinstance(node, ast.alias):
                found[(node.asname or node.name).partition(".")[0]] += 1
        return found

    @cached_property
    def source(self) -> Source | None:
        """The same text with resolved names, None when it cannot be read."""
        try:
            return parse(self.text)
        except SourceError:
            return None


@dataclass(frozen=True)
class Pair:
    """One changed file: its outcome, and the Python code in it before and after (None: it holds none)."""

    outcome: Success
    before: Code | None
    after: Code | None
    release: str
    """The release of torch_npu that the conversion is for."""

    @property
    def path(self) -> str:
        """The file, relative to the source root."""
        return self.outcome.path

    def finding(self, rule: Rule, message: str, line: int | None = None, **evidence: Any) -> Finding:
        """Return a finding about the converted file; `line` counts its Python text."""
        where = Location(path=self.path, line=line if self.path.endswith(PYTHON) else None)
        return rule.finding(
            message,
            where=where,
            evidence=evidence,
            action="Report this with the few lines it is about, and mend the converted file by hand.",
        )


def pair_of(outcome: Success, release: str) -> Pair:
    """Read both sides of a converted file; bytes that are no Python give a pair without code."""
    return Pair(outcome, code_of(outcome.path, outcome.before), code_of(outcome.path, outcome.after), release)


def code_of(path: str, data: bytes) -> Code | None:
    """Return the Python code of a source or a notebook, None for any other file and for undecodable bytes."""
    if path.endswith(PYTHON):
        try:
            return Code(SourceText.decode(data).text)
        except SourceError:
            return None
    if path.endswith(NOTEBOOK):
        cells = notebook_cells(data)
        return None if cells is None else Code("\n".join(cells))
    return None


def notebook_cells(data: bytes) -> list[str] | None:
    """Return the Python of a notebook's code cells, magic commands replaced by `pass`; None when it is no notebook."""
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (UnicodeError, ValueError, RecursionError):
        return None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        return None
    found = []
    for cell in cells:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", "")
            found.append(_plain_python("".join(source) if isinstance(source, list) else str(source)))
    return found


def _plain_python(cell: str) -> str:
    if cell.lstrip().startswith("%%"):
        return "pass"
    return "\n".join(_MAGIC.sub(r"\1pass", line) for line in cell.splitlines())
