"""## What it does
Replaces an optimizer of `torch.optim` (SGD, Adam, AdamW, Adadelta, RMSprop) or of apex (FusedSGD,
FusedAdam) by the vendor's fused one of the same rule, `torch_npu.optim.NpuFused*`. It does so
where the fused one takes every argument that is given, and nothing in the file goes against how it
works: gradients that are set to None, parameter groups added later, closures, bfloat16 parameters.
RMSpropTF, Lamb and AdamP of timm, apex's FusedLAMB, which clips gradients itself, and BertAdam are reported
with their counterpart.

With apex's FusedAdam, whose default is Adam with decoupled weight decay and none of it, the arguments
that differ are written out.

## Why it matters
The fused optimizer keeps parameters, gradients and state in combined tensors and needs a handful of
operators a step, however many parameters there are; PyTorch's needs several for each.

## Example
```python
optimizer = torch.optim.SGD(model.cuda().parameters(), lr=0.1, momentum=0.9)
```

## Use instead
```python
optimizer = torch_npu.optim.NpuFusedSGD(model.npu().parameters(), lr=0.1, momentum=0.9)
```

## Fix safety
Unsafe: results are those of PyTorch's optimizer to rounding, but memory grows (by 70 % of the optimizer's
for AdamW), all parameters must be contiguous float32 or float16 tensors on the NPU when it first steps,
`model.zero_grad()` must not be used, and a state dict must be loaded before the first step.

## References
- PyTorch network model porting and training guide: mixed precision, fused optimizers
- torch_npu 2.13 public API (`torch_npu.optim`)
- Advice lists of the vendor's script conversion tool (msfmktransplt): NpuFused*, memory of AdamW
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.manual.program.training_step import is_optimizer
from jumar.convert.rules.subject.context import Context, last_argument
from jumar.convert.rules.subject.names import words_of
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.scopes import is_named, last_name
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM157",
    name="optimizer-not-fused",
    summary="An optimizer steps parameter by parameter.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_SGD = ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov")
_ADAM = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad")
_RMSPROP = ("params", "lr", "alpha", "eps", "weight_decay", "momentum", "centered")

_TORCH = {
    "SGD": ("NpuFusedSGD", _SGD),
    "Adam": ("NpuFusedAdam", _ADAM),
    "AdamW": ("NpuFusedAdamW", _ADAM),
    "Adadelta": ("NpuFusedAdadelta", ("params", "lr", "rho", "eps", "weight_decay")),
    "RMSprop": ("NpuFusedRMSprop", _RMSPROP),
}
"""PyTorch's optimizers: their fused counterpart and the parameters both take, at the same positions."""

_APEX = {
    "FusedSGD": ("NpuFusedSGD", _SGD, {}),
    "FusedAdam": ("NpuFusedAdamW", ("params", "lr", "betas", "eps", "weight_decay"), {"weight_decay": "0.0"}),
}
"""Optimizers of apex: counterpart, parameters of the same meaning, and apex's defaults that differ, all by keyword."""

_REPORTED = {
    "RMSpropTF": "NpuFusedRMSpropTF", "Lamb": "NpuFusedLamb", "FusedLAMB": "NpuFusedLamb",
    "BertAdam": "NpuFusedBertAdam", "AdamP": "NpuFusedAdamP",
}  # fmt: skip

_REQUIRES_LR = frozenset({"SGD", "FusedSGD"})


def find(context: Context) -> Iterator[Proposal]:
    """Propose the fused counterpart of every optimizer that is made here."""
    obstacle = _obstacle(context)
    for reference in context.source.references:
        if reference.call is None or not reference.certain:
            continue
        package, _, name = reference.name.rpartition(".")
        if package in ("torch.optim", f"torch.optim.{name.lower()}") and name in _TORCH:
            fused, parameters = _TORCH[name]
            yield _proposal(context, reference, fused, obstacle or _refused(reference.call, name, parameters), {})
        elif package.startswith("apex.optimizers") and name in _APEX:
            fused, parameters, defaults = _APEX[name]
            refused = obstacle or _refused(reference.call, name, parameters, by_name=True)
            yield _proposal(context, reference, fused, refused, defaults)
        elif name in _REPORTED and not package.startswith("torch_npu"):
            yield _proposal(
                context, reference, _REPORTED[name], f"{name} has arguments of its own, so compare them", {}
            )


def _refused(call: cst.Call, name: str, parameters: tuple[str, ...], *, by_name: bool = False) -> str:
    """Say which argument the fused optimizer does not take, empty when it takes all."""
    positional = [arg for arg in call.args if arg.keyword is None]
    if any(arg.star for arg in call.args):
        return "its arguments are unpacked here"
    if len(positional) > (1 if by_name else len(parameters)):
        return "it is given more positional arguments than are known to agree"
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    if given - set(parameters):
        return f"the fused one does not take {', '.join(sorted(given - set(parameters)))}"
    if name in _REQUIRES_LR and len(positional) < 2 and "lr" not in given:
        return "the fused one needs lr"
    return ""


def _obstacle(context: Context) -> str:
    """Say what in this file goes against combined parameters, empty when nothing does."""
    source = context.source
    if context.options.target == "agnostic":
        return "it exists in torch_npu only"
    for node in source.nodes(cst.Attribute):
        if node.attr.value == "bfloat16":
            return "it does not take bfloat16 parameters"
        if node.attr.value == "add_param_group" or (node.attr.value == "grad" and _is_cleared(source, node)):
            return f"`{node.attr.value}` is used in a way its combined tensors do not follow"
    for call in source.nodes(cst.Call):
        problem = _of_call(source, call)
        if problem:
            return problem
    return ""


def _is_cleared(source: Source, node: cst.Attribute) -> bool:
    target = source.parent(node)
    statement = source.parent(target) if isinstance(target, cst.AssignTarget) else None
    return isinstance(statement, cst.Assign) and is_named(statement.value, "None")


def _of_call(source: Source, call: cst.Call) -> str:
    if not isinstance(call.func, cst.Attribute):
        return ""
    name, on = callee_name(call), call.func.value
    if name == "zero_grad":
        if any(arg.keyword is not None and arg.keyword.value == "set_to_none" for arg in call.args):
            return "its zero_grad does not take set_to_none=True"
        if not is_optimizer(source, on) and words_of(last_name(on)) & {"model", "net", "module", "network"}:
            return "gradients are cleared by the model, and it would not see the new ones"
    if name == "step" and call.args and is_optimizer(source, on):
        return "it steps with a closure"
    return ""


def _proposal(context: Context, reference: Reference, fused: str, refused: str, defaults: dict[str, str]) -> Proposal:
    source, call = context.source, reference.call
    assert call is not None
    edits: list[Replacement] = []
    if not refused:
        edits.append(Replacement(*source.span(reference.node), f"torch_npu.optim.{fused}"))
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        edits += [last_argument(source, call, f"{key}={value}") for key, value in defaults.items() if key not in given]
    return Proposal(
        rule=RULE,
        span=source.span(reference.node),
        message=f"`{reference.name}` steps parameter by parameter; torch_npu.optim.{fused} does it at once"
        + (f". It was left: {refused}." if refused else "."),
        replacements=tuple(edits),
        safety="unsafe",
        severity=Severity.INFO if refused else None,
        requires=("import torch_npu",),
        action="" if not refused else f"Try torch_npu.optim.{fused} where its conditions hold.",
    )
