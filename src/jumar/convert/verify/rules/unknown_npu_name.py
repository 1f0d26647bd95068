"""## What it does
Looks up every name of `torch.npu`, `torch_npu`, `torch.accelerator`, `torch.amp` and the other modules of
PyTorch that the conversion wrote, in the packaged tables of torch_npu and PyTorch: the name must exist, and
a call must not pass it arguments that its signature does not take.

## Why it matters
The usual way in which converters break code is a name made by replacing a word: `torch.npu.nccl`,
`torch.npu.OutOfMemoryError`. The error shows when the line runs, in the worst case inside an `except`.

## Example
```python
except torch.npu.OutOfMemoryError:
torch.accelerator.synchronize(device=0)
```

## Use instead
```python
except torch.OutOfMemoryError:
torch.accelerator.synchronize(0)
```

## Fix safety
No edit is made.

## References
- torch_npu 2.13 public API (`jumar/soc/data/torch_npu_public_api.json`)
- PyTorch 2.13 (`jumar/convert/model/data/torch_names.json`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.rules.residue.other_release import complaint_of
from jumar.convert.syntax.source import Source, imported_name
from jumar.convert.verify.names import elsewhere, exists, signature
from jumar.convert.verify.pair import Code, Pair

RULE = Rule(
    code="JM187",
    name="unknown-npu-name",
    summary="The conversion wrote a name that the chosen release does not have, or arguments it does not take.",
    severity=Severity.ERROR,
    doc=__doc__,
)


_ROOTS = ("torch", "torch_npu")
_MODULE_OF_DEVICE = "torch.get_device_module"


@dataclass(frozen=True, slots=True)
class _Written:
    """One place that names something of PyTorch or torch_npu."""

    name: str
    line: int
    call: cst.Call | None


def find(pair: Pair) -> Iterator[Finding]:
    """Report names and calls that are new in the converted file and that the release does not have or take."""
    if pair.before is None or pair.after is None or pair.after.source is None:
        return
    wrong = [
        (written, complaint) for written in _written(pair.after) if (complaint := _complaint(written, pair.release))
    ]
    if not wrong or pair.before.source is None:
        return
    known = Counter(_key(pair.before.source, written) for written in _written(pair.before))
    for written, complaint in wrong:
        key = _key(pair.after.source, written)
        if known[key] > 0:
            known[key] -= 1
        else:
            message = f"`{written.name}` {complaint}"
            yield pair.finding(RULE, message, written.line, name=written.name, release=pair.release)


def _key(source: Source, written: _Written) -> str:
    return f"{written.name}({'' if written.call is None else source.code(written.call)})"


def _complaint(written: _Written, release: str) -> str | None:
    if not exists(written.name, release):
        having = elsewhere(written.name)
        return f"does not exist in release {release}{f' (it is in {having})' if having else ''}"
    other = complaint_of(written.name, written.call, release) if written.call is not None else ""
    if other:
        return f"does not take these arguments in release {release}: {other}"
    takes = signature(written.name) if written.call is not None else None
    refused = takes.complaint(written.call) if takes is not None and written.call is not None else None
    return f"does not take these arguments: {refused}" if refused else None


def _written(code: Code) -> Iterator[_Written]:
    source = code.source
    if source is None:
        return
    for alias in source.nodes(cst.ImportAlias):
        name = imported_name(alias, source.parent(alias))
        if name is not None and _is_of_torch(name):
            yield _Written(name, source.location(alias.name).line or 0, None)
    for reference in source.references:
        if reference.certain and _is_of_torch(reference.name):
            yield _Written(reference.name, source.location(reference.node).line or 0, reference.call)
    yield from _of_device_module(source)


def _of_device_module(source: Source) -> Iterator[_Written]:
    """Yield the members asked of `torch.get_device_module()`: on an NPU that is `torch.npu`."""
    for node in source.methods:
        value = node.value
        if isinstance(value, cst.Call) and source.qualified(value.func) == _MODULE_OF_DEVICE:
            line = source.location(node).line or 0
            yield _Written(f"torch.npu.{node.attr.value}", line, source.called(node))


def _is_of_torch(name: str) -> bool:
    return name.partition(".")[0] in _ROOTS and "." in name
