"""Tells which operator a call applies: one name for its function, its method and its module."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source

_ALIASES = {
    "reshape": "view", "view": "view", "transpose": "transpose", "swapaxes": "transpose", "swapdims": "transpose",
    "permute": "permute", "contiguous": "contiguous", "flatten": "flatten", "unflatten": "unflatten",
    "cat": "cat", "concat": "cat", "concatenate": "cat", "chunk": "chunk", "split": "split",
    "matmul": "matmul", "bmm": "matmul", "mul": "mul", "multiply": "mul", "div": "div", "add": "add", "sub": "sub",
    "softmax": "softmax", "sigmoid": "sigmoid", "tanh": "tanh", "softplus": "softplus", "silu": "silu",
    "rsqrt": "rsqrt", "sqrt": "sqrt", "pow": "pow", "square": "square", "mean": "mean", "neg": "neg",
    "dropout": "dropout", "masked_fill": "masked_fill", "unsqueeze": "unsqueeze", "size": "size",
    "float": "cast", "type_as": "cast", "to": "cast", "type": "cast", "half": "cast", "identity": "identity",
    "unbind": "unbind", "rand": "rand", "floor": "floor", "floor_": "floor", "bernoulli_": "bernoulli",
    "new_empty": "new_empty",
}  # fmt: skip
"""Last names of functions and methods, and the operator each is."""

_PACKAGES = ("torch.", "torch.nn.functional.", "torch.Tensor.", "torch.special.")

_MODULES = {
    "Softmax": "softmax", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "SiLU": "silu",
    "Dropout": "dropout", "Identity": "identity",
}  # fmt: skip
"""Layers without weights, and the operator each applies."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator and what it is applied to besides the arguments."""

    name: str
    receiver: cst.BaseExpression | None = None
    """The object whose method is called."""
    options: tuple[tuple[str, object], ...] = ()
    """Options that the construction of a layer fixed."""
    module: str | None = None
    """How the layer is written (`self.attn_drop`)."""


def operator_of(source: Source, call: cst.Call) -> Operator | None:
    """Return the operator that a call applies, None for any other call."""
    local = local_function(source, call)
    if local is not None:
        return Operator("local", module=local.name.value)
    qualified = source.qualified(call.func)
    if qualified is not None:
        package, _, name = qualified.rpartition(".")
        known = f"{package}." in _PACKAGES and name in _ALIASES
        return Operator(_ALIASES[name]) if known else None
    layer = _layer(source, call)
    if layer is not None:
        return layer
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _ALIASES:
        return Operator(_ALIASES[call.func.attr.value], receiver=call.func.value)
    return None


def local_function(source: Source, call: cst.Call) -> cst.FunctionDef | None:
    """Return the function of this file that a call by its plain name runs, or None."""
    if not isinstance(call.func, cst.Name):
        return None
    bindings = source.scope(call.func).bindings_of(call.func.value)
    found = bindings[0].node if len(bindings) == 1 else None
    return found if isinstance(found, cst.FunctionDef) else None


def _layer(source: Source, call: cst.Call) -> Operator | None:
    """Return the operator of `self.softmax(x)`, where the class makes `self.softmax = nn.Softmax(dim=-1)` once."""
    func = call.func
    if not (isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"):
        return None
    around = source.enclosing(call, cst.ClassDef)
    made = [] if around is None else assigned_in_class(source, around, func.attr.value)
    if len(made) != 1 or not isinstance(made[0], cst.Call):
        return None
    package, _, name = (source.qualified(made[0].func) or "").rpartition(".")
    if not package.startswith("torch.nn") or name not in _MODULES:
        return None
    return Operator(_MODULES[name], options=_options(made[0], name), module=f"self.{func.attr.value}")


def assigned_in_class(source: Source, around: cst.ClassDef, name: str) -> list[cst.BaseExpression]:
    """Return everything that the methods of a class assign to an attribute of this name."""
    return [
        node.value
        for node in source.nodes(cst.Assign)
        for target in node.targets
        if isinstance(target.target, cst.Attribute)
        and last_name(target.target) == name
        and source.enclosing(node, cst.ClassDef) is around
    ]


def _options(made: cst.Call, name: str) -> tuple[tuple[str, object], ...]:
    if name != "Softmax" or not made.args:
        return ()
    value = made.args[0].value
    if isinstance(value, cst.UnaryOperation) and isinstance(value.expression, cst.Integer):
        return (("dim", -int(value.expression.value)),)
    return (("dim", int(value.value)),) if isinstance(value, cst.Integer) else ()
