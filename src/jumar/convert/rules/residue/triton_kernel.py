"""## What it does
Lists Triton kernels (`@triton.jit`): each with its name and the lines where it is launched.

## Why it matters
Triton compiles for NVIDIA and AMD. On an NPU the same source is compiled by triton-ascend, which runs most of
the language but has other limits: on-chip memory instead of shared memory, no warps (`num_warps` is ignored),
fewer programs at once, and kernels written for coalesced access by single elements are slow.

## Example
```python
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    ...
```

## Use instead
```python
def add(x, y):
    return x + y
```

## Fix safety
No fix: the kernel is kept for triton-ascend, or replaced by PyTorch operators.

## References
- https://gitee.com/ascend/triton-ascend
- Ascend/pytorch `docs/zh/user_guide/torch_compile/compilation_backend/inductor.md`
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import lines_of, shown
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM132",
    name="triton-kernel",
    summary="A kernel is written in Triton.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_DECORATORS = frozenset({"triton.jit", "triton.runtime.jit.jit", "triton.experimental.gluon.jit"})


def find(context: Context) -> Iterator[Proposal]:
    """Report each function that is a Triton kernel."""
    source = context.source
    kernels = kernels_of(source)
    names = {node.name.value for node in kernels}
    launches = _launches(source, names) if names else {}
    called = _called_by_kernels(source, kernels)
    for node in kernels:
        yield _report(source, node, launches.get(node.name.value, []), helper=node.name.value in called)


def kernels_of(source: Source) -> list[cst.FunctionDef]:
    """Return the functions of a file that are Triton kernels, those that only other kernels call included."""
    return [node for node in source.nodes(cst.FunctionDef) if _is_kernel(source, node)]


def _is_kernel(source: Source, node: cst.FunctionDef) -> bool:
    for decorator in node.decorators:
        target = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        if source.qualified(target) in _DECORATORS:
            return True
    return False


def _launches(source: Source, names: set[str]) -> dict[str, list[Span]]:
    """Return the spans of `kernel[grid](...)` by the kernel's name."""
    found: dict[str, list[Span]] = {}
    for node in source.nodes(cst.Subscript):
        if isinstance(node.value, cst.Name) and node.value.value in names and source.called(node) is not None:
            found.setdefault(node.value.value, []).append(source.span(node))
    return found


def _called_by_kernels(source: Source, kernels: list[cst.FunctionDef]) -> set[str]:
    """Return the functions that kernels of this file call: parts of kernels, never launched themselves."""
    inside = set(kernels)
    return {
        call.func.value
        for call in source.nodes(cst.Call)
        if isinstance(call.func, cst.Name) and source.enclosing(call, cst.FunctionDef) in inside
    }


def _report(source: Source, node: cst.FunctionDef, launches: list[Span], *, helper: bool) -> Proposal:
    lines = lines_of(source, launches)
    if lines:
        where = f", launched on {shown(lines)}"
    else:
        where = ", called by another kernel" if helper else ", not launched in this file"
    return Proposal(
        rule=RULE,
        span=source.span(node.name),
        severity=Severity.ADVICE if helper and not lines else Severity.WARNING,
        message=f"`{node.name.value}` is a Triton kernel{where}.",
        action="Run it with triton-ascend (set no num_warps, check sizes against on-chip memory), or keep a path of "
        "PyTorch operators for the NPU.",
        evidence={"kernel": node.name.value, "launches": list(lines)},
    )
