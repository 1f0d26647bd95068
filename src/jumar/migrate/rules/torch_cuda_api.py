"""## What it does
Finds uses of `torch.cuda` and writes the `torch.npu` name where torch_npu 2.13 has it. A name that
PyTorch keeps under a device-neutral name moves there (`torch.cuda.OutOfMemoryError`), one that is
renamed on the NPU gets its new name (`CUDAGraph`, `get_device_name(device=…)`). A name without a
counterpart is left in place and reported with what to use instead.

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

from jumar.findings import Severity
from jumar.migrate.api_map import Counterpart, counterpart, missing_parameters, renamed_parameters
from jumar.migrate.edits import Proposal, Replacement
from jumar.migrate.rules.context import Context, renamed, token
from jumar.migrate.source import Reference
from jumar.rules import Rule

RULE = Rule(
    code="JM101",
    name="torch-cuda-api",
    summary="A name of torch.cuda is used.",
    severity=Severity.ERROR,
    doc=__doc__,
    safety="safe",
)

_OTHER_RESULT = {
    "torch.cuda.get_device_capability": "On an NPU it returns None, not (major, minor): guard its comparisons.",
    "torch.cuda.get_device_properties": "On an NPU the properties have no major, minor or multi_processor_count.",
    "torch.cuda.DoubleTensor": "NPUs compute float64 slowly or not at all; prefer float32.",
}


def check(context: Context) -> Iterator[Proposal]:
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
    other = counterpart(reference.name)
    if other.kind == "missing":
        return _missing(context, reference, other)
    replacements = _rename(context, reference, other)
    if replacements is None:
        return Proposal(
            rule=RULE, span=span,
            message=f"`{source.code(reference.node)}` must become {other.name}, but this file has no name for torch.",
            action=f"Import torch here and write {other.name}.",
        )  # fmt: skip
    return _found(context, reference, other, replacements)


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


def _missing(context: Context, reference: Reference, other: Counterpart) -> Proposal:
    code = context.source.code(reference.node)
    replacements: tuple[Replacement, ...] = ()
    if other.name is not None and reference.names[0] == "torch" and _one_argument(reference):
        start, end = context.source.span(reference.node)
        replacements = (Replacement(start, end, code.partition(".")[0] + other.name.removeprefix("torch")),)
    return Proposal(
        rule=RULE,
        span=context.source.span(reference.node),
        message=f"`{code}` has no counterpart of the same meaning in torch_npu, so it was left.",
        action=other.hint,
        replacements=replacements,
        safety="unsafe",
    )


def _one_argument(reference: Reference) -> bool:
    return reference.call is not None and len(reference.call.args) <= 1


def _found(
    context: Context, reference: Reference, other: Counterpart, replacements: list[Replacement]
) -> Proposal | None:
    name = reference.name
    note = _OTHER_RESULT.get(name, "")
    if reference.call is not None:
        dropped = [
            arg.keyword.value
            for arg in reference.call.args
            if arg.keyword is not None and arg.keyword.value in missing_parameters(name)
        ]
        if dropped:
            note = f"Remove {', '.join(dropped)}: the NPU's function does not take it."
        replacements += _parameters(context, reference, reference.call)
    if not replacements and not note:  # an alias of torch.cuda: its import or assignment is converted
        return None
    return Proposal(
        rule=RULE,
        span=context.source.span(reference.node),
        message=f"`{name}` is {other.name} on the NPU.",
        replacements=tuple(replacements),
        severity=Severity.WARNING if note else Severity.INFO,
        action=note,
    )


def _parameters(context: Context, reference: Reference, call: cst.Call) -> list[Replacement]:
    new = renamed_parameters(reference.name)
    return [
        renamed(context.source, arg.keyword, new[arg.keyword.value])
        for arg in call.args
        if arg.keyword is not None and arg.keyword.value in new
    ]


def _rename(context: Context, reference: Reference, other: Counterpart) -> list[Replacement] | None:
    """Return token replacements for a counterpart; None when they need a name this file does not have."""
    source, chain, names = context.source, reference.chain, reference.names
    if not _is_cuda(names[0]) and "torch.cuda" not in names:
        return []
    at = names.index("torch.cuda") if "torch.cuda" in names else None
    if at is None:  # the root was imported from torch.cuda: its import statement is converted
        return []
    cuda = chain[at]
    if other.kind == "moved":
        if isinstance(cuda, cst.Attribute):
            return [Replacement(source.outer_span(cuda.value)[1], source.span(cuda)[1], "")]
        torch = _name_of_torch(context, cuda)
        return None if torch is None else [Replacement(*source.span(cuda), torch)]
    found = [renamed(source, cuda.attr, "npu")] if isinstance(cuda, cst.Attribute) else []
    if other.kind == "renamed" and other.name is not None:
        found.append(renamed(source, token(chain[at + 1]), other.name.split(".")[2]))
    return found


def _name_of_torch(context: Context, node: cst.CSTNode) -> str | None:
    return "torch" if context.source.scope(node).candidates("torch") == ("torch",) else None
