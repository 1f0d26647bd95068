"""## What it does
Turns `torch.cuda.amp` into the device-neutral `torch.amp` with `'npu'` as its device: `autocast`,
`GradScaler`, `custom_fwd` and `custom_bwd`, however they were imported. Positional arguments of
`autocast` become keywords, because the device now comes first. `torch.amp.GradScaler()` without a
device gets one, because its default is CUDA.

A name that is passed around as a value keeps its signature instead: it becomes the one of
`torch_npu.npu.amp`, which takes the same arguments. For `--target agnostic` it is left and reported.

## Why it matters
`torch.cuda.amp` is deprecated and means CUDA: on an NPU its autocast does nothing and its scaler
disables itself with a warning, so that float16 training loses its small gradients silently.

`torch.is_autocast_enabled()` and `torch.get_autocast_gpu_dtype()` ask for CUDA's autocast, too: code that runs a
forward again (activation checkpointing) restores autocast by them, and computed in float32 without it.

## Example
```python
from torch.cuda.amp import autocast, GradScaler
scaler = GradScaler()
with autocast(use_amp):
    loss = model(x)
```

## Use instead
```python
from torch.amp import autocast, GradScaler
scaler = GradScaler('npu')
with autocast('npu', enabled=use_amp):
    loss = model(x)
```

## Fix safety
Safe: the same arguments are evaluated once, in the same order.

## References
- https://pytorch.org/docs/stable/amp.html
- torch_npu 2.13 public API (`torch_npu.npu.amp`)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import (
    Context,
    first_argument,
    has_star,
    keyword,
    last_argument,
    renamed,
    uses_of,
)
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM106",
    name="cuda-amp",
    summary="Mixed precision names CUDA (torch.cuda.amp, or a GradScaler without a device).",
    severity=Severity.ERROR,
    doc=__doc__,
    safety="safe",
)

AMP_NAMES = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
_SUBMODULES = ("autocast_mode", "grad_scaler")
_AUTOCAST_PARAMETERS = ("enabled", "dtype", "cache_enabled")
_SCALERS = ("torch.amp.GradScaler", "torch.GradScaler", "torch.amp.grad_scaler.GradScaler")

_QUERIES = {
    "torch.is_autocast_enabled": "is_autocast_enabled",
    "torch.set_autocast_enabled": "set_autocast_enabled",
    "torch.get_autocast_gpu_dtype": "get_autocast_dtype",
    "torch.set_autocast_gpu_dtype": "set_autocast_dtype",
}
"""State of autocast that means CUDA without a device -> the name that takes one first."""

Route = Literal["neutral", "vendor"]
"""`neutral`: torch.amp with a device argument; `vendor`: torch_npu.npu.amp with the same signature."""


def amp_name(qualified: str) -> str | None:
    """Return `autocast` for `torch.cuda.amp.autocast` and `torch.cuda.amp.autocast_mode.autocast`, else None."""
    parts = qualified.split(".")
    if parts[:3] != ["torch", "cuda", "amp"]:
        return None
    rest = parts[4:] if len(parts) > 4 and parts[3] in _SUBMODULES else parts[3:]
    return rest[0] if len(rest) == 1 and rest[0] in AMP_NAMES else None


@dataclass
class AmpPlan:
    """For each import of something of torch.cuda.amp, the route all of its uses can take together."""

    routes: dict[cst.CSTNode, Route] = field(default_factory=dict)

    def route(self, alias: cst.CSTNode) -> Route:
        """Return the route of an import item; one that nothing here uses keeps its signature for others."""
        return self.routes.get(alias, "vendor")


def plan(source: Source) -> AmpPlan:
    """Decide the route of each import item that brings names of torch.cuda.amp."""
    found = AmpPlan()
    for reference in source.references:
        root = reference.chain[0]
        if not reference.names[0].startswith("torch.cuda.amp") or not isinstance(root, cst.Name):
            continue
        bindings = source.scope(root).bindings_of(root.value)
        # Other files that take the name from this one go on calling it with the signature it had.
        own = root.value not in source.facts.passed_on
        neutral = own and reference.certain and len(bindings) == 1 and _is_convertible(source, reference)
        for binding in bindings:
            if not neutral or found.routes.get(binding.node) == "vendor":
                found.routes[binding.node] = "vendor"
            else:
                found.routes[binding.node] = "neutral"
    return found


def _is_convertible(source: Source, reference: Reference) -> bool:
    """Tell whether this use can take a device argument, or is the type and not the function."""
    name = amp_name(reference.name)
    if name is None:
        return False
    if reference.call is not None:
        return name != "autocast" or not has_star(reference.call, "*")
    parent = source.parent(reference.node)
    if isinstance(parent, cst.Decorator):
        return name in ("custom_fwd", "custom_bwd")
    if source.enclosing(reference.node, cst.Annotation) is not None:
        return True
    call = source.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and source.qualified(call.func) == "builtins.isinstance"


def find(context: Context) -> Iterator[Proposal]:
    """Propose the device-neutral form of every use of torch.cuda.amp."""
    routes = plan(context.source)
    for reference in context.source.references:
        if amp_name(reference.name) is not None or reference.name.startswith("torch.cuda.amp"):
            yield from _use(context, reference, routes)
    yield from _scalers_without_device(context)
    yield from _states_without_device(context)


def _use(context: Context, reference: Reference, routes: AmpPlan) -> Iterator[Proposal]:
    source = context.source
    span = source.span(reference.node)
    if context.covered(span):
        return
    name, dotted = amp_name(reference.name), "torch.cuda" in reference.names[1:]
    if not reference.certain and dotted:
        yield Proposal(
            rule=RULE, span=span, severity=Severity.WARNING, confidence="possible",
            message=f"`{source.code(reference.node)}` has rival definitions, so it was left.",
            action="Give the two meanings two names.",
        )  # fmt: skip
    elif dotted and name is not None and _is_convertible(source, reference):
        cuda = reference.chain[reference.names.index("torch.cuda")]
        assert isinstance(cuda, cst.Attribute)
        cut = Replacement(source.outer_span(cuda.value)[1], source.span(cuda)[1], "")
        yield _proposal(context, reference, [cut, *_device(context, reference, name)])
    elif dotted:
        cuda = reference.chain[reference.names.index("torch.cuda")]
        assert isinstance(cuda, cst.Attribute)
        yield _as_value(context, reference, cuda)
    elif name is not None and reference.names[0] != "torch.cuda" and _neutral(source, reference, routes):
        edits = _device(context, reference, name)
        if edits:
            yield _proposal(context, reference, edits)


def _as_value(context: Context, reference: Reference, cuda: cst.Attribute) -> Proposal:
    """Keep the signature of a function that is passed around, where the target has one like it."""
    if context.dialect.target == "npu":
        return _proposal(context, reference, [renamed(context.source, cuda.attr, "npu")])
    return Proposal(
        rule=RULE, span=context.source.span(reference.node),
        message=f"`{context.source.code(reference.node)}` is passed on and its user gives no device, so it was left.",
        action="Pass functools.partial(torch.amp.autocast, device_type) and the like instead.",
    )  # fmt: skip


def _neutral(source: Source, reference: Reference, routes: AmpPlan) -> bool:
    root = reference.chain[0]
    assert isinstance(root, cst.Name)
    bindings = source.scope(root).bindings_of(root.value)
    return len(bindings) == 1 and bindings[0].kind == "import" and routes.route(bindings[0].node) == "neutral"


def _proposal(context: Context, reference: Reference, edits: list[Replacement]) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(reference.node),
        message=f"`{reference.name}` means CUDA; mixed precision now names its device.",
        replacements=tuple(edits),
    )


def _device(context: Context, reference: Reference, name: str) -> list[Replacement]:
    """Return the insertions that give the use its device."""
    source, call = context.source, reference.call
    device = context.dialect.device_word(context.quote)
    if name in ("custom_fwd", "custom_bwd"):
        if call is not None:
            return [last_argument(source, call, f"device_type={device}")]
        if not isinstance(source.parent(reference.node), cst.Decorator):
            return []
        end = source.outer_span(reference.node)[1]
        return [Replacement(end, end, f"(device_type={device})")]
    if call is None:
        return []
    edits = [first_argument(source, call, device)]
    if name == "autocast":
        for parameter, argument in zip(_AUTOCAST_PARAMETERS, call.args, strict=False):
            if argument.keyword is None and not argument.star:
                at = source.span(argument)[0]
                edits.append(Replacement(at, at, f"{parameter}="))
    return edits


def _scalers_without_device(context: Context) -> Iterator[Proposal]:
    source = context.source
    for reference in uses_of(source, *_SCALERS):
        call = reference.call
        if context.covered(source.span(reference.node)):
            continue
        if call is None or keyword(call, "device") or has_star(call, "**") or has_star(call, "*"):
            continue
        if any(argument.keyword is None for argument in call.args):
            continue
        yield Proposal(
            rule=RULE,
            span=source.span(reference.node),
            message="A GradScaler without a device is one for CUDA; it now names its device.",
            replacements=(first_argument(source, call, context.dialect.device_word(context.quote)),),
        )


def _states_without_device(context: Context) -> Iterator[Proposal]:
    """Give a device to what asks for, or sets, autocast's state: code that runs a forward again restores it by this."""
    source = context.source
    for reference in source.references:
        new = _QUERIES.get(reference.name)
        if new is None or context.covered(source.span(reference.node)):
            continue
        call, node = reference.call, reference.node
        if call is not None and (_names_device(source, call) or has_star(call, "*") or has_star(call, "**")):
            continue
        edits: list[Replacement] = []
        if call is not None and reference.certain and (_leaf(node) == new or isinstance(node, cst.Attribute)):
            edits = [first_argument(source, call, context.dialect.device_word(context.quote))]
            if isinstance(node, cst.Attribute) and _leaf(node) != new:
                edits.insert(0, renamed(source, node.attr, new))
        yield Proposal(
            rule=RULE,
            span=source.span(node),
            severity=None if edits else Severity.WARNING,
            message=f"`{source.code(node)}` without a device means autocast of CUDA"
            + ("; it now names its device." if edits else ", so it was left."),
            replacements=tuple(edits),
            action="" if edits else f"Call torch.{new} with the device's type as its first argument.",
        )


def _leaf(node: cst.Name | cst.Attribute) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else node.value


def _names_device(source: Source, call: cst.Call) -> bool:
    """Tell whether a call gives a device: `set_autocast_enabled` takes it before the value, the others alone."""
    if keyword(call, "device_type") is not None:
        return True
    setter = (source.qualified(call.func) or "").rpartition(".")[2].startswith("set_")
    return len(call.args) > (1 if setter else 0)
