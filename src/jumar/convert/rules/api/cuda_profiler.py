"""## What it does
Finds the profiler's CUDA parts. Column names such as `cuda_time_total` become the device-neutral
`device_time_total`; `use_cuda=True` of `torch.autograd.profiler.profile` and `ProfilerActivity.CUDA`
are reported, the former with an unsafe edit.

## Why it matters
The profiler warns and falls back to the CPU's side only: the trace looks complete and has no device
times.

## Example
```python
with torch.autograd.profiler.profile(use_cuda=True) as prof:
    step()
print(prof.key_averages().table(sort_by='cuda_time_total'))
```

## Use instead
```python
with torch.autograd.profiler.profile(use_device='npu') as prof:
    step()
print(prof.key_averages().table(sort_by='device_time_total'))
```

## Fix safety
Column names are safe; `use_device` is unsafe, because device times come from torch_npu's own profiler
(`torch_npu.profiler.profile`).

## References
- torch_npu 2.13 public API (`torch_npu.profiler`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context, keyword, renamed, uses_of
from jumar.convert.syntax.literals import literals
from jumar.convert.syntax.scopes import is_named

RULE = Rule(
    code="JM117",
    name="cuda-profiler",
    summary="The profiler is asked for CUDA times.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_COLUMN = re.compile(r"(self_)?cuda_(time|time_total|memory_usage)")
_PROFILES = ("torch.autograd.profiler.profile", "torch.autograd.profiler.emit_nvtx", "torch.profiler.profile")
_PROFILERS = ("torch.profiler", "torch.autograd.profiler")
_ACTIVITIES = ("torch.profiler.ProfilerActivity.CUDA", "torch.autograd.ProfilerActivity.CUDA")


def find(context: Context) -> Iterator[Proposal]:
    """Propose device-neutral column names; report what only torch_npu's profiler can do."""
    source = context.source
    for text in literals(source):
        if text.num_fields == 0 and _COLUMN.fullmatch(text.body):
            yield Proposal(
                rule=RULE, span=source.span(text.node), replacements=(text.rename("cuda", "device"),),
                message=f"Column {text.body} has a device-neutral name.",
            )  # fmt: skip
    if any(reference.name.startswith(_PROFILERS) for reference in source.references):
        for attribute in source.methods:
            if _COLUMN.fullmatch(attribute.attr.value) and source.called(attribute) is None:
                new = attribute.attr.value.replace("cuda", "device")
                yield Proposal(
                    rule=RULE, span=source.span(attribute.attr), replacements=(renamed(source, attribute.attr, new),),
                    message=f"`.{attribute.attr.value}` of a profiler's event has a device-neutral name.",
                )  # fmt: skip
    for reference in uses_of(source, *_ACTIVITIES):
        yield Proposal(
            rule=RULE, span=source.span(reference.node),
            message="`ProfilerActivity.CUDA` records nothing on an NPU and was left.",
            action="Use torch_npu.profiler.profile with torch_npu.profiler.ProfilerActivity.NPU.",
        )  # fmt: skip
    for reference in uses_of(source, *_PROFILES):
        argument = keyword(reference.call, "use_cuda") if reference.call is not None else None
        if argument is not None:
            yield _use_cuda(context, argument)


def _use_cuda(context: Context, argument: cst.Arg) -> Proposal:
    source = context.source
    assert argument.keyword is not None
    start, _ = source.span(argument.keyword)
    end = source.outer_span(argument.value)[1]
    on = is_named(argument.value, "True")
    edit = Replacement(start, end, f"use_device={context.dialect.device_word(context.quote)}")
    return Proposal(
        rule=RULE,
        span=(start, end),
        message="`use_cuda` of the profiler records nothing on an NPU.",
        replacements=(edit,) if on else (),
        safety="unsafe",
        action="Use torch_npu.profiler.profile for device times.",
    )
