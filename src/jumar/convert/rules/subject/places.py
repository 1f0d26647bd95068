"""What rules about residue share: guards that make an import optional, and one finding for several uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst

from jumar.base.findings import Json, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing
from jumar.convert.model.edits import Proposal
from jumar.convert.model.project import ProjectFacts
from jumar.convert.model.spans import Span
from jumar.convert.syntax.source import Reference, Source

_MAX_LINES = 12


def is_optional(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether `node` runs only where asked for: in the body of a `try`, under an `if`, or in a function."""
    child: cst.CSTNode = node
    for around in source.ancestors(node):
        if isinstance(around, (cst.Try, cst.TryStar)) and around.body is child and _catches_imports(around):
            return True
        if isinstance(around, cst.If) and child in (around.body, around.orelse) and not _is_main_guard(around):
            return True
        if isinstance(around, cst.FunctionDef):
            return True
        child = around
    return False


def _catches_imports(node: cst.Try | cst.TryStar) -> bool:
    return bool(node.handlers)


def _is_main_guard(node: cst.If) -> bool:
    test = node.test
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"


def is_tried(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether `node` stands in the body of a `try` that catches something."""
    child: cst.CSTNode = node
    for around in source.ancestors(node):
        if isinstance(around, (cst.Try, cst.TryStar)) and around.body is child and _catches_imports(around):
            return True
        child = around
    return False


def comes_optionally(source: Source, reference: Reference) -> bool:
    """Tell whether every import that the reference hangs on is optional."""
    root = reference.chain[0]
    if not isinstance(root, cst.Name):
        return False
    imports = [binding.node for binding in source.scope(root).bindings_of(root.value) if binding.kind == "import"]
    return bool(imports) and all(_is_conditional(source, node) for node in imports)


def _is_conditional(source: Source, node: cst.CSTNode) -> bool:
    child: cst.CSTNode = node
    for around in source.ancestors(node):
        if isinstance(around, (cst.Try, cst.TryStar)) and around.body is child:
            return True
        if isinstance(around, cst.If) and child in (around.body, around.orelse) and not _is_main_guard(around):
            return True
        child = around
    return False


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


def is_literal_true(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is the constant True."""
    return isinstance(node, cst.Name) and node.value == "True"
