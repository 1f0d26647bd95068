"""## What it does
Sets the device once, before anything uses it: `torch.npu.set_device(0)` as the first statement of the main
guard or of the function that spawned processes run, or before the module's first use of a device. It does
so in scripts that never set it and use one device that the file shows; where it is computed (`args.gpu`,
`LOCAL_RANK`) the place is reported.

## Why it matters
A thread that runs a backward pass or creates a tensor without a device set has initialized device 0; the
guide's FAQ shows the errors of setting another one later ("0 INTERNAL ASSERT", "Error in atexit").

## Example
```python
if __name__ == '__main__':
    model = Net().to('cuda:1')
```

## Use instead
```python
if __name__ == '__main__':
    torch.npu.set_device(1)
    model = Net().to('npu:1')
```

## Fix safety
Unsafe: the device is initialized at once, also in a run that would not have used it.

## References
- PyTorch network model porting and training guide: single-device training, steps 2 and 6; FAQ on set_device
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context, names_any
from jumar.convert.rules.subject.entry import Entry, entry, is_spawning
from jumar.convert.rules.subject.names import argument, torch_name
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM158",
    name="device-never-set",
    summary="A script uses a device and never sets it.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_SETTERS = frozenset({"set_device", "set_device_index", "set_device_idx", "_cuda_setDevice"})
_MOVES = ("cuda", "npu")
_INDEX = re.compile(r"(?:cuda|npu)(:(\d+))?")


def find(context: Context) -> Iterator[Proposal]:
    """Propose to set the device where the script begins."""
    source = context.source
    if any(node.attr.value in _SETTERS for node in source.nodes(cst.Attribute)):
        return
    begin = entry(source)
    if begin is None or _names_no_device(source):
        return
    reason = _computed(source)
    indices = _indices(source)
    torch = torch_name(source, begin.statement)
    if not reason and len(indices) > 1:
        reason = f"devices {', '.join(map(str, sorted(indices)))} are used"
    if not reason and not indices:
        return
    if torch is None:
        reason = reason or "torch has no name there"
    yield _proposal(context, begin, torch or "torch", next(iter(indices), 0), reason)


def _names_no_device(source: Source) -> bool:
    """Tell whether the file is written for any accelerator: what it has of CUDA was left on purpose."""
    return names_any(source, "torch.accelerator", "torch.get_device_module")


def _computed(source: Source) -> str:
    """Say why the device's number is not in the file, empty when it is. Converted words count as the original's."""
    if is_spawning(source) or any("init_process_group" in reference.name for reference in source.references):
        return "every process has its own"
    for call in source.nodes(cst.Call):
        moved_to = argument(call, 0, "device") if callee_name(call) in _MOVES else None
        if moved_to is not None and not isinstance(moved_to, (cst.Integer, cst.SimpleString)):
            return f"it is `{source.code(moved_to)}`"
        if source.qualified(call.func) == "torch.device":
            kind = argument(call, 0, "type")
            if isinstance(kind, (cst.Attribute, cst.Name)):
                return f"it is `{source.code(kind)}`"
        if callee_name(call) == "format" and any(f"{word}:" in source.code(call.func) for word in _MOVES):
            return f"it is `{source.code(call)}`"
    for text in source.nodes(cst.FormattedString):
        found = literal(source, text)
        if found is not None and found.num_fields and found.body in ("cuda:", "npu:"):
            return f"it is `{source.code(text)}`"
    return ""


def _indices(source: Source) -> set[int]:
    """Return the numbers of the devices that are written out; a bare `cuda` or `.cuda()` is device 0."""
    found: set[int] = set()
    for node in source.nodes(cst.SimpleString):
        match = _INDEX.fullmatch(str(node.evaluated_value)) if "b" not in node.prefix.lower() else None
        if match is not None:
            found.add(int(match.group(2) or 0))
    for call in source.nodes(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _MOVES:
            first = call.args[0].value if call.args and call.args[0].keyword is None else None
            found.add(int(first.value, 0) if isinstance(first, cst.Integer) else 0)
    return found


def _proposal(context: Context, begin: Entry, torch: str, index: int, reason: str) -> Proposal:
    source = context.source
    start = source.span(begin.statement)[0]
    setter = context.dialect.counterpart("torch.cuda.set_device").name or ""
    available = context.dialect.counterpart("torch.cuda.is_available").name or ""
    line = f"{setter.replace('torch', torch, 1)}({index})"
    lines = [line]
    if any(node.attr.value == "is_available" for node in source.nodes(cst.Attribute)):
        lines = [f"if {available.replace('torch', torch, 1)}():", f"    {line}"]
    if reason:
        message = f"The device is never set before it is used, and it was not added because {reason}."
    else:
        message = f"The device is set before anything uses it ({begin.place})."
    return Proposal(
        rule=RULE,
        span=(start, start),
        message=message,
        replacements=() if reason else (begin.insert(source, *lines),),
        safety="unsafe",
        requires=context.dialect.requires,
        action="Call torch.npu.set_device with this process's device before anything uses it." if reason else "",
    )
