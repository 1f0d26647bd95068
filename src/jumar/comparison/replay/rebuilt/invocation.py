"""`Invocation`: a recorded call in executable form, the operator and its arguments by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.recording.schema import CallRow, TensorRow


@dataclass(frozen=True, slots=True)
class TensorAt:
    """Stands for a recorded tensor in the arguments of a call."""

    row: TensorRow


@dataclass(frozen=True, slots=True)
class Invocation:
    """An operator and its arguments by the names of its schema; `TensorAt` stands for tensors."""

    operator: torch._ops.OpOverload
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The operator's name: `aten::add.Tensor`."""
        return str(self.operator.name())  # type: ignore[no-untyped-call]

    @property
    def tensors(self) -> list[TensorRow]:
        """Recorded tensors among the arguments, in order."""
        found: list[TensorRow] = []
        self.mapped(lambda at: found.append(at.row))
        return found

    def mapped(self, change: Callable[[TensorAt], Any]) -> dict[str, Any]:
        """Return the arguments with every `TensorAt`, alone or in a list, replaced by what `change` returns."""
        return {name: _mapped(value, change) for name, value in self.values.items()}

    def with_values(self, values: Mapping[str, Any]) -> Invocation:
        """Return the invocation with other values of some arguments."""
        return replace(self, values={**self.values, **values})


def _mapped(value: Any, change: Callable[[TensorAt], Any]) -> Any:
    if isinstance(value, TensorAt):
        return change(value)
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def overload(name: str) -> torch._ops.OpOverload:
    """Return the operator called `aten::add.Tensor`. Raises NotReplayable when this PyTorch has none."""
    namespace, _, rest = name.partition("::")
    base, _, variant = rest.partition(".")
    if namespace == "higher_order":
        raise NotReplayable("other", f"{name} runs Python functions, which a recording does not hold")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    operator = getattr(packet, variant or "default", None) if packet is not None else None
    if not isinstance(operator, torch._ops.OpOverload):
        raise NotReplayable(
            "unknown operator",
            f"{name} is no operator of PyTorch {torch.__version__} as it is here; import the package it comes from",
        )
    return operator


def invocation_of(row: CallRow, operator: torch._ops.OpOverload | None = None) -> Invocation:
    """Return the call of `row`. Raises NotReplayable when an argument cannot be rebuilt."""
    operator = operator or overload(row.name)
    schema = operator._schema.arguments
    recorded = _recorded(row, [argument.name for argument in schema])
    values: dict[str, Any] = {}
    for argument in schema:
        if argument.name in recorded:
            values[argument.name] = decoded(recorded[argument.name], str(argument.real_type), argument.name)
        elif not argument.has_default_value() and not argument.kwarg_only:
            values[argument.name] = _missing(row, argument)
    return Invocation(operator, values)


def _missing(row: CallRow, argument: Any) -> Any:
    kind = str(argument.real_type)
    if kind.startswith("Optional"):
        return None
    if kind.startswith("List"):
        return []
    raise NotReplayable("not recorded", f"{row.name} was recorded without its argument {argument.name}")


def _recorded(row: CallRow, names: list[str]) -> dict[str, Any]:
    """Return scalars, `TensorAt` and lists of these by the names of the schema."""
    try:
        found: dict[str, Any] = json.loads(row.arguments) if row.arguments else {}
    except json.JSONDecodeError as error:
        raise NotReplayable("not recorded", f"its arguments are no JSON: {row.arguments[:60]}") from error
    for tensor in row.inputs:
        place, _, item = tensor.name.removeprefix("input.").partition(".")
        name = names[int(place)] if place.isdigit() and int(place) < len(names) else place
        if not item:
            found[name] = TensorAt(tensor)
            continue
        members = found.setdefault(name, [])
        members += [None] * (int(item) + 1 - len(members))  # gaps are items that are not tensors: None
        members[int(item)] = TensorAt(tensor)
    return found


def call(operator: torch._ops.OpOverload, values: Mapping[str, Any]) -> Any:
    """Call the operator with arguments by name; those that are not given keep their defaults."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    by_position = True
    for argument in operator._schema.arguments:
        if argument.name not in values:
            by_position = False
        elif by_position and not argument.kwarg_only:
            args.append(values[argument.name])
        else:
            kwargs[argument.name] = values[argument.name]
    return operator(*args, **kwargs)


_REFUSED = ("Generator", "Stream", "__torch__", "Storage", "Dimname")


def decoded(value: Any, kind: str, name: str) -> Any:
    """Return the value of an argument of the schema's type `kind` (`Optional[ScalarType]`, `List[int]`).

    Raises NotReplayable for what JSON does not hold (a generator, packed parameters of a quantised layer).
    """
    if kind.startswith("Optional["):
        return None if value is None else decoded(value, kind[len("Optional[") : -1], name)
    if isinstance(value, (list, tuple)):
        inner = kind[len("List[") : -1] if kind.startswith("List[") else kind
        return [item if item is None else decoded(item, inner, name) for item in value]
    if not isinstance(value, str):
        return value
    if kind in _BY_NAME:
        return _named(value, kind, name)
    if kind == "Generator":
        return None
    if kind.startswith(_REFUSED):
        raise NotReplayable("not recorded", f"the argument {name} is a {value}, which a recording does not hold")
    return value if kind == "str" else _number(value, name)


_BY_NAME = ("ScalarType", "Layout", "MemoryFormat", "Device")


def _named(value: str, kind: str, name: str) -> Any:
    if kind == "Device":
        try:
            return torch.device(value)
        except RuntimeError:  # a device this process has no name for: the replay runs elsewhere anyway
            return torch.device("cpu")
    found = getattr(torch, value, None)
    if found is None:
        raise NotReplayable("not recorded", f"the argument {name} is {value}, which this PyTorch does not know")
    return found


def _number(value: str, name: str) -> complex:
    """Return the complex number that a row writes as text."""
    try:
        return complex(value)
    except ValueError as error:
        raise NotReplayable(
            "not recorded", f"the argument {name} was recorded as {value}, from which it cannot be rebuilt"
        ) from error
