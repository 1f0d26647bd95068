"""## What it does
Finds decisions that rest on the make of a GPU or the version of CUDA: comparisons of
`torch.cuda.get_device_capability()`, `major`, `minor`, `multi_processor_count` and the like of device properties,
`torch.version.cuda`, `get_arch_list()`.

## Why it matters
On an NPU the capability is None (comparing it raises TypeError), the properties lack those fields
(AttributeError), and `torch.version.cuda` is None (its `.split` raises).

## Example
```python
use_bf16 = torch.cuda.get_device_capability()[0] >= 8
if int(torch.version.cuda.split('.')[0]) >= 11:
    flags.append('-gencode')
```

## Use instead
```python
use_bf16 = torch.npu.is_bf16_supported()
```

## Fix safety
No fix here; with similar interfaces allowed (`-sim`), JM148 replaces tests of bfloat16.

## References
- torch_npu 2.13 (`torch.npu.get_device_capability` returns None; properties: name, total_memory, cube_core_num, …)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import distinct, summary
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM135",
    name="compute-capability",
    summary="A decision rests on the make of a GPU or the version of CUDA.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_CAPABILITY = "torch.cuda.get_device_capability"
_PROPERTIES = "torch.cuda.get_device_properties"
_FIELDS = frozenset(
    {"major", "minor", "multi_processor_count", "warp_size", "regs_per_multiprocessor", "gcnArchName", "sm_count"}
    | {"max_threads_per_multi_processor", "shared_memory_per_block_optin", "L2_cache_size", "is_multi_gpu_board"}
)
_VERSION = "torch.version.cuda"
_ARCH = re.compile(r"^(sm|compute)_[5-9]\d|^sm_1\d\d|arch=compute_\d+")

_INSTEAD = (
    "Ask for what the code wants: torch.npu.is_bf16_supported() for bfloat16, torch.npu.get_device_name() for the chip."
)


def find(context: Context) -> Iterator[Proposal]:
    """Report comparisons of capabilities and versions, and fields that NPU properties lack."""
    source = context.source
    for reference in distinct(source.references):
        if context.within_covered(source.span(reference.node)) and _is_replaced(context, reference):
            continue
        if reference.name == _CAPABILITY and reference.call is not None:
            yield _capability(source, reference)
        elif reference.name == _PROPERTIES and reference.call is not None:
            yield from _fields(source, reference.call)
        elif reference.name == _VERSION or reference.name.startswith(f"{_VERSION}."):
            yield _version(source, reference)
    yield from _architectures(context)


def _version(source: Source, reference: Reference) -> Proposal:
    used = reference.name != _VERSION or isinstance(
        source.parent(reference.node), (cst.Comparison, cst.ComparisonTarget, cst.Subscript)
    )
    return Proposal(
        rule=RULE,
        span=source.span(reference.node),
        severity=Severity.WARNING if used else Severity.ADVICE,
        message="`torch.version.cuda` is None on an NPU.",
        action="Guard what is done with torch.version.cuda: a string method or comparison of None raises.",
    )


def _is_replaced(context: Context, reference: Reference) -> bool:
    """Tell whether an edit takes the reference away as a whole."""
    start, end = context.source.span(reference.node)
    return any(
        edit.start <= start and end <= edit.end for proposal in context.proposals for edit in proposal.replacements
    )


def _capability(source: Source, reference: Reference) -> Proposal:
    assert reference.call is not None
    parent = source.parent(reference.call)
    used = isinstance(parent, (cst.Comparison, cst.Subscript, cst.ComparisonTarget))
    return Proposal(
        rule=RULE,
        span=source.span(reference.call),
        severity=Severity.ERROR if used else Severity.WARNING,
        message="The compute capability of an NPU is None"
        + ("; indexing or comparing it raises TypeError." if used else ", not (major, minor)."),
        action=_INSTEAD,
    )


def _fields(source: Source, call: cst.Call) -> Iterator[Proposal]:
    """Report fields that properties of an NPU lack, read from the call or from the name it is bound to."""
    names = _bound_names(source, call)
    for node in source.nodes(cst.Attribute):
        if node.attr.value not in _FIELDS:
            continue
        direct = node.value is call
        if direct or (isinstance(node.value, cst.Name) and source.scope(node).home(node.value.value) is not None
                      and node.value.value in names):  # fmt: skip
            yield Proposal(
                rule=RULE, span=source.span(node.attr), severity=Severity.ERROR,
                confidence="certain" if direct else "likely",
                message=f"Device properties of an NPU have no `{node.attr.value}`.", action=_INSTEAD,
            )  # fmt: skip


def _bound_names(source: Source, call: cst.Call) -> frozenset[str]:
    parent = source.parent(call)
    if not isinstance(parent, cst.Assign):
        return frozenset()
    return frozenset(target.target.value for target in parent.targets if isinstance(target.target, cst.Name))


def _architectures(context: Context) -> Iterator[Proposal]:
    source = context.source
    spans = [
        source.span(node)
        for node in source.nodes(cst.SimpleString)
        if _ARCH.search(node.raw_value) and not isinstance(source.parent(node), cst.Expr)
    ]
    yield from summary(
        source, RULE, spans, "CUDA architectures are named", severity=Severity.ADVICE,
        action="They choose code for NVIDIA GPUs; leave them out of a build for the NPU.",
    )  # fmt: skip
