"""## What it does
Converts import statements that bring in parts of `torch.cuda`. The names they bind stay, so that
nothing else in the file or in files that import from it has to change: `from torch import cuda`
becomes `from torch import npu as cuda`. Where one statement holds names with and without a
counterpart it is split, and those without one stay where they are and are reported.

For `--target agnostic` the uses are written in full instead (`torch.accelerator.synchronize()`), and an
import that nothing uses any more goes, unless other files may import it from here.

## Why it matters
`import torch.npu.nccl` or `from torch.npu import nvtx` fail at import, before anything runs.

## Example
```python
from torch import cuda
from torch.cuda import Stream, nvtx
import torch.cuda.amp as amp

with amp.autocast():
    step()
```

## Use instead
```python
from torch import npu as cuda
from torch.npu import Stream
from torch.cuda import nvtx
import torch.amp as amp

with amp.autocast('npu'):
    step()
```

## Fix safety
Safe; unsafe where splitting a statement would lose a comment inside it.

## References
- torch_npu 2.13 public API (`test/torch_npu_schema.json` of Ascend/pytorch)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.api_map import Counterpart, counterpart
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.api.cuda_amp import AmpPlan, amp_name, plan
from jumar.convert.rules.subject.agnostic_imports import Uses, item_name, item_span
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.scopes import dotted_name
from jumar.convert.syntax.source import imported_name

RULE = Rule(
    code="JM116",
    name="torch-cuda-import",
    summary="An import statement brings in torch.cuda or a part of it.",
    severity=Severity.ERROR,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the converted form of every import of torch.cuda or a part of it."""
    routes = plan(context.source)
    uses = Uses(context) if context.dialect.target == "agnostic" else None
    for statement in context.source.nodes(cst.Import):
        for alias in statement.names:
            name = dotted_name(alias.name) or ""
            if name == "torch.cuda" or name.startswith("torch.cuda."):
                if uses is None or (name.startswith("torch.cuda.amp") and alias.asname is not None):
                    yield _import(context, alias, name, routes)
                else:
                    yield from _agnostic_import(context, statement, alias, name, uses)
    for statement_from in context.source.nodes(cst.ImportFrom):
        module = dotted_name(statement_from.module) if statement_from.module is not None else None
        if module is None or statement_from.relative:
            continue
        if uses is None or module.startswith("torch.cuda.amp") or isinstance(statement_from.names, cst.ImportStar):
            yield from _import_from(context, statement_from, module, routes)
        else:
            yield from _agnostic_items(context, statement_from, module, routes, uses)


def _agnostic_import(
    context: Context, statement: cst.Import, alias: cst.ImportAlias, name: str, uses: Uses
) -> Iterator[Proposal]:
    """`import torch.cuda` only makes torch known; an alias goes when its uses are written in full."""
    if alias.asname is not None and not uses.vanish(alias):
        return
    source = context.source
    span = item_span(source, alias)
    plain = alias.asname is not None or uses.has_plain_torch
    edits = uses.drop(statement) if len(statement.names) == 1 and plain else [Replacement(*span, "torch")]
    if edits:
        yield Proposal(
            rule=RULE, span=span, message=f"`{name}` is imported as torch.", replacements=tuple(edits)
        )  # fmt: skip


def _agnostic_items(
    context: Context, statement: cst.ImportFrom, module: str, routes: AmpPlan, uses: Uses
) -> Iterator[Proposal]:
    assert not isinstance(statement.names, cst.ImportStar)
    if module == "torch.cuda" and any(dotted_name(alias.name) == "amp" for alias in statement.names):
        if len(statement.names) == 1:
            yield from _items(context, statement, module, routes)
        return
    cuda = [alias for alias in statement.names if item_name(alias, statement).startswith("torch.cuda")]
    for alias in cuda:
        name = item_name(alias, statement)
        if name != "torch.cuda" and context.dialect.counterpart(name).name is None:
            yield _left(context, alias.name, name, context.dialect.counterpart(name))
    gone = [alias for alias in cuda if uses.vanish(alias)]
    edits = uses.without(statement, gone) if gone else None
    if edits:
        yield Proposal(
            rule=RULE, span=context.source.span(statement), replacements=tuple(edits),
            message="What is imported from torch.cuda is written in full where it is used.",
        )  # fmt: skip


def _target(context: Context, alias: cst.ImportAlias, name: str, routes: AmpPlan) -> Counterpart:
    """Return what an import item becomes; parts of torch.cuda.amp go where all their uses can follow."""
    if name == "torch.cuda.amp" or amp_name(name) is not None:
        vendor = routes.route(alias) == "vendor"
        if vendor and context.dialect.target == "agnostic":
            return Counterpart(
                "missing", None, "Uses that pass it on as a value take no device; call it there instead."
            )
        return Counterpart("moved", name.replace("torch.cuda", "torch_npu.npu" if vendor else "torch", 1))
    if name.startswith("torch.cuda.amp."):
        return Counterpart("missing", None, "Import it from torch.amp if it is there, or do without it.")
    return counterpart(name)


def _import(context: Context, alias: cst.ImportAlias, name: str, routes: AmpPlan) -> Proposal:
    target = _target(context, alias, name, routes)
    if target.name is None:
        return _left(context, alias.name, name, target)
    new = target.name
    if alias.evaluated_alias is None:  # `import torch.cuda.x` binds `torch`; uses are converted on their own
        new = "torch.amp" if name.startswith("torch.cuda.amp") else "torch.npu"
    elif new.count(".") > 1:  # a submodule: its own package knows it, torch.npu is only an alias
        new = new.replace("torch.npu.", "torch_npu.npu.", 1)
    return _edit(context, alias.name, name, new)


def _edit(context: Context, node: cst.BaseExpression, old: str, new: str, text: str | None = None) -> Proposal:
    start, end = context.source.span(node)
    return Proposal(
        rule=RULE, span=(start, end), message=f"`{old}` is imported as {new}.",
        replacements=(Replacement(start, end, new if text is None else text),),
    )  # fmt: skip


def _left(context: Context, node: cst.CSTNode, name: str, target: Counterpart) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(node), action=target.hint,
        message=f"`{name}` has no counterpart of the same meaning here, so its import was left.",
    )  # fmt: skip


def _import_from(context: Context, statement: cst.ImportFrom, module: str, routes: AmpPlan) -> Iterator[Proposal]:
    assert statement.module is not None
    if isinstance(statement.names, cst.ImportStar):
        if module == "torch.cuda" or module.startswith("torch.cuda."):
            yield Proposal(
                rule=RULE, span=context.source.span(statement.module),
                message=f"`from {module} import *` hides which names it brings, so it was left.",
                action="Name what is imported.",
            )  # fmt: skip
        return
    if module == "torch":
        for alias in statement.names:
            if dotted_name(alias.name) == "cuda":
                text = "npu" if alias.evaluated_alias else "npu as cuda"
                yield _edit(context, alias.name, "torch.cuda", "torch.npu", text)
        return
    if module == "torch.cuda" or module.startswith("torch.cuda."):
        yield from _items(context, statement, module, routes)


def _items(context: Context, statement: cst.ImportFrom, module: str, routes: AmpPlan) -> Iterator[Proposal]:
    assert statement.module is not None
    assert not isinstance(statement.names, cst.ImportStar)
    homes: dict[str, list[str]] = {}
    plain = True
    for alias in statement.names:
        name = imported_name(alias, statement) or ""
        target = _target(context, alias, name, routes)
        if target.name is None:
            yield _left(context, alias.name, name, target)
        home, _, leaf = (target.name or name).rpartition(".")
        if home.startswith("torch.npu."):
            home = home.replace("torch.npu.", "torch_npu.npu.", 1)
        old = name.rpartition(".")[2]
        bound = alias.evaluated_alias or old
        plain = plain and leaf == old
        homes.setdefault(home, []).append(leaf if bound == leaf else f"{leaf} as {bound}")
    if list(homes) == [module]:
        return
    if len(homes) == 1 and plain:
        yield _edit(context, statement.module, module, next(iter(homes)))
    else:
        yield _split(context, statement, homes)


def _split(context: Context, statement: cst.ImportFrom, homes: dict[str, list[str]]) -> Proposal:
    source = context.source
    start, end = source.span(statement)
    line = source.parent(statement)
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    first = source.text.line_start(start)
    glue = source.text.newline + source.text.text[first:start] if alone else "; "
    text = glue.join(f"from {home} import {', '.join(items)}" for home, items in homes.items())
    return Proposal(
        rule=RULE, span=(start, end), replacements=(Replacement(start, end, text),),
        safety="unsafe" if "#" in source.text.text[start:end] else "safe",
        message="Names with different counterparts are imported from their new homes.",
    )  # fmt: skip
