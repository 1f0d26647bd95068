"""Edits that bring a plain training step to mixed precision: autocast around it, and a scaled loss."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.manual.program.training_step import StepError, TrainingStep, function_of, stepped_after
from jumar.convert.rules.subject.code import (
    Statement,
    lines_after,
    lines_before,
    suite_of,
    wrapped,
)  # fmt: skip
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import is_free
from jumar.convert.syntax.source import Source

_LIBRARIES = (
    "torch.cuda.amp", "torch.amp", "torch.autocast", "torch.npu.amp", "torch_npu.npu.amp", "apex", "deepspeed",
    "accelerate", "pytorch_lightning", "lightning", "transformers.Trainer", "timm.utils.NativeScaler",
    "torch.GradScaler", "torch.distributed.fsdp", "torch.distributed.pipelining", "torch.distributed.rpc",
    "torch.distributed.autograd",
)  # fmt: skip
_NAMES = ("scaler", "grad_scaler", "loss_scaler")


def is_mixed(source: Source) -> bool:
    """Tell whether a file has mixed precision already, or leaves it to a library that decides."""
    names = [reference.name for reference in source.references]
    names += [binding.qualified or "" for scope in source.tree.own_scopes.values()
              for bindings in scope.bindings.values() for binding in bindings]  # fmt: skip
    return any(name == library or name.startswith(f"{library}.") for name in names for library in _LIBRARIES)


def scaler_name(source: Source) -> str:
    """Return a name for the scaler that nothing in the file has. Raises StepError when there is none."""
    for name in _NAMES:
        if is_free(source, name):
            return name
    raise StepError("the names scaler, grad_scaler and loss_scaler are taken")


def scaled(source: Source, step: TrainingStep, scaler: str) -> Iterator[Replacement]:
    """Yield the edits that scale the loss, unscale gradients before they are clipped, and step through the scaler."""
    start, end = source.outer_span(step.loss)
    yield Replacement(start, start, f"{scaler}.scale(")
    yield Replacement(end, end, ")")
    yield from stepped_after(source, step.steps, scaler)
    optimizers = dict.fromkeys(
        source.code(call.func.value) for call in step.steps if isinstance(call.func, cst.Attribute)
    )
    for clip in step.clips:
        yield lines_before(source, clip, *(f"{scaler}.unscale_({name})" for name in optimizers))


def under_autocast(source: Source, step: TrainingStep, autocast: str) -> tuple[Replacement, ...]:
    """Return the edits that put the forward pass into `with autocast:`."""
    return wrapped(source, step.first, step.last, f"with {autocast}:")


def making(context: Context, step: TrainingStep, code: str) -> tuple[tuple[Replacement, ...], tuple[str, ...]]:
    """Return how a scaler is made: the insertion behind the optimizer's making, or a statement the module needs.

    The scaler has to outlive the loop. Where the optimizer is made elsewhere, the scaler is a variable of the
    module, so that every caller of the function finds it.
    """
    source = context.source
    optimizer = step.steps[0].func
    assert isinstance(optimizer, cst.Attribute)
    made = _made_here(source, step, optimizer.value)
    if made is not None:
        return (lines_after(source, made, code),), ()
    around = _outermost_loop(source, step)
    if isinstance(function_of(source, step.backward), cst.Module) and around is not None:
        return (lines_before(source, around, code),), ()
    return (), (code,)


def _made_here(source: Source, step: TrainingStep, optimizer: cst.BaseExpression) -> cst.SimpleStatementLine | None:
    """Return the statement that makes the optimizer, where it runs before the step in the same function and once."""
    if not isinstance(optimizer, cst.Name):
        return None
    made = [
        statement
        for statement in source.nodes(cst.Assign)
        if any(isinstance(t.target, cst.Name) and t.target.value == optimizer.value for t in statement.targets)
        and source.scope(statement).home(optimizer.value) is source.scope(optimizer).home(optimizer.value)
    ]
    if len(made) != 1 or function_of(source, made[0]) is not function_of(source, step.backward):
        return None
    line = source.parent(made[0])
    if not isinstance(line, cst.SimpleStatementLine) or source.span(line)[0] > source.span(step.backward)[0]:
        return None
    suite = suite_of(source, line)
    inside = [step.backward, *source.ancestors(step.backward)]
    return line if any(statement in inside for statement in suite) else None


def _outermost_loop(source: Source, step: TrainingStep) -> Statement | None:
    found: Statement | None = None
    for around in source.ancestors(step.backward):
        if isinstance(around, cst.FunctionDef):
            break
        if isinstance(around, (cst.For, cst.While)):
            found = around
    return found
