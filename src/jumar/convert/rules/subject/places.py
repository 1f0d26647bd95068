"""Helpers of the rules about residue: guards that make an import optional, and one finding for several uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import libcst as cst

from jumar.base.findings import Json, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing
from jumar.convert.model.edits import Proposal
from jumar.convert.model.project import ProjectFacts
from jumar.convert.model.spans import Span
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Reference, Source

_MAX_LINES = 12


_TRIES = (cst.Try, cst.TryStar)


def is_optional(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether `node` runs only where asked for: in the body of a `try`, under an `if`, or in a function."""
    return any(not isinstance(around, _TRIES) or around.handlers for around in _deciding(source, node))


def is_tried(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether `node` stands in the body of a `try` that catches something."""
    return any(isinstance(around, _TRIES) and around.handlers for around in _deciding(source, node))


def _deciding(source: Source, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the `try`, the `if` (but the main guard) and the functions around `node`, innermost first."""
    for child, around in pairwise((node, *source.ancestors(node))):
        tried = isinstance(around, _TRIES) and around.body is child
        chosen = isinstance(around, cst.If) and child in (around.body, around.orelse) and not _is_main_guard(around)
        if tried or chosen or isinstance(around, cst.FunctionDef):
            yield around


def _is_main_guard(node: cst.If) -> bool:
    test = node.test
    return isinstance(test, cst.Comparison) and is_named(test.left, "__name__")


def comes_optionally(source: Source, reference: Reference) -> bool:
    """Tell whether every import that the reference hangs on is optional."""
    root = reference.chain[0]
    if not isinstance(root, cst.Name):
        return False
    imports = [binding.node for binding in source.scope(root).bindings_of(root.value) if binding.kind == "import"]
    return bool(imports) and all(
        any(not isinstance(around, cst.FunctionDef) for around in _deciding(source, node)) for node in imports
    )


def is_own_module(source: Source, project: ProjectFacts, name: str) -> bool:
    """Tell whether the project itself holds the package that `name` starts with; the file may lie in it."""
    top = name.partition(".")[0]
    if top in source.path.replace("\\", "/").split("/")[:-1]:
        return True
    return any(module == top or module.startswith(f"{top}.") for module in project.exports)


def lines_of(source: Source, spans: Iterable[Span]) -> list[int]:
    """Return the lines on which spans start, each once, in order."""
    return sorted({source.text.position(start)[0] for start, _ in spans})


def shown(lines: Sequence[int]) -> str:
    """Return `line 3`, or `lines 3, 8 and 11`; long lists are cut."""
    if len(lines) == 1:
        return f"line {lines[0]}"
    if len(lines) > _MAX_LINES:
        return f"lines {listing(map(str, lines), _MAX_LINES)}"
    return f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def summary(
    source: Source,
    rule: Rule,
    spans: Sequence[Span],
    message: str,
    *,
    severity: Severity,
    action: str = "",
    why: str = "",
    confidence: str = "certain",
    evidence: Mapping[str, Json] | None = None,
) -> Iterator[Proposal]:
    """Yield one proposal at the first of `spans` that tells of all of them (none for no spans)."""
    if not spans:
        return
    ordered = sorted(dict.fromkeys(spans))
    lines = lines_of(source, ordered)
    where = f" ({shown(lines)})" if len(ordered) > 1 else ""
    yield Proposal(
        rule=rule,
        span=ordered[0],
        message=f"{message}{where}.",
        severity=severity,
        action=action,
        why=why,
        confidence=confidence,
        evidence={"num_uses": len(ordered), "lines": list(lines), **(evidence or {})},
    )


def distinct(references: Iterable[Reference]) -> Iterator[Reference]:
    """Yield each node's reference once; a name with rival bindings has several."""
    seen: set[cst.CSTNode] = set()
    for reference in references:
        if reference.node not in seen:
            seen.add(reference.node)
            yield reference
