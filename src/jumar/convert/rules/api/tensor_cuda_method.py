"""## What it does
Renames `.cuda()` calls on tensors and modules to `.npu()`, arguments untouched, and
`torch.Tensor.cuda` / `torch.nn.Module.cuda` used as values. For `--target agnostic` they become
`.to(DEVICE_TYPE)` with the same other arguments; a number becomes a device with that index.

A class of the file that defines `cuda` itself keeps it, and so do calls on its instances as far as the
file shows what they are; on other objects of such a file the edit is unsafe. `args.cuda`, which is not
called, is a flag and stays.

## Why it matters
`.cuda()` raises on a machine without CUDA, and `.npu()` on an object that never had it.

## Example
```python
images = images.cuda(args.gpu, non_blocking=True)
```

## Use instead
```python
images = images.npu(args.gpu, non_blocking=True)
```

## Fix safety
Safe, but unsafe in files that define a `cuda` method of their own and do not show which one is meant.

## References
- torch_npu 2.13 (`torch.Tensor.npu`, `torch.nn.Module.npu`: same parameters)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.receivers import Receivers
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM103",
    name="tensor-cuda-method",
    summary="A tensor or module is moved with .cuda().",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_METHODS = ("torch.Tensor.cuda", "torch.nn.Module.cuda", "torch.nn.modules.module.Module.cuda")


def find(context: Context) -> Iterator[Proposal]:
    """Propose the target's form for every `.cuda` that moves a tensor or module."""
    source, receivers = context.source, Receivers(context.source, "cuda")
    for node in source.nodes(cst.Attribute):
        if node.attr.value != "cuda" or context.covered(source.span(node)) or context.covered(source.span(node.attr)):
            continue
        if source.qualified(node) in _METHODS:
            yield _as_value(context, node)
        elif _is_torchs_own(source, node) or receivers.is_module_function(node):
            continue
        elif source.called(node) is None:
            if receivers.is_bound_method(node):
                yield _as_value(context, node)
        else:
            kind = receivers.classify(node.value)
            if kind == "own":
                yield _own(context, node)
            else:
                safe = kind == "torch" or not receivers.has_own or receivers.is_in_own(node)
                yield _convert(context, node, safe=safe)


def _is_torchs_own(source: Source, node: cst.Attribute) -> bool:
    """Tell whether the whole chain is a name of the torch package, which no tensor is."""
    root: cst.BaseExpression = node
    while isinstance(root, cst.Attribute):
        root = root.value
    if isinstance(root, cst.Call) and source.qualified(root.func) == "torch.get_device_module":
        return True
    return any(name is not None and name.startswith(("torch.", "torch_npu.")) for name in source.candidates(node))


def _as_value(context: Context, node: cst.Attribute) -> Proposal:
    source, call = context.source, context.source.called(node)
    edits = context.dialect.mover(node) if call is None or context.dialect.target == "npu" else None
    return Proposal(
        rule=RULE,
        span=source.span(node.attr),
        message=f"`{source.code(node)}` is the method that moves to a CUDA device.",
        replacements=edits or (),
        action="" if edits else "Call .to(device) instead.",
    )


def _convert(context: Context, node: cst.Attribute, *, safe: bool) -> Proposal:
    source, call = context.source, context.source.called(node)
    assert call is not None
    new = context.dialect.move(call)
    if new.problem:
        return Proposal(
            rule=RULE, span=source.span(node.attr), action=new.action,
            message=f"`{source.code(call)}` {new.problem}, so it was left.",
        )  # fmt: skip
    return Proposal(
        rule=RULE,
        span=source.span(node.attr),
        message="`.cuda` moves to a CUDA device." if safe else "`.cuda` may be this file's own method.",
        replacements=new.edits,
        safety="safe" if safe else "unsafe",
        confidence="certain" if safe else "possible",
        action="" if safe else "If the object is a tensor or module, convert with --unsafe or change it here.",
    )


def _own(context: Context, node: cst.Attribute) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(node.attr),
        severity=Severity.INFO,
        message="`.cuda` is a method this file defines, so its name was left; its body is converted.",
    )
