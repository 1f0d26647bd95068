"""`Call`: a row in the form in which calls are aligned, with a canonical name; list operators are taken apart.

An optimizer on one device calls `aten::_foreach_add_` once for all parameters, on another
`aten::add_` for each. The k-th item of the list operator is the k-th call of the single one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

from jumar import operators
from jumar.comparison.model.kinds import QUERIES, TRANSPORT
from jumar.comparison.model.results import ArgumentDiff
from jumar.operators import canonical_name, dtypes, is_foreach
from jumar.operators.layers import CLASSES, PARAMETERS, PARAMETERS_OF
from jumar.recording.schema import CallRow, TensorRow


@dataclass(slots=True, eq=False)
class Call:
    """One row, or one item of a list operator's row."""

    row: CallRow
    operator: str
    """Canonical name."""
    path: str
    """Module path in the reference's naming, wrappers left out."""
    inputs: dict[str, TensorRow]
    """By name within the call: `input.0`, whichever item of a list it was."""
    outputs: dict[str, TensorRow]
    item: int | None = None
    place: str = ""
    """Module in which the call is looked for on the other side."""
    turn: int = 0
    """Of a module that the runs call another number of times: in which of its calls this one is, from 0."""
    homes: Mapping[int, CallRow] = field(default_factory=dict)
    """Of a call that stands for a region of calls: the row of each tensor, by the tensor's `id`."""
    token: tuple[str, tuple[int, ...]] = field(init=False)
    """What two calls of one calculation have in common: the canonical name and the main shape."""

    def __post_init__(self) -> None:
        main = next(iter(self.outputs.values()), None) or next(iter(self.inputs.values()), None)
        self.token = self.operator, (main.shape if main is not None else ())

    @property
    def layout_only(self) -> bool:
        """Whether the call only moves, casts, views or asks for values."""
        return self.operator in TRANSPORT or self.operator in QUERIES

    @property
    def layer(self) -> str:
        """Class of a module's call, by PyTorch's name; empty for other calls."""
        kind = self.row.module_type
        return CLASSES.get(kind, kind) if self.row.kind == "module" else ""

    def scalars(self) -> tuple[float, ...]:
        """Return the numbers among the arguments, whatever they are called; without ones, a common default."""
        numbers = (v for v in self.arguments().values() if isinstance(v, int | float) and not isinstance(v, bool))
        return tuple(sorted(float(v) for v in numbers if v != 1))

    def row_of(self, tensor: TensorRow) -> CallRow:
        """Return the row that a tensor of this call is recorded with."""
        return self.homes.get(id(tensor), self.row)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that are not tensors, by name; lists of a list operator reduced to this item."""
        values = _parsed(self.row.arguments)
        if self.item is None or not values:
            return values
        return {
            name: value[self.item] if isinstance(value, list) and len(value) > self.item else value
            for name, value in values.items()
        }


class Names(Protocol):
    """How one side's names are read."""

    def place(self, path: str) -> tuple[str, str]:
        """Return (path in the reference's naming, place) of a module path of this side, wrappers left out."""

    def operator(self, name: str) -> str:
        """Return the name by which an operator of this side is known."""

    def parameter(self, path: str, name: str) -> str:
        """Return the name by which a parameter of this side is known."""


class PlainNames:
    """Names as they are."""

    def place(self, path: str) -> tuple[str, str]:
        """Return the path as both."""
        return path, path

    def operator(self, name: str) -> str:
        """Return the name."""
        return name

    def parameter(self, path: str, name: str) -> str:
        """Return the name."""
        del path
        return name


def calls_of(rows: Iterable[CallRow], names: Names | None = None) -> list[Call]:
    """Return the calls of `rows` in order, under the names of `names`."""
    names = names or PlainNames()
    places: dict[str, tuple[str, str]] = {}
    operators: dict[str, tuple[str, bool]] = {}
    calls: list[Call] = []
    for row in rows:
        where = places.get(row.module_path)
        if where is None:
            where = places[row.module_path] = names.place(plain_path(row.module_path))
        if row.kind == "op":
            known = operators.get(row.name)
            if known is None:
                known = operators[row.name] = canonical_name(names.operator(row.name)), is_foreach(row.name)
            operator, is_list = known
        else:
            is_list = False
            name = CLASSES.get(row.name, row.name) if row.kind == "module" else row.name
            operator = _parameter(row, names) if row.kind == "parameter" else name
        if is_list:
            calls.extend(_items(row, operator, *where))
        else:
            inputs = {tensor.name: tensor for tensor in row.inputs}
            outputs = {tensor.name: tensor for tensor in row.outputs}
            calls.append(Call(row, operator, where[0], inputs, outputs, None, where[1]))
    return calls


def _parameter(row: CallRow, names: Names) -> str:
    """Return the name by which a parameter is known; of some classes a framework's name stands for another one."""
    found = names.parameter(row.module_path, row.name)
    is_renamed = found not in (row.name, PARAMETERS.get(row.name))
    return found if is_renamed else PARAMETERS_OF.get(row.module_type, {}).get(row.name, found)


def draws(row: CallRow) -> bool:
    """Return whether a call draws random numbers, its arguments considered: dropout in evaluation draws none.

    Of an operator that Jumar does not know (a user's own), the recording tells: it drew when its generator was noted.
    """
    if row.draws is not None:
        return row.draws
    if not operators.operator(row.name).known:
        return bool(row.rng)
    try:
        return operators.draws(row.name, _parsed(row.arguments))
    except json.JSONDecodeError:
        return operators.draws(row.name)


@lru_cache(maxsize=4096)
def _parsed(arguments: str) -> dict[str, Any]:
    values = json.loads(arguments) if arguments and arguments != "{}" else {}
    return values if isinstance(values, dict) else {}


def _items(row: CallRow, operator: str, path: str, place: str) -> Iterator[Call]:
    items: dict[int, tuple[dict[str, TensorRow], dict[str, TensorRow]]] = {}
    shared: dict[str, TensorRow] = {}
    for side, tensors in enumerate((row.inputs, row.outputs)):
        for tensor in tensors:
            name, item = _split_item(tensor.name, is_output=side == 1)
            if item is None:
                shared[name] = tensor
            else:
                items.setdefault(item, ({}, {}))[side][name] = tensor
    for item in sorted(items):
        inputs, outputs = items[item]
        yield Call(row, operator, path, {**inputs, **shared}, outputs, item, place)


def _split_item(name: str, *, is_output: bool) -> tuple[str, int | None]:
    """Return the name within one item and the item: `input.0.3` → (`input.0`, 3), `output.3` → (`output.0`, 3)."""
    parts = name.split(".")
    if len(parts) == 3 and parts[2].isdigit():
        return f"{parts[0]}.{parts[1]}", int(parts[2])
    if is_output and len(parts) == 2 and parts[1].isdigit():
        return "output.0", int(parts[1])
    return name, None


WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Names that wrappers (DDP, torch.compile, FSDP, checkpointing) add to a module path."""


@lru_cache(maxsize=16_384)
def plain_path(path: str) -> str:
    """Return the path without wrappers' names."""
    if "_" not in path and "module" not in path:
        return path
    parts = path.split(".")
    first = next((i for i, part in enumerate(parts) if part not in WRAPPERS), len(parts))
    return ".".join(part for i, part in enumerate(parts) if i >= first and (part not in WRAPPERS or part == "module"))


IGNORED_ARGUMENTS = frozenset(
    [
        "device",
        "layout",
        "memory_format",
        "pin_memory",
        "non_blocking",
        "generator",
        "requires_grad",
        "output_mask",
        "copy",
    ]
)
"""Arguments in which devices differ by nature, or that the outputs show."""

DEFAULT = "(default)"
"""Stands for an argument that one side did not give."""


def same_operator(reference: Call, target: Call) -> bool:
    """Return whether both calls are of one operator (any overload, in place or not), not of two variants of it."""
    first, second = reference.row.name, target.row.name
    return first == second or first.split(".", 1)[0].rstrip("_") == second.split(".", 1)[0].rstrip("_")


def paired(reference: Call, target: Call, side: Literal["inputs", "outputs"]) -> list[tuple[str, TensorRow, TensorRow]]:
    """Return (name, reference, target) of the tensors that belong together.

    By name; variants of a kernel take their arguments in another order, there by shape and order.
    """
    first: dict[str, TensorRow] = getattr(reference, side)
    second: dict[str, TensorRow] = getattr(target, side)
    if reference.row.kind != "op" or same_operator(reference, target):
        return [(name, tensor, other) for name, tensor in first.items() if (other := second.get(name)) is not None]
    left = list(second.values())
    pairs = []
    for name, tensor in first.items():
        other = next((t for t in left if t.shape == tensor.shape and _same_family(t.dtype, tensor.dtype)), None)
        if other is not None:
            left.remove(other)
            pairs.append((name, tensor, other))
    return pairs


def _same_family(first: str, second: str) -> bool:
    return first == second or (dtypes.epsilon(first) > 0 and dtypes.epsilon(second) > 0)


def argument_differences(reference: Call, target: Call) -> tuple[ArgumentDiff, ...]:
    """Return the scalar arguments that differ between two calls of an equally named operator."""
    same_item = (reference.item is None) == (target.item is None)
    if reference.row.arguments == target.row.arguments or not (same_operator(reference, target) and same_item):
        return ()
    try:
        of_reference, of_target = reference.arguments(), target.arguments()
    except json.JSONDecodeError:
        return ()
    values = {
        name: (of_reference.get(name, DEFAULT), of_target.get(name, DEFAULT))
        for name in {**of_reference, **of_target}
        if not _ignored(name)
    }
    ranks = _rank(reference), _rank(target)
    return tuple(
        ArgumentDiff(name=name, reference=first, target=second, given=name in of_reference and name in of_target)
        for name, (first, second) in values.items()
        if first != second and not ("dim" in name and _same_dims(first, second, ranks))
    )


def _rank(call: Call) -> int:
    """Return the number of dimensions that a call's `dim` counts: the input's, or a result's that has one more."""
    return max((len(tensor.shape) for tensor in (*call.inputs.values(), *call.outputs.values())), default=0)


def _same_dims(first: Any, second: Any, ranks: tuple[int, int]) -> bool:
    """Return whether dimensions may be the same ones. Those of two views of the same values with more and with fewer
    dimensions cannot be compared; the results are."""
    return ranks[0] != ranks[1] or _counted(first, ranks[0]) == _counted(second, ranks[1])


def _counted(dim: Any, rank: int) -> Any:
    """Return a dimension, or several, counted from the first one."""
    if isinstance(dim, list):
        return [_counted(one, rank) for one in dim]
    return dim + rank if type(dim) is int and dim < 0 else dim


def _ignored(name: str) -> bool:
    return name in IGNORED_ARGUMENTS or name.endswith("dtype")


def loss_scale(rows: Iterable[CallRow]) -> float:
    """Return the factor with which a step multiplies its loss before the backward pass; 1 without one.

    It is the value of the single-element tensor that a product outside of all modules takes beside the
    loss, as `torch.amp.GradScaler` does.
    """
    products: dict[int, float] = {}
    for row in rows:
        if row.kind == "op" and row.phase == "forward" and row.name == "aten::mul.Tensor" and len(row.inputs) == 2:
            factor = row.inputs[1]
            if math.prod(factor.shape) == 1 and factor.mean and math.prod(row.inputs[0].shape) == 1:
                products[row.inputs[0].storage] = factor.mean
        elif row.kind == "loss" and row.outputs and row.outputs[0].storage in products:
            return products[row.outputs[0].storage]
    return 1.0


def brings_in(call: Call, scale: float) -> bool:
    """Return whether a call brings a loss scale in: a product of single elements, one of which is the scale, or the
    scale itself."""
    if scale == 1.0 or call.operator not in {"mul", "full"}:
        return False
    tensors = list((call.inputs or call.outputs).values())
    single = all(math.prod(tensor.shape) == 1 for tensor in tensors)
    return single and any(tensor.mean == scale for tensor in tensors)
