"""JM187: every name the conversion wrote exists in the release, and takes the arguments it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.findings import Finding
from jumar.migrate.rules.proof import UNKNOWN_NPU_NAME
from jumar.migrate.syntax.source import Source, imported_name
from jumar.migrate.verify.model import Code, Pair
from jumar.migrate.verify.names import exists, release, signature

_ROOTS = ("torch", "torch_npu")
_MODULE_OF_DEVICE = "torch.get_device_module"


@dataclass(frozen=True, slots=True)
class _Written:
    """One place that names something of PyTorch or torch_npu."""

    name: str
    line: int
    call: cst.Call | None


def check(pair: Pair) -> Iterator[Finding]:
    """Report names and calls that are new in the converted file and that the release does not have or take."""
    if pair.before is None or pair.after is None or pair.after.source is None:
        return
    wrong = [(written, complaint) for written in _written(pair.after) if (complaint := _complaint(written))]
    if not wrong or pair.before.source is None:
        return
    known = Counter(_key(pair.before.source, written) for written in _written(pair.before))
    for written, complaint in wrong:
        key = _key(pair.after.source, written)
        if known[key] > 0:
            known[key] -= 1
        else:
            message = f"`{written.name}` {complaint}"
            yield pair.finding(UNKNOWN_NPU_NAME, message, written.line, name=written.name, release=release())


def _key(source: Source, written: _Written) -> str:
    return f"{written.name}({'' if written.call is None else source.code(written.call)})"


def _complaint(written: _Written) -> str | None:
    if not exists(written.name):
        return f"does not exist in release {release()}"
    takes = signature(written.name) if written.call is not None else None
    refused = takes.complaint(written.call) if takes is not None and written.call is not None else None
    return f"does not take these arguments: {refused}" if refused else None


def _written(code: Code) -> Iterator[_Written]:
    source = code.source
    if source is None:
        return
    for alias in source.nodes(cst.ImportAlias):
        name = imported_name(alias, source.parent(alias))
        if name is not None and _is_ours(name):
            yield _Written(name, source.location(alias.name).line or 0, None)
    for reference in source.references:
        if reference.certain and _is_ours(reference.name):
            yield _Written(reference.name, source.location(reference.node).line or 0, reference.call)
    yield from _of_device_module(source)


def _of_device_module(source: Source) -> Iterator[_Written]:
    """Yield the members asked of `torch.get_device_module()`: on an NPU that is `torch.npu`."""
    for node in source.methods:
        value = node.value
        if isinstance(value, cst.Call) and source.qualified(value.func) == _MODULE_OF_DEVICE:
            line = source.location(node).line or 0
            yield _Written(f"torch.npu.{node.attr.value}", line, source.called(node))


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in _ROOTS and "." in name
