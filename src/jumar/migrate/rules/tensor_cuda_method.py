"""## What it does
Renames `.cuda()` calls on tensors and modules to `.npu()`, arguments untouched, and
`torch.Tensor.cuda` / `torch.nn.Module.cuda` used as values. A class of the file that defines `cuda`
itself keeps it, and so do calls on its instances as far as the file shows what they are; on other
objects of such a file the edit is unsafe. `args.cuda`, which is not called, is a flag and stays.

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

from jumar.findings import Severity
from jumar.migrate.edits import Proposal
from jumar.migrate.receivers import Receivers
from jumar.migrate.rules.context import Context, renamed
from jumar.migrate.source import Source
from jumar.rules import Rule

RULE = Rule(
    code="JM103",
    name="tensor-cuda-method",
    summary="A tensor or module is moved with .cuda().",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_METHODS = ("torch.Tensor.cuda", "torch.nn.Module.cuda", "torch.nn.modules.module.Module.cuda")


def check(context: Context) -> Iterator[Proposal]:
    """Propose `.npu` for every `.cuda` that moves a tensor or module."""
    source, receivers = context.source, Receivers(context.source, "cuda")
    for node in source.nodes(cst.Attribute):
        if node.attr.value != "cuda" or context.covered(source.span(node)):
            continue
        if source.qualified(node) in _METHODS:
            yield _convert(context, node, safe=True)
        elif source.called(node) is None or _is_torchs_own(source, node) or receivers.is_module_function(node):
            continue
        else:
            kind = receivers.classify(node.value)
            if kind == "own":
                yield _own(context, node)
            else:
                yield _convert(
                    context, node, safe=kind == "torch" or not receivers.has_own or receivers.is_in_own(node)
                )


def _is_torchs_own(source: Source, node: cst.Attribute) -> bool:
    """Tell whether the whole chain is a name of the torch package, which no tensor is."""
    return any(name is not None and name.startswith(("torch.", "torch_npu.")) for name in source.candidates(node))


def _convert(context: Context, node: cst.Attribute, *, safe: bool) -> Proposal:
    source = context.source
    return Proposal(
        rule=RULE,
        span=source.span(node.attr),
        message="`.cuda` moves to a CUDA device." if safe else "`.cuda` may be this file's own method.",
        replacements=(renamed(source, node.attr, "npu"),),
        safety="safe" if safe else "unsafe",
        confidence="certain" if safe else "possible",
        action="" if safe else "If the object is a tensor or module, convert with --unsafe or write .npu here.",
    )


def _own(context: Context, node: cst.Attribute) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(node.attr),
        severity=Severity.INFO,
        message="`.cuda` is a method this file defines, so its name was left; its body is converted.",
    )
