"""The losses of a script whose targets are classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.convert.rules.subject.names import argument, assigned_values, peeled
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.operators import has_any

_CLASSES = frozenset(
    f"torch.nn.{module}{name}"
    for module in ("", "modules.", "modules.loss.")
    for name in ("CrossEntropyLoss", "NLLLoss")
)
_FUNCTIONS = frozenset(f"torch.nn.functional.{name}" for name in ("cross_entropy", "nll_loss"))


@dataclass(frozen=True, slots=True, eq=False)
class LossCall:
    """A call of a classification loss and the variable its target comes from."""

    call: cst.Call
    target: cst.Name


def loss_calls(source: Source) -> Iterator[LossCall]:
    """Yield calls of cross entropy and negative log likelihood whose target is a variable, reshaped or not."""
    kinds: dict[str, bool] = {}
    for call in source.nodes(cst.Call):
        if not _is_loss(source, call, kinds):
            continue
        given = argument(call, 1, "target")
        name = _variable(given) if given is not None else None
        if name is not None:
            yield LossCall(call, name)


def _is_loss(source: Source, call: cst.Call, kinds: dict[str, bool]) -> bool:
    if source.qualified(call.func) in _FUNCTIONS:
        return True
    name = last_name(call.func)
    if isinstance(call.func, cst.Call):
        return makes_loss(source, call.func)
    if not name or (isinstance(call.func, cst.Attribute) and not _is_self(call.func.value)):
        return False
    if name not in kinds:
        values = assigned_values(source, name)
        kinds[name] = bool(values) and all(makes_loss(source, value) for value in values)
    return kinds[name]


def _is_self(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "self"


def makes_loss(source: Source, value: cst.BaseExpression) -> bool:
    """Tell whether an expression is a new classification loss, moved to a device or not."""
    made = peeled(value)
    return isinstance(made, cst.Call) and source.qualified(made.func) in _CLASSES


def _variable(node: cst.BaseExpression) -> cst.Name | None:
    """Return the variable behind `target.view(-1)` and the like, None behind anything that changes its values."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _shapes(node.func.attr.value):
        node = node.func.value
    return node if isinstance(node, cst.Name) else None


def _shapes(method: str) -> bool:
    """Tell whether a method gives the same elements in another shape, order or layout."""
    return method == "contiguous" or has_any(method, "reshape", "permutation")
