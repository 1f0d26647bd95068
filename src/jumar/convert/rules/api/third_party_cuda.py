"""## What it does
Reports imports of libraries that bring CUDA code of their own: apex, flash_attn, bitsandbytes, xformers,
Triton, DALI, pynvml and some sixty others, with the reason, what to do, and where that is documented.
Imports by name (`importlib.import_module('apex')`, `find_spec('flash_attn')`) count, too. What each call of
such a library becomes is another rule's matter (JM130).

## Why it matters
No rename makes them run. An import that stands in a `try`, under an `if` or in a function may be replaced
by the program itself and weighs less; one that does not fails before anything runs.

## Example
```python
from flash_attn import flash_attn_func
```

## Use instead
```python
from torch.nn.functional import scaled_dot_product_attention
```

## Fix safety
No fix here: counterparts take other arguments. With similar interfaces allowed (`-sim`), attention,
optimizers and normalization are replaced where the result is the same (JM145, JM146, JM147).

## References
- The packaged table `counterparts.json` names the source of each statement
- torch_npu 2.13 public API
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.counterparts import Library, library_of
from jumar.convert.rules.subject.places import is_optional, is_own_module, is_tried
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import imported_name

RULE = Rule(
    code="JM111",
    name="third-party-cuda",
    summary="A library with CUDA code of its own is imported.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_BY_NAME = frozenset({"importlib.import_module", "importlib.util.find_spec", "builtins.__import__"})


def find(context: Context) -> Iterator[Proposal]:
    """Report imports of CUDA libraries, in whatever form."""
    told: set[str] = set()  # libraries with nothing to do, told of once a file
    for node, names in _statements(context):
        library = library_of(names[0])
        if library is None or library.quiet_import or is_own_module(context.source, context.project, library.name):
            continue
        if library.severity is Severity.INFO and library.name in told:
            continue
        told.add(library.name)
        yield _import(context, library, names, node)
    yield from _by_name(context)


def _statements(context: Context) -> Iterator[tuple[cst.ImportAlias | cst.ImportFrom, list[str]]]:
    """Yield, by import statement and library, its first item and the names it brings; what an edit removed is left."""
    source = context.source
    groups: dict[tuple[cst.CSTNode | None, str], list[tuple[cst.ImportAlias, str]]] = {}
    for alias in source.nodes(cst.ImportAlias):
        name = imported_name(alias, source.parent(alias)) or ""
        library = library_of(name)
        if library is not None and not context.within_covered(source.span(alias.name)):
            groups.setdefault((source.parent(alias), library.name), []).append((alias, name))
    for group in groups.values():
        yield group[0][0], [name for _, name in group]
    for statement in source.nodes(cst.ImportFrom):
        if isinstance(statement.names, cst.ImportStar) and statement.module is not None and not statement.relative:
            yield statement, [source.code(statement.module)]


def _import(context: Context, library: Library, names: list[str], node: cst.ImportAlias | cst.ImportFrom) -> Proposal:
    source = context.source
    optional = is_optional(source, node)
    span = source.span(node.name if isinstance(node, cst.ImportAlias) else node)
    note = ""
    if optional:
        note = " (its import may fail without harm)" if is_tried(source, node) else " (only where this code runs)"
    verb = "belongs" if len(names) == 1 else "belong"
    return Proposal(
        rule=RULE,
        span=span,
        severity=min(library.severity, Severity.ADVICE) if optional else library.severity,
        message=f"{', '.join(f'`{name}`' for name in names)} {verb} to {library.name}: {library.reason}{note}.",
        action=library.action,
        why=f"Source: {library.source}.",
        evidence={"library": library.name, "names": list(names), "optional": optional},
    )


def _by_name(context: Context) -> Iterator[Proposal]:
    """Report libraries imported or looked for by a string."""
    source = context.source
    for reference in source.references:
        if reference.name not in _BY_NAME or reference.call is None or not reference.call.args:
            continue
        text = literal(source, reference.call.args[0].value)
        library = library_of(text.body) if text is not None and text.num_fields == 0 else None
        if text is None or library is None or is_own_module(context.source, context.project, library.name):
            continue
        yield Proposal(
            rule=RULE,
            span=source.span(text.node),
            severity=min(library.severity, Severity.ADVICE),
            message=f"`{text.body}` is asked for by name; it belongs to {library.name}: {library.reason}.",
            action=library.action,
            why=f"Source: {library.source}.",
            evidence={"library": library.name, "optional": True},
        )
