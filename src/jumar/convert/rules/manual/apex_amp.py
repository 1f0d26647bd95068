"""## What it does
Replaces apex.amp by torch.amp: `amp.initialize` becomes a `GradScaler`, `with amp.scale_loss(...)` becomes
`scaler.scale(loss).backward()`, the optimizer steps through the scaler, gradients are unscaled where
`amp.master_params` were clipped, the statements that compute the loss run under `autocast`, and
`amp.state_dict` becomes the scaler's. The scaler is made where apex was initialized; where other functions
use it, or the branch may not be taken, the module has a disabled one first, and autocast asks the scaler
whether it is enabled. A file is rewritten as a whole or, where something has no counterpart (several
losses, registered functions), reported and left.

`opt_level` 'O0' disables the scaler. O1, O2 and O3 become the same: weights stay in float32 and autocast
chooses by operator, which is O1; O2 kept weights in float16 with copies in float32. A number as
`loss_scale` becomes the scale to start from, which does not grow; an expression is dropped, with a
finding, because it may be 'dynamic'.

## Why it matters
apex is CUDA code and no longer maintained; Ascend's own apex has to be built for the very versions of
PyTorch and torch_npu, and torch.amp comes with them.

## Example
```python
from apex import amp
model, optimizer = amp.initialize(model.cuda(), optimizer, opt_level='O2')
for x, y in loader:
    loss = criterion(model(x), y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
```

## Use instead
```python
model, optimizer = model.npu(), optimizer
scaler = torch.amp.GradScaler('npu')
for x, y in loader:
    with torch.amp.autocast('npu', enabled=scaler.is_enabled()):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety
Unsafe: other operators run in float16 than under O2, evaluation runs in float32, checkpoints hold another
`amp` state, which apex's cannot be read into.

## References
- PyTorch network model porting and training guide: mixed precision (O1, O2, static and dynamic loss scale)
- https://pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.manual.program import mixed_precision as mixed
from jumar.convert.rules.manual.program.apex_uses import ApexUses, Initialize, ScaledBackward, apex_uses
from jumar.convert.rules.manual.program.training_step import (
    StepError,
    forward_pass,
    function_of,
    optimizer_steps,
    stepped_after,
)  # fmt: skip
from jumar.convert.rules.subject.code import (
    deleted,
    indent_of,
    lines_after,
    lines_before,
    statement_of,
    suite_of,
    wrapped,
)  # fmt: skip
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.subject.names import torch_name
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM156",
    name="apex-amp",
    summary="Mixed precision comes from apex.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose torch.amp for all of a file's uses of apex.amp together."""
    source = context.source
    first = next((ref for ref in source.references if ref.name.startswith("apex.amp")), None)
    if first is None:
        return
    try:
        yield _replaced(context, apex_uses(source))
    except StepError as error:
        yield Proposal(
            rule=RULE,
            span=source.span(first.node),
            message=f"apex.amp was left: {error}.",
            action="Write torch.amp's autocast and GradScaler by hand, or build Ascend's apex.",
        )
        return
    yield from _dropped_scales(context)


def _replaced(context: Context, uses: ApexUses) -> Proposal:
    """Return the proposal for the whole file. Raises StepError where a part has another form."""
    source = context.source
    torch = torch_name(source, uses.references[0].node)
    if torch is None:
        raise StepError("torch is not imported under a name here")
    if not uses.initialize or not uses.backward:
        raise StepError("only a part of its use is in this file")
    scaler = mixed.scaler_name(source)
    make = f"{torch}.amp.GradScaler({context.dialect.device_word(context.quote)}"
    local = len(uses.initialize) == 1 and _reaches(source, uses)
    disabled = () if local else (f"{scaler} = {make}, enabled=False)",)
    if disabled and torch_name(source, source.module) != torch:
        raise StepError("torch is not imported at the top of the module")
    replacements = [
        *_making(source, uses, scaler, make, local=local),
        *(edit for block in uses.backward for edit in _backward(source, block, scaler)),
        *_forward(context, uses, scaler, torch),
        *_steps(source, uses, scaler),
        *_master(source, uses, scaler),
        *(Replacement(*source.span(ref.chain[-2]), scaler) for ref in uses.states),
        *_imports(source),
    ]
    return Proposal(
        rule=RULE,
        span=source.span(uses.initialize[0].call.func),
        message="Mixed precision comes from apex; it comes from torch.amp now.",
        replacements=tuple(dict.fromkeys(replacements)),
        safety="unsafe",
        requires=(*context.dialect.requires, *disabled),
        evidence={"scaler": scaler},
    )


def _making(source: Source, uses: ApexUses, scaler: str, make: str, *, local: bool) -> Iterator[Replacement]:
    """Yield the edits that make the scaler where apex was initialized; one that is not local is the module's."""
    for initialize in uses.initialize:
        assignment = f"{scaler} = {make}{_options(source, initialize)})"
        is_global = not local and isinstance(function_of(source, initialize.line), cst.FunctionDef)
        lines = ([f"global {scaler}"] if is_global else []) + [assignment]
        inputs = ", ".join(source.code(arg.value) for arg in initialize.inputs)
        if _squeezed(inputs) == _squeezed(source.code(initialize.targets)):
            indent = indent_of(source, initialize.line)
            yield Replacement(*source.span(initialize.line), f"{source.text.newline}{indent}".join(lines))
        else:
            yield from _kept(source, initialize)
            yield lines_after(source, initialize.line, *lines)


def _kept(source: Source, initialize: Initialize) -> Iterator[Replacement]:
    """Yield the edits that leave of `amp.initialize(a, b, option)` its inputs `a, b`."""
    inputs = initialize.inputs
    if not inputs or inputs != list(initialize.call.args[: len(inputs)]):
        raise StepError("amp.initialize is called in a form that is not rewritten")
    start, end = source.span(initialize.call)
    first = inputs[0].value if inputs[0].keyword is None else inputs[0]
    yield Replacement(start, source.span(first)[0], "")
    yield Replacement(source.outer_span(inputs[-1].value)[1], end, "")


def _squeezed(text: str) -> str:
    return "".join(text.split()).strip("()")


def _reaches(source: Source, uses: ApexUses) -> bool:
    """Tell whether the initialization runs before every use, in the same function."""
    line = uses.initialize[0].line
    suite = suite_of(source, line)
    for reference in uses.references:
        statements = [reference.node, *source.ancestors(reference.node)]
        if function_of(source, reference.node) is not function_of(source, line):
            return False
        if not any(node in suite for node in statements) or source.span(reference.node) < source.span(line):
            return False
    return True


def _options(source: Source, initialize: Initialize) -> str:
    """Return the scaler's options that stand for those of amp.initialize."""
    options = ""
    scale = keyword(initialize.call, "loss_scale")
    if scale is not None and isinstance(scale.value, (cst.Integer, cst.Float)):
        options += f", init_scale={float(source.code(scale.value))}, growth_interval=2**31 - 1"
    enabled = keyword(initialize.call, "enabled")
    level = keyword(initialize.call, "opt_level")
    tests = [source.code(enabled.value)] if enabled is not None else []
    if level is not None:
        text = source.code(level.value)
        constant = isinstance(level.value, cst.SimpleString)
        if constant and level.value.evaluated_value == "O0":  # type: ignore[attr-defined]  # a string, as just tested
            tests = ["False"]
        elif not constant:
            tests.append(f"{text} != 'O0'")
    return options + (f", enabled={' and '.join(tests)}" if tests else "")


def _backward(source: Source, block: ScaledBackward, scaler: str) -> Iterator[Replacement]:
    assert isinstance(block.backward.func, cst.Attribute)
    start, end = source.span(block.block)[0], source.outer_span(block.backward.func.value)[1]
    yield Replacement(start, end, f"{scaler}.scale({source.code(block.loss)})")


def _forward(context: Context, uses: ApexUses, scaler: str, torch: str) -> Iterator[Replacement]:
    source = context.source
    header = f"with {torch}.amp.autocast({context.dialect.device_word(context.quote)}, enabled={scaler}.is_enabled()):"
    seen: set[int] = set()
    for block in uses.backward:
        first, last = forward_pass(source, block.block, block.loss)
        if id(first) not in seen:
            seen.add(id(first))
            yield from wrapped(source, first, last, header)


def _steps(source: Source, uses: ApexUses, scaler: str) -> Iterator[Replacement]:
    functions = {id(f): f for f in (function_of(source, block.block) for block in uses.backward)}
    for function in functions.values():
        steps = list(optimizer_steps(source, function))
        if not steps or any(call.args for call in steps):
            raise StepError("the optimizer does not step in the function of the backward pass")
        yield from stepped_after(source, steps, scaler)


def _master(source: Source, uses: ApexUses, scaler: str) -> Iterator[Replacement]:
    for call in uses.master:
        optimizer = source.code(call.args[0].value)
        statement = statement_of(source, call)
        if statement is None:
            raise StepError("gradients are clipped in a one-line suite")
        yield lines_before(source, statement, f"{scaler}.unscale_({optimizer})")
        text = f"[p for group in {optimizer}.param_groups for p in group['params']]"
        yield Replacement(*source.span(call), text)


def _imports(source: Source) -> Iterator[Replacement]:
    """Yield the deletion of `from apex import amp` where it is a statement of its own in the module."""
    for node in source.nodes(cst.ImportFrom):
        line = source.parent(node)
        if not isinstance(line, cst.SimpleStatementLine) or source.parent(line) is not source.module:
            continue
        if isinstance(node.names, cst.ImportStar) or len(node.names) != 1 or len(line.body) != 1:
            continue
        if isinstance(node.module, cst.Name) and node.module.value == "apex" and node.names[0].evaluated_name == "amp":
            yield deleted(source, line)


def _dropped_scales(context: Context) -> Iterator[Proposal]:
    """Report loss scales that are computed, and so were not carried over."""
    source = context.source
    for reference in source.references:
        scale = keyword(reference.call, "loss_scale") if reference.call is not None else None
        if reference.name != "apex.amp.initialize" or scale is None or is_named(scale.value, "None"):
            continue
        if not isinstance(scale.value, (cst.Integer, cst.Float, cst.SimpleString)):
            yield Proposal(
                rule=RULE,
                span=source.span(scale),
                severity=Severity.ADVICE,
                message=f"The loss scale `{source.code(scale.value)}` was dropped: the scaler adapts its own.",
                action="For a fixed scale give the GradScaler init_scale and a growth_interval that is never reached.",
            )
