"""## What it does
Adds `torch.npu.set_compile_mode(jit_compile=False)` where a script begins: in the main guard, before the
module's first use of a device, or, for scripts that spawn processes, at the beginning of the function that
each process runs, because the mode is a process's own.

## Why it matters
With `jit_compile=True` an NPU compiles an operator for each new shape, which takes seconds; with False it
takes precompiled kernels, which is what changing shapes need. Where all shapes are fixed, True may be faster
on older chips; the choice is worth a measurement.

## Example
```python
if __name__ == '__main__':
    model = Net().cuda()
```

## Use instead
```python
if __name__ == '__main__':
    torch.npu.set_compile_mode(jit_compile=False)
    model = Net().npu()
```

## Fix safety
Unsafe: other kernels are used, which round otherwise. torch_npu only, so the target `agnostic` has a finding.

## References
- Vendor's script conversion tool (msfmktransplt): set_compile_mode and its place in spawned functions
- torch_npu 2.13 public API (`torch_npu.npu.set_compile_mode`)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.entry import entry
from jumar.convert.rules.subject.names import torch_name

RULE = Rule(
    code="JM161",
    name="compile-mode-unset",
    summary="A script leaves open whether operators are compiled for each shape.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the compile mode where the script begins."""
    source = context.source
    if any(node.attr.value == "set_compile_mode" for node in source.nodes(cst.Attribute)):
        return
    begin = entry(source)
    torch = torch_name(source, begin.statement) if begin is not None else None
    if begin is None or torch is None:
        return
    start = source.span(begin.statement)[0]
    agnostic = context.options.target == "agnostic"
    line = f"{torch}.npu.set_compile_mode(jit_compile=False)"
    yield Proposal(
        rule=RULE,
        span=(start, start),
        message=f"Whether operators are compiled for each shape is left open ({begin.place}).",
        replacements=() if agnostic else (begin.insert(source, line),),
        safety="unsafe",
        requires=() if agnostic else context.dialect.requires,
        action="On an NPU call torch.npu.set_compile_mode(jit_compile=False) here." if agnostic else "",
    )
