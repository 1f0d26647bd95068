"""`Kernel`: a Triton kernel of a source file, with what triton-ascend is documented to lack for what it uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.base.findings import Location
from jumar.convert.assess import triton_limits
from jumar.convert.rules.residue.triton_kernel import kernels_of
from jumar.convert.syntax.source import Source

_CONFIG = frozenset({"triton.Config", "triton.runtime.autotuner.Config"})


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function with `@triton.jit`. A limit is a sentence without its end: `tl.sort takes ...`."""

    name: str
    where: Location
    limits: tuple[tuple[str, Location], ...]
    """Each limit once, with the first place that it concerns."""


def triton_kernels(source: Source) -> tuple[Kernel, ...]:
    """Return the Triton kernels of a file."""
    return tuple(_kernel(source, node) for node in kernels_of(source))


def _kernel(source: Source, node: cst.FunctionDef) -> Kernel:
    limits: dict[str, Location] = {}
    for text, where in (*_of_body(source, node), *_of_configurations(source, node)):
        limits.setdefault(text, where)
    return Kernel(node.name.value, source.location(node.name), tuple(limits.items()))


def _of_body(source: Source, kernel: cst.FunctionDef) -> Iterator[tuple[str, Location]]:
    for reference in source.references:
        if source.enclosing(reference.node, cst.FunctionDef) is kernel:
            for text in triton_limits.of_use(reference.name, _keywords(reference.call)):
                yield text, source.location(reference.node)


def _of_configurations(source: Source, kernel: cst.FunctionDef) -> Iterator[tuple[str, Location]]:
    """Yield the limits of the `triton.Config`s that are written in the kernel's own decorators."""
    decorators = set(kernel.decorators)
    for call in source.nodes(cst.Call):
        if source.qualified(call.func) in _CONFIG and decorators & set(source.ancestors(call)):
            for keyword in sorted(_keywords(call) & set(triton_limits.CONFIG)):
                yield f"`{keyword}` of triton.Config {triton_limits.CONFIG[keyword]}", source.location(call)


def _keywords(call: cst.Call | None) -> frozenset[str]:
    if call is None:
        return frozenset()
    return frozenset(argument.keyword.value for argument in call.args if argument.keyword is not None)
