"""## What it does
Adds the state of the gradient scaler to checkpoints under the key `amp`, beside the optimizer's, and reads
it back behind the optimizer's, if the checkpoint has it. That is done for a scaler the file makes, and for
one that `training-without-loss-scale` adds in the same run.

## Why it matters
A run that goes on from a checkpoint without its scale begins with the initial one: its first steps overflow
and are left out, and the run differs from one that was not interrupted.

## Example
```python
scaler = torch.cuda.amp.GradScaler()
checkpoint = torch.load(path, map_location='cpu')
optimizer.load_state_dict(checkpoint['optimizer'])
torch.save({'state_dict': model.state_dict(), 'optimizer': optimizer.state_dict()}, path)
```

## Use instead
```python
scaler = torch.amp.GradScaler('npu')
checkpoint = torch.load(path, map_location='cpu')
optimizer.load_state_dict(checkpoint['optimizer'])
if 'amp' in checkpoint:
    scaler.load_state_dict(checkpoint['amp'])
torch.save({'state_dict': model.state_dict(), 'optimizer': optimizer.state_dict(), 'amp': scaler.state_dict()}, path)
```

## Fix safety
Unsafe: checkpoints have one more key; older ones can be read as before.

## References
- PyTorch network model porting and training guide: multi-device training, steps 11 and 12
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.manual.program.training_step import function_of, is_optimizer
from jumar.convert.rules.subject.code import default_indent, lines_after
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import pairs, peeled
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM159",
    name="checkpoint-without-scaler",
    summary="Checkpoints leave out the gradient scaler.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_SCALERS = frozenset({"GradScaler", "NativeScaler"})
_MAKERS = frozenset({"JM154"})


@dataclass(frozen=True, slots=True)
class Scaler:
    """A gradient scaler: how it is written, where it is made, and by what (None: the module)."""

    text: str
    made_at: int
    function: cst.CSTNode | None


def find(context: Context) -> Iterator[Proposal]:
    """Propose the scaler's state where the optimizer's is saved and loaded."""
    source = context.source
    scaler = _scaler(context)
    if scaler is None or _is_saved(source, scaler.text):
        return
    for node in source.nodes(cst.Dict):
        element = _optimizer_element(source, node)
        if element is not None:
            yield _saved(context, scaler, element)
    for call in source.nodes(cst.Call):
        key = _loaded(source, call)
        if key is not None:
            yield from _restored(context, scaler, call, key)


def _scaler(context: Context) -> Scaler | None:
    """Return the one scaler of this file, or the one that mixed precision was given in this run."""
    source = context.source
    for proposal in context.proposals:
        if proposal.rule.code in _MAKERS and "scaler" in proposal.evidence:
            name = str(proposal.evidence["scaler"])
            if proposal.evidence["made"] == "module":
                return Scaler(name, 0, None)
            call = next(node for node in source.nodes(cst.Call) if source.span(node) == proposal.span)
            function = function_of(source, call)
            return Scaler(
                name, proposal.replacements[0].start, function if isinstance(function, cst.FunctionDef) else None
            )
    found = list(_made(source))
    return found[0] if len({scaler.text for scaler in found}) == 1 else None


def _made(source: Source) -> Iterator[Scaler]:
    for node in source.nodes(cst.Assign):
        for target in node.targets:
            for name, value in pairs(target.target, node.value):
                made = peeled(value)
                if isinstance(made, cst.Call) and last_name(made.func) in _SCALERS and name:
                    function = function_of(source, node)
                    inside = function if isinstance(function, cst.FunctionDef) else None
                    yield Scaler(source.code(target.target), source.span(node)[0], inside)


def _is_saved(source: Source, scaler: str) -> bool:
    return any(
        isinstance(node.value, (cst.Name, cst.Attribute))
        and node.attr.value in ("state_dict", "load_state_dict")
        and source.code(node.value) == scaler
        for node in source.nodes(cst.Attribute)
    )


def _optimizer_element(source: Source, node: cst.Dict) -> cst.DictElement | None:
    """Return the item `'optimizer': optimizer.state_dict()` of a dictionary that is a checkpoint."""
    for element in node.elements:
        if not isinstance(element, cst.DictElement) or not isinstance(element.value, cst.Call):
            continue
        func = element.value.func
        if isinstance(func, cst.Attribute) and func.attr.value == "state_dict" and is_optimizer(source, func.value):
            return element
    return None


def _loaded(source: Source, call: cst.Call) -> cst.Name | None:
    """Return `checkpoint` of the statement `optimizer.load_state_dict(checkpoint['optimizer'])`, or None."""
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "load_state_dict" and len(call.args) == 1):
        return None
    given = call.args[0].value
    if not isinstance(source.parent(call), cst.Expr) or not is_optimizer(source, call.func.value):
        return None
    return given.value if isinstance(given, cst.Subscript) and isinstance(given.value, cst.Name) else None


def _reaches(source: Source, scaler: Scaler, node: cst.CSTNode) -> bool:
    """Tell whether the scaler has been made, and has its name, where `node` runs."""
    if "." in scaler.text:
        return True
    here = function_of(source, node)
    if scaler.function is None:
        return isinstance(here, cst.FunctionDef) or scaler.made_at < source.span(node)[0]
    return here is scaler.function and scaler.made_at < source.span(node)[0]


def _saved(context: Context, scaler: Scaler, element: cst.DictElement) -> Proposal:
    source, quote = context.source, context.quote
    start, end = source.span(element.key)[0], source.outer_span(element.value)[1]
    text = source.text
    line = text.text[text.line_start(start) : start]
    gap = f",{text.newline}{line}" if not line.strip() else ", "
    item = f"{gap}{quote}amp{quote}: {scaler.text}.state_dict()"
    reaches = _reaches(source, scaler, element)
    return Proposal(
        rule=RULE,
        span=source.span(element.key),
        message="This checkpoint leaves out the gradient scaler" + (_out_of_reach(scaler, reaches)),
        replacements=(Replacement(end, end, item),) if reaches else (),
        safety="unsafe",
        action="" if reaches else "Pass the scaler to this function and save its state_dict.",
    )


def _out_of_reach(scaler: Scaler, reaches: bool) -> str:
    return "." if reaches else f"; `{scaler.text}` is not known here."


def _restored(context: Context, scaler: Scaler, call: cst.Call, checkpoint: cst.Name) -> Iterator[Proposal]:
    source, quote = context.source, context.quote
    expression = source.parent(call)
    line = source.parent(expression) if expression is not None else None
    reaches = _reaches(source, scaler, call) and isinstance(line, cst.SimpleStatementLine)
    key = f"{quote}amp{quote}"
    lines = (
        f"if {key} in {checkpoint.value}:",
        f"{default_indent(source)}{scaler.text}.load_state_dict({checkpoint.value}[{key}])",
    )
    yield Proposal(
        rule=RULE,
        span=source.span(call.func),
        message="The gradient scaler is not read back from the checkpoint" + _out_of_reach(scaler, reaches),
        replacements=(lines_after(source, line, *lines),)
        if reaches and isinstance(line, cst.SimpleStatementLine)
        else (),
        safety="unsafe",
        action="" if reaches else "Load the scaler's state where it is made.",
    )
