"""## What it does
Adds `import torch_npu` once to each file that names the NPU: at module level, after the first
`import torch` and before anything the conversion wrote needs it. Where torch is imported only inside
a function, a `try` or an `if`, nothing is added and the place to do it is reported.

## Why it matters
Importing torch_npu is what creates `torch.npu`, `.npu()` and the `npu` device. PyTorch loads it by
itself from version 2.5 on, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0; the import makes the file work
either way, and fail with a clear message where torch_npu is missing.

## Example
```python
import torch

torch.cuda.set_device(0)
```

## Use instead
```python
import torch
import torch_npu  # noqa: F401

torch.npu.set_device(0)
```

## Fix safety
Safe.

## References
- https://pytorch.org/tutorials/unstable/python_extension_autoload.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.findings import Severity
from jumar.migrate.edits import Proposal, Replacement
from jumar.migrate.rules.context import Context
from jumar.migrate.scopes import dotted_name
from jumar.migrate.source import Source
from jumar.rules import Rule

RULE = Rule(
    code="JM107",
    name="import-torch-npu",
    summary="The NPU is named in a file that does not import torch_npu.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_STATEMENT = "import torch_npu  # noqa: F401"
_NAMES_NPU = ("npu", "hccl")


def check(context: Context) -> Iterator[Proposal]:
    """Propose one `import torch_npu` when an applied edit names the NPU."""
    if not _writes_npu(context) or _has_import(context.source):
        return
    place = _place(context)
    if place is not None:
        yield place
        return
    nested = next((node for node in _torch_imports(context.source)), None)
    if nested is not None:
        yield Proposal(
            rule=RULE,
            span=context.source.span(nested),
            message="torch is imported conditionally here, so `import torch_npu` was not added.",
            action="Add `import torch_npu` after this import if PyTorch's backend autoload is switched off.",
        )


def _writes_npu(context: Context) -> bool:
    return any(
        any(word in replacement.text.lower() for word in _NAMES_NPU)
        for proposal in context.proposals
        if context.options.applies(proposal.safety)
        for replacement in proposal.replacements
    )


def _has_import(source: Source) -> bool:
    imported = {dotted_name(alias.name) or "" for node in source.nodes(cst.Import) for alias in node.names}
    return any(name.partition(".")[0] == "torch_npu" for name in imported)


def _torch_imports(source: Source) -> Iterator[cst.Import | cst.ImportFrom]:
    found: list[cst.Import | cst.ImportFrom] = [
        node
        for node in source.nodes(cst.Import)
        if any((dotted_name(alias.name) or "").partition(".")[0] == "torch" for alias in node.names)
    ]
    found += [
        node
        for node in source.nodes(cst.ImportFrom)
        if node.module is not None
        and not node.relative
        and (dotted_name(node.module) or "").partition(".")[0] == "torch"
    ]
    return iter(sorted(found, key=source.span))


def _place(context: Context) -> Proposal | None:
    """Return the insertion after the first plain import of torch, or before it when it names the NPU itself."""
    source = context.source
    for statement in _torch_imports(source):
        line = source.parent(statement)
        if not isinstance(line, cst.SimpleStatementLine) or source.parent(line) is not source.module:
            continue
        start, end = source.span(line)
        edited = any(
            start <= replacement.start < end and any(word in replacement.text for word in _NAMES_NPU)
            for proposal in context.proposals
            for replacement in proposal.replacements
        )
        return _insertion(context, start if edited else end, before=edited)
    return None


def _insertion(context: Context, offset: int, *, before: bool) -> Proposal:
    text = context.source.text
    newline = text.newline
    if before:
        at, code = offset, f"{_STATEMENT}{newline}"
    else:
        at = text.line_end(max(0, offset - 1))
        ends = at > 0 and text.text[at - 1] in "\r\n"
        code = f"{_STATEMENT}{newline}" if ends else f"{newline}{_STATEMENT}"
    return Proposal(
        rule=RULE,
        span=(at, at),
        message="`import torch_npu` makes the npu device known.",
        replacements=(Replacement(at, at, code),),
    )
