"""## What it does
With similar interfaces allowed (`-sim`), for `--target npu`: writes the NPU's switch for CUDA's. Assignments of
`cudnn.benchmark` and `cudnn.enabled` go, `cudnn.deterministic` becomes `torch.use_deterministic_algorithms`,
`allow_tf32` becomes `allow_hf32`, `torch.cuda.nvtx` becomes `torch.npu.mstx`, `use_cuda=True` of the profiler
becomes `use_device='npu'`, and a test of the compute capability that asks for bfloat16 becomes
`torch.npu.is_bf16_supported()` (this one for both targets).

## Why it matters
Left as they are, these lines do nothing on an NPU (cuDNN), raise (nvtx, the capability), or record nothing.

## Example
```python
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
torch.cuda.nvtx.range_push('forward')
use_bf16 = torch.cuda.get_device_capability()[0] >= 8
```

## Use instead
```python
torch.use_deterministic_algorithms(True, warn_only=True)
torch.npu.matmul.allow_hf32 = True
torch.npu.mstx.range_push('forward')
use_bf16 = torch.npu.is_bf16_supported()
```

## Fix safety
HF32 has as many mantissa bits as TF32 but rounds otherwise. Deterministic algorithms concern every operator, not
only convolutions, and cost time; those without one warn. mstx marks ranges for the NPU's profiler. The capability
of a GPU says more than bfloat16: only tests beside a bfloat16 name are replaced.

## References
- torch_npu 2.13 (`torch.npu.matmul`, `torch.npu.conv`, `torch.npu.mstx`, `torch.npu.is_bf16_supported`)
- https://pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.similar.replacing.replaced import (
    Replaced,
    finder,
    left,
    named,
    proposals,
    with_requirement,
)
from jumar.convert.rules.similar.replacing.spelling import constant, is_plain, spelled, without_statement
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.syntax.devices import target_names
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM148",
    name="similar-switch",
    summary="A switch of CUDA's libraries has a counterpart of similar meaning.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)


_CUDNN = "torch.backends.cudnn."
_USELESS = frozenset({f"{_CUDNN}benchmark", f"{_CUDNN}enabled", f"{_CUDNN}benchmark_limit"})
_HF32 = {
    f"{_CUDNN}allow_tf32": "torch.npu.conv.allow_hf32",
    "torch.backends.cuda.matmul.allow_tf32": "torch.npu.matmul.allow_hf32",
}
_NVTX = {
    f"torch.cuda.nvtx.{name}": f"torch.npu.mstx.{name}"
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark")
}
_CAPABILITY = "torch.cuda.get_device_capability"
_BF16 = re.compile(r"bf16|bfloat16|bfloat", re.IGNORECASE)
_AMPERE = 8


@finder(RULE)
def replaceable(context: Context) -> Iterator[Replaced]:
    """Yield the switches of the file that have a counterpart."""
    npu = context.dialect.target == "npu"
    for reference in context.source.references:
        if not reference.certain:
            continue
        if reference.name == _CAPABILITY and reference.call is not None:
            yield from _capability(context, reference, reference.call)
        elif npu:
            yield from _npu(context, reference)


def _npu(context: Context, reference: Reference) -> Iterator[Replaced]:
    name = reference.name
    if reference.node in context.source.tree.stored:
        yield from _assignment(context, reference)
    elif name in _NVTX and reference.call is not None and len(reference.call.args) <= 1:
        yield named(context, RULE, reference, _NVTX[name], [], "It marks ranges for the NPU's profiler, msprof. ")
    elif name in ("torch.autograd.profiler.profile", "torch.profiler.profile") and reference.call is not None:
        yield from _profiler(context, reference, reference.call)


def _assignment(context: Context, reference: Reference) -> Iterator[Replaced]:
    """Write or remove `flag = value`; a flag that the file also reads stays."""
    source, name = context.source, reference.name
    if name not in _USELESS and name not in _HF32 and name != f"{_CUDNN}deterministic":
        return
    assign = source.parent(source.parent(reference.node) or reference.node)
    line = source.parent(assign) if isinstance(assign, cst.Assign) else None
    if not isinstance(assign, cst.Assign) or not isinstance(line, cst.SimpleStatementLine):
        return
    if len(assign.targets) != 1 or len(line.body) != 1:
        yield left(context, RULE, reference, "it is assigned together with something else")
    elif any(other.name == name and other.node not in source.tree.stored for other in source.references):
        yield left(context, RULE, reference, "this file reads it, too")
    elif name in _HF32:
        caveat = "HF32 has as many mantissa bits as TF32 but rounds otherwise. "
        yield named(context, RULE, reference, _HF32[name], [], caveat)
    elif name in _USELESS:
        yield from _removed(context, reference, assign, line)
    else:
        yield _deterministic(context, reference, assign)


def _removed(
    context: Context, reference: Reference, assign: cst.Assign, line: cst.SimpleStatementLine
) -> Iterator[Replaced]:
    if not is_plain(assign.value):
        yield left(context, RULE, reference, "its value is computed")
        return
    yield Replaced(
        reference=reference,
        proposal=Proposal(
            rule=RULE,
            span=context.source.span(reference.node),
            message=f"`{reference.name}` was removed: it does nothing on an NPU.",
            replacements=(without_statement(context.source, line),),
            severity=Severity.INFO,
            why="It changes no result on an NPU.",
        ),
    )


def _deterministic(context: Context, reference: Reference, assign: cst.Assign) -> Replaced:
    source = context.source
    text, requires = spelled(source, reference.node, "torch.use_deterministic_algorithms")
    first, last = source.outer_span(assign.value)
    return Replaced(
        reference=reference,
        proposal=Proposal(
            rule=RULE,
            span=source.span(reference.node),
            message="`cudnn.deterministic` was replaced by the similar torch.use_deterministic_algorithms.",
            replacements=(
                Replacement(source.span(reference.node)[0], first, f"{text}("),
                Replacement(last, last, ", warn_only=True)"),
            ),
            severity=Severity.ADVICE,
            why="It concerns every operator, not only convolutions, costs time, and warns where there is no such one.",
            requires=requires,
            evidence={"similar": "torch.use_deterministic_algorithms", "caveat": "every operator; slower; warns"},
        ),
    )


def _profiler(context: Context, reference: Reference, call: cst.Call) -> Iterator[Replaced]:
    argument = keyword(call, "use_cuda")
    if argument is None or argument.keyword is None or constant(argument.value) is not True:
        return
    source, word = context.source, context.dialect.device_word(context.quote)
    edit = Replacement(source.span(argument.keyword)[0], source.outer_span(argument.value)[1], f"use_device={word}")
    yield Replaced(
        reference=reference,
        proposal=Proposal(
            rule=RULE,
            span=source.span(argument),
            message="`use_cuda` of the profiler was replaced by use_device.",
            replacements=(edit,),
            severity=Severity.ADVICE,
            why="Device times come from torch_npu's own profiler; here they may be missing.",
            action="Use torch_npu.profiler.profile for device times.",
            requires=context.dialect.requires,
            evidence={"similar": "use_device", "caveat": "device times may be missing"},
        ),
    )


def _capability(context: Context, reference: Reference, call: cst.Call) -> Iterator[Replaced]:
    """Write `get_device_capability()[0] >= 8` where it asks for bfloat16."""
    source = context.source
    test = _test_for_ampere(source, call)
    if test is None:
        return
    if not _asks_for_bfloat16(source, test):
        yield left(context, RULE, reference, "what the capability decides here is not bfloat16 by its name")
        return
    new = context.dialect.counterpart("torch.cuda.is_bf16_supported").name
    if new is None:
        yield left(context, RULE, reference, "the target has no test for bfloat16")
        return
    text, requires = spelled(source, reference.node, new)
    found = Replaced(
        reference=reference,
        proposal=Proposal(
            rule=RULE,
            span=source.span(test),
            message=f"The test of the compute capability asks for bfloat16 and was replaced by {new}.",
            replacements=(Replacement(*source.span(test), f"{text}()"),),
            severity=Severity.ADVICE,
            why="The capability of a GPU says more than bfloat16: check what else the test decides.",
            evidence={"similar": new, "caveat": "the capability says more than bfloat16"},
        ),
    )
    yield Replaced(reference=reference, proposal=with_requirement(found.proposal, *requires))


def _test_for_ampere(source: Source, call: cst.Call) -> cst.Comparison | None:
    """Return the comparison of a capability with 8, (8,) or (8, 0): "at least Ampere"."""
    node: cst.CSTNode = call
    parent = source.parent(call)
    if isinstance(parent, cst.Subscript) and source.code(parent).endswith("[0]"):
        node, parent = parent, source.parent(parent)
    if not isinstance(parent, cst.Comparison) or parent.left is not node or len(parent.comparisons) != 1:
        return None
    target = parent.comparisons[0]
    value = constant(target.comparator)
    least = value in (_AMPERE, (_AMPERE,), (_AMPERE, 0)) and isinstance(target.operator, cst.GreaterThanEqual)
    above = value in (_AMPERE - 1, (_AMPERE - 1, 9)) and isinstance(target.operator, cst.GreaterThan)
    return parent if (least or above) and "#" not in source.code(parent) else None


def _asks_for_bfloat16(source: Source, test: cst.Comparison) -> bool:
    """Tell whether a name around the test contains bfloat16: its target, the function, the guarded code."""
    for around in source.ancestors(test):
        names = _names(source, around)
        if names:
            return any(map(_BF16.search, names))
        if isinstance(around, cst.BaseStatement):
            return False
    return False


def _names(source: Source, node: cst.CSTNode) -> list[str]:
    """Return the names that tell what a test decides, where `node` is what its value goes to."""
    if isinstance(node, (cst.Assign, cst.AnnAssign)):
        return list(target_names(source, node))
    if isinstance(node, (cst.IfExp, cst.If)):
        return [source.code(node.body)]
    if isinstance(node, cst.Arg) and node.keyword is not None:
        return [node.keyword.value]
    function = source.enclosing(node, cst.FunctionDef) if isinstance(node, cst.Return) else None
    return [function.name.value] if function is not None else []


def find(context: Context) -> Iterator[Proposal]:
    """Write the NPU's switches, where similar interfaces are allowed."""
    return proposals(context, RULE)
