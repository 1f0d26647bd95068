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

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.receivers import Receivers
from jumar.convert.syntax.scopes import last_name
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
        elif _is_torchs_own(source, node):
            continue
        elif receivers.is_module_function(node):
            if source.called(node) is not None:
                yield _of_module(context, node)
        elif source.called(node) is None:
            if receivers.is_bound_method(node):
                yield _as_value(context, node)
            elif node not in source.tree.stored and not _is_flag(source, node):
                yield _unclear(context, node)
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


_SETTINGS = re.compile(r"arg|opt|cfg|conf|flag|hparam|param|setting|^self$|^cls$|hps|namespace|fabric", re.IGNORECASE)


def _is_flag(source: Source, node: cst.Attribute) -> bool:
    """Tell whether an attribute that is not called reads as a setting: by its object, or as a condition."""
    if _SETTINGS.search(last_name(node.value)) or not isinstance(node.value, (cst.Name, cst.Attribute, cst.Call)):
        return True
    parent = source.parent(node)
    return isinstance(
        parent, (cst.If, cst.While, cst.Assert, cst.BooleanOperation, cst.UnaryOperation, cst.Comparison, cst.Attribute)
    ) or (isinstance(parent, cst.IfExp) and parent.test is node)


def _unclear(context: Context, node: cst.Attribute) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(node.attr),
        severity=Severity.ADVICE,
        confidence="possible",
        message=f"`{context.source.code(node)}` may be the method that moves to a CUDA device; it was left.",
        action="Where its object is a tensor or module, call .to(device) instead.",
    )


def _of_module(context: Context, node: cst.Attribute) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(node.attr),
        severity=Severity.ADVICE,
        confidence="likely",
        message=f"`{context.source.code(node)}` is a function of the module {context.source.code(node.value)}, so it"
        " was left.",
        action="Check what it does on a machine without CUDA.",
    )


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
