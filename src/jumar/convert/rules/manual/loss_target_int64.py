"""## What it does
Casts the classes a loss is given to int32 before they are moved to the device:
`target.to(torch.int32).to(device)`. It does so only where the file shows all of it: the loss is
`CrossEntropyLoss`, `NLLLoss` or their functions, the target is a variable moved to the device in the same
function, and nothing else there needs it as int64 (`one_hot`, embeddings, a model it is passed to).

## Why it matters
Operators on the NPU work on int32 classes; the guide casts them to get rid of operator errors, and the copy
to the device is half as large. Today's torch_npu takes int64 targets, too, and casts them in every step.

## Example
```python
criterion = torch.nn.CrossEntropyLoss()
for images, target in loader:
    target = target.cuda(non_blocking=True)
    loss = criterion(model(images), target)
```

## Use instead
```python
criterion = torch.nn.CrossEntropyLoss()
for images, target in loader:
    target = target.to(torch.int32).npu(non_blocking=True)
    loss = criterion(model(images), target)
```

## Fix safety
Unsafe: the CPU and CUDA kernels of these losses refuse int32 targets, so that the script then trains on an
NPU only; with the target `agnostic` nothing is edited. The loss and its gradients are bit for bit the same.

## References
- PyTorch network model porting and training guide: single-device training, step 5
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.manual.program.losses import loss_calls
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import pairs, parameter_of, torch_name, words_of
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.source import Source
from jumar.operators import has_any

RULE = Rule(
    code="JM150",
    name="loss-target-int64",
    summary="A classification loss is given int64 targets.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_MOVES = frozenset({"to", "cuda", "npu"})
_HARMLESS_METHODS = frozenset(
    {"data", "shape", "device", "dtype", "ndim", "requires_grad", "is_cuda", "is_npu"}
    | {"cpu", "float", "numpy", "tolist", *_MOVES}
)
"""Attributes and methods of a tensor, beside its operators, that work with int32 as with int64."""
_HARMLESS_CALLS = frozenset(
    {"accuracy", "len", "print", "isinstance", "zip", "str", "topk_accuracy", "eq", "sum", "Variable"}
)
_OTHER_TARGETS = frozenset({"mixup", "cutmix", "onehot", "soft", "smoothed"})


def find(context: Context) -> Iterator[Proposal]:
    """Propose the cast at each place where a loss's target is moved to the device."""
    source = context.source
    seen: set[cst.CSTNode] = set()
    for loss in loss_calls(source):
        function = source.enclosing(loss.call, cst.FunctionDef) or source.module
        moves = [move for move in _moves(source, function, loss.target.value) if move not in seen]
        seen.update(moves)
        for move in moves:
            yield _proposal(context, move, _obstacle(context, function, loss.target.value))


def _moves(source: Source, function: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    """Yield the variable in `name = name.to(device)`, once for each such move in `function`."""
    for statement in source.nodes(cst.Assign):
        if (source.enclosing(statement, cst.FunctionDef) or source.module) is not function:
            continue
        for target in statement.targets:
            for left, value in pairs(target.target, statement.value):
                moved = _moved(source, value)
                if left == name and moved is not None and moved.value == name:
                    yield moved


def _moved(source: Source, value: cst.BaseExpression) -> cst.Name | None:
    """Return the variable that an expression moves to a device without changing its type."""
    if not (isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute)):
        return None
    if value.func.attr.value not in _MOVES or not isinstance(value.func.value, cst.Name):
        return None
    if value.func.attr.value == "to" and any(_is_dtype(source, arg) for arg in value.args):
        return None
    return value.func.value


def _is_dtype(source: Source, arg: cst.Arg) -> bool:
    if arg.keyword is not None:
        return arg.keyword.value == "dtype"
    name = source.qualified(arg.value) or ""
    return name.startswith("torch.") or (isinstance(arg.value, cst.Attribute) and arg.value.attr.value == "dtype")


def _obstacle(context: Context, function: cst.CSTNode, name: str) -> str:
    """Say what speaks against int32 targets here, empty when nothing does."""
    source = context.source
    if context.options.target == "agnostic":
        return "losses on the CPU and on CUDA refuse int32 targets"
    if any(words_of(node.value) & _OTHER_TARGETS for node in source.nodes(cst.Name)):
        return "targets may be probabilities here (mixup, soft labels)"
    return _first_need(source, function, name, 0)


def _first_need(source: Source, function: cst.CSTNode, name: str, depth: int) -> str:
    """Say which use of a variable in a function may need int64, empty when none does."""
    reads = (
        node
        for node in source.nodes(cst.Name)
        if node.value == name
        and node not in source.tree.stored
        and (source.enclosing(node, cst.FunctionDef) or source.module) is function
    )
    return next(filter(None, (_needs_int64(source, node, name, depth) for node in reads)), "")


def _needs_int64(source: Source, node: cst.Name, name: str, depth: int) -> str:
    """Say which use of a target may need int64."""
    parent = source.parent(node)
    if isinstance(parent, cst.Attribute):
        return "" if _is_harmless(parent.attr.value) else f"`{name}.{parent.attr.value}` may need int64"
    if isinstance(parent, cst.Arg):
        return _passed(source, parent, depth)
    if isinstance(parent, (cst.Index, cst.SubscriptElement)):
        return f"`{name}` indexes something"
    if isinstance(
        parent, (cst.Comparison, cst.ComparisonTarget, cst.Element, cst.Subscript, cst.FormattedStringExpression)
    ):
        return ""
    return "" if isinstance(parent, (cst.AssignTarget, cst.Annotation, cst.Return)) else f"`{name}` is computed with"


def _is_harmless(name: str) -> bool:
    """Tell whether a method takes int32 as it takes int64: it moves, compares or reduces values, or asks for a size."""
    return name in _HARMLESS_METHODS or has_any(
        name, "view", "may_copy", "copies", "comparison", "reduction", "query", "to_host"
    )


def _passed(source: Source, given: cst.Arg, depth: int) -> str:
    call = source.parent(given)
    if not isinstance(call, cst.Call):
        return ""
    if (
        any(call is loss.call for loss in loss_calls(source))
        or callee_name(call) in _HARMLESS_CALLS
        or _is_harmless(callee_name(call))
    ):
        return ""
    bound = parameter_of(source, call, given)
    if bound is None or depth > 1:
        return f"it is passed to `{source.code(call.func)}`, which may need int64"
    return _first_need(source, *bound, depth + 1)


def _proposal(context: Context, name: cst.Name, obstacle: str) -> Proposal:
    source = context.source
    at = source.span(name)[1]
    module = torch_name(source, name)
    cast = f".to({module}.int32)" if module is not None else ".int()"
    return Proposal(
        rule=RULE,
        span=source.span(name),
        message=f"The loss's target `{name.value}` is moved to the device as int64"
        + (f"; it was left, because {obstacle}." if obstacle else "."),
        replacements=() if obstacle else (Replacement(at, at, cast),),
        safety="unsafe",
        severity=Severity.INFO if obstacle else None,
        action="Cast it with .to(torch.int32) where only the loss needs it." if obstacle else "",
        confidence="possible" if obstacle else "likely",
    )
