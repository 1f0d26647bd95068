"""## What it does
Finds uses of `torch.cuda` and writes the `torch.npu` name where torch_npu 2.13 has it. A name that
PyTorch keeps under a device-neutral name moves there (`torch.cuda.OutOfMemoryError`), one that is
renamed on the NPU gets its new name (`CUDAGraph`, `get_device_name(device=…)`). A name without a
counterpart is left in place and reported with what to use instead.

For `--target agnostic` the name becomes one of `torch.accelerator` where it means the same, else one of
`torch.get_device_module(DEVICE_TYPE)`, which on CUDA is torch.cuda itself. Calls that answer or do nothing
on a machine without CUDA (`empty_cache`, `memory_allocated`, `manual_seed_all`) keep doing so: where no
test for an accelerator surrounds them, they get one.

## Why it matters
`torch.cuda` of a PyTorch built without CUDA raises, or answers as if no accelerator were there. A
name written blindly as `torch.npu.…` raises AttributeError, possibly in an `except` clause where it
hides the real error.

## Example
```python
torch.cuda.set_device(rank)
try:
    step()
except torch.cuda.OutOfMemoryError:
    torch.cuda.empty_cache()
```

## Use instead
```python
torch.npu.set_device(rank)
try:
    step()
except torch.OutOfMemoryError:
    torch.npu.empty_cache()
```

## Fix safety
Safe where the counterpart has the same meaning. The `torch.npu.mstx` form of `torch.cuda.nvtx`
calls is unsafe, because it marks ranges for another profiler.

## References
- torch_npu 2.13 public API (`test/torch_npu_schema.json` of Ascend/pytorch)
- https://pytorch.org/docs/stable/cuda.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.residue.other_release import missing
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import Reference
from jumar.soc.support.releases import instead, lacks

RULE = Rule(
    code="JM101",
    name="torch-cuda-api",
    summary="A name of torch.cuda is used.",
    severity=Severity.ERROR,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the counterpart of every use of torch.cuda, amp aside."""
    seen: set[cst.CSTNode] = set()
    for reference in context.source.references:
        if "torch.cuda" not in reference.name or not _is_cuda(reference.name) or reference.node in seen:
            continue
        seen.add(reference.node)
        span = context.source.span(reference.node)
        if context.covered(span) or reference.name.startswith("torch.cuda.amp"):
            continue
        proposal = _propose(context, reference)
        if proposal is not None:
            yield proposal


def _is_cuda(name: str) -> bool:
    return name == "torch.cuda" or name.startswith("torch.cuda.")


def _propose(context: Context, reference: Reference) -> Proposal | None:
    source = context.source
    span = source.span(reference.node)
    if not reference.certain:
        return Proposal(
            rule=RULE, span=span, severity=Severity.WARNING, confidence="possible",
            message=f"`{source.code(reference.node)}` may be {reference.name}, but its name has rival definitions, "
            "so it was left.",
            action="Give the two meanings two names.",
        )  # fmt: skip
    if reference.node in source.tree.stored:
        return Proposal(
            rule=RULE, span=span, severity=Severity.WARNING,
            message=f"`{reference.name}` is assigned to; replacing parts of torch.cuda was left as it is.",
            action="Replace the part of torch.npu, or remove the assignment.",
        )  # fmt: skip
    if _behind_left_guard(context, reference.node):
        return Proposal(
            rule=RULE, span=span, severity=Severity.INFO,
            message=f"`{reference.name}` stays behind the CUDA-only test it belongs to.",
        )  # fmt: skip
    return _written(context, reference)


def _written(context: Context, reference: Reference) -> Proposal | None:
    source, span = context.source, context.source.span(reference.node)
    new = context.dialect.reference(reference)
    if new.problem:
        return Proposal(
            rule=RULE, span=span, replacements=new.edits, safety="safe" if new.safe else "unsafe",
            message=f"`{source.code(reference.node)}` {new.problem}, so it was left.",
            action=new.action,
        )  # fmt: skip
    if lacks(new.name, context.options.release):
        return Proposal(
            rule=RULE, span=span,
            message=f"`{reference.name}` was left: {new.name} {missing(new.name, context.options.release)}.",
            action=instead(new.name),
        )  # fmt: skip
    if not new.edits and not new.action:  # an alias of torch.cuda: its import or assignment is converted
        return None
    return Proposal(
        rule=RULE, span=span, replacements=new.edits, action=new.action,
        severity=Severity.WARNING if new.action else Severity.INFO,
        message=f"`{reference.name}` is {new.name} on {context.dialect.where}.",
    )  # fmt: skip


def _behind_left_guard(context: Context, node: cst.CSTNode) -> bool:
    """Tell whether `node` is joined by `and` to a device test that was left: it is never evaluated on the NPU."""
    source = context.source
    around: cst.CSTNode = node
    joined: cst.CSTNode | None = None
    while isinstance(parent := source.parent(around), cst.BaseExpression | cst.ComparisonTarget | cst.Arg):
        if isinstance(parent, cst.BooleanOperation) and isinstance(parent.operator, cst.And):
            joined = parent
        around = parent
    if joined is None:
        return False
    start, end = source.span(joined)
    return any(
        proposal.rule.code == "JM108" and not proposal.replacements and start <= proposal.span[0] < end
        for proposal in context.proposals
    )
