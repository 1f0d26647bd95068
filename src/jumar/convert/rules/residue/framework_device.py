"""## What it does
Finds where a training framework is told to use GPUs: Lightning's `accelerator='gpu'`, `gpus=`, `strategy='dp'` and
friends, Ray's and Dask's `num_gpus`, `no_cuda`, TensorFlow-like `use_gpu=True` of a Trainer.

## Why it matters
The framework chooses the device itself, so renaming a string has no effect: Lightning's `gpu` is CUDA, Ray hands
out CUDA_VISIBLE_DEVICES.

## Example
```python
trainer = pl.Trainer(accelerator='gpu', devices=4, strategy='ddp')
```

## Use instead
```python
trainer = pl.Trainer(accelerator=NPUAccelerator(), devices=4, strategy='ddp')
```

## Fix safety
No fix: the framework needs an accelerator of its own. For Lightning JM199 writes one, where the arguments of a call are
written out.

## References
- https://lightning.ai/docs/pytorch/stable/extensions/accelerator.html
- https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html (Huawei Ascend: resource `NPU`)
- https://huggingface.co/docs/accelerate (NPU is found by itself)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.api.lightning_accelerator import RULE as LIGHTNING
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM134",
    name="framework-device",
    summary="A framework is told to use GPUs.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_LIGHTNING = (
    "Pass the class NPUAccelerator of `jumar rule JM199` here, which the conversion writes where a call of Trainer "
    "names its accelerator itself."
)
_RAY = "Ask for the resource NPU (resources={'NPU': n}), which Ray knows on Ascend machines."
_TRAINERS = frozenset({"Trainer", "Fabric", "LightningLite"})
_RAY_OPTIONS = frozenset({"num_gpus", "num_gpus_per_worker", "num_gpus_per_learner", "use_gpu"})
_GPU_STRATEGIES = frozenset({"dp", "ddp2", "fsdp_native", "fsdp", "deepspeed", "bagua", "colossalai"})


def find(context: Context) -> Iterator[Proposal]:
    """Report arguments by which a framework chooses GPUs."""
    source = context.source
    lightning = _imports(source, ("pytorch_lightning", "lightning"))
    ray = _imports(source, ("ray",))
    told = {proposal.span for proposal in context.proposals if proposal.rule.code == LIGHTNING.code}
    for argument in source.nodes(cst.Arg):
        call = source.parent(argument)
        if argument.keyword is None or not isinstance(call, cst.Call) or source.span(argument.value) in told:
            continue
        found = _judge(source, argument, argument.keyword.value, call, lightning=lightning, ray=ray)
        if found is not None:
            message, action, severity = found
            yield Proposal(
                rule=RULE, span=source.span(argument), severity=severity, confidence="likely",
                message=message, action=action,
            )  # fmt: skip


def _imports(source: Source, packages: tuple[str, ...]) -> bool:
    return any(
        (source.code(alias.name).partition(".")[0] in packages)
        if isinstance(parent := source.parent(alias), cst.Import)
        else isinstance(parent, cst.ImportFrom)
        and parent.module is not None
        and source.code(parent.module).partition(".")[0] in packages
        for alias in source.nodes(cst.ImportAlias)
    )


def _judge(
    source: Source, argument: cst.Arg, name: str, call: cst.Call, *, lightning: bool, ray: bool
) -> tuple[str, str, Severity] | None:
    text = literal(source, argument.value)
    word = text.body if text is not None and text.num_fields == 0 else ""
    code = f"`{name}={' '.join(source.code(argument.value).split())[:40]}`"
    if name == "accelerator" and word in ("gpu", "cuda"):
        return f"{code} makes Lightning choose CUDA.", _LIGHTNING, Severity.WARNING
    if _is_nothing(argument.value):
        return None
    if lightning and callee_name(call) in _TRAINERS:
        return _lightning(name, word, code)
    if ray and name in _RAY_OPTIONS:
        return f"{code} makes Ray hand out GPUs.", _RAY, Severity.WARNING
    return _other(name, argument, call, code)


def _lightning(name: str, word: str, code: str) -> tuple[str, str, Severity] | None:
    if name in ("gpus", "auto_select_gpus", "num_gpus"):
        return f"{code} makes Lightning choose CUDA.", _LIGHTNING, Severity.WARNING
    if name == "strategy" and (word in _GPU_STRATEGIES or word.startswith(("deepspeed", "fsdp"))):
        return f"{code} is a strategy of Lightning's for GPUs.", _LIGHTNING, Severity.ADVICE
    return None


def _other(name: str, argument: cst.Arg, call: cst.Call, code: str) -> tuple[str, str, Severity] | None:
    if name in ("no_cuda", "use_cuda") and "TrainingArguments" in callee_name(call):
        return f"{code} speaks of CUDA; the NPU is found without it.", "Use use_cpu instead.", Severity.ADVICE
    if name == "use_gpu" and is_named(argument.value, "True"):
        return f"{code} asks for a GPU.", "Check what reads it: on an NPU it may mean CUDA.", Severity.ADVICE
    return None


def _is_nothing(node: cst.BaseExpression) -> bool:
    """Tell whether a value is 0, None or False."""
    return (isinstance(node, cst.Integer) and node.value == "0") or is_named(node, "None", "False")
