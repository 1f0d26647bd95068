"""Runs a rebuilt call at a place and names its outputs as the observer did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from jumar.capture.notes.operators import operator_info
from jumar.comparison.model.kinds import EXACT, SELECTIVE
from jumar.comparison.replay.rebuilt.invocation import Invocation, call
from jumar.comparison.replay.rebuilt.memory import Array, covers, tensors, torch_dtype
from jumar.comparison.replay.rebuilt.place import Place
from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.comparison.replay.rebuilt.substitutes import SUBSTITUTES
from jumar.operators import canonical_name
from jumar.recording.schema import CallRow, TensorRow

FAILURES = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError, ArithmeticError)
"""What PyTorch raises for arguments a kernel does not take."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """A call with the arrays of its tensors."""

    row: CallRow
    invocation: Invocation
    arrays: Mapping[str, Array]
    only: tuple[str, ...] = ()
    """Outputs that the call gives, where it stands for another; all when empty."""


def run(inputs: Inputs, place: Place) -> dict[str, torch.Tensor]:
    """Return the outputs by their recorded names, on the CPU.

    Raises NotReplayable when the operator does not run there or a tensor was not recorded.
    """
    with place.entered():
        values = arguments(inputs, place)
        operator = inputs.invocation.operator
        try:
            substitute = SUBSTITUTES.get(inputs.invocation.name.partition(".")[0]) if place.device == "cpu" else None
            if substitute is not None:
                found = _named("output", substitute(**values))
            else:
                found = _outputs(operator, values, call(operator, values))
        except FAILURES as error:
            raise NotReplayable("no kernel", f"{inputs.invocation.name}: {_first_line(error)}") from error
        wanted = inputs.only or tuple(tensor.name for tensor in inputs.row.outputs)
        return {name: on_host(tensor) for name, tensor in found.items() if name in wanted}


def arguments(inputs: Inputs, place: Place) -> dict[str, Any]:
    """Return the arguments by name as the operator takes them at `place`."""
    invocation = inputs.invocation
    writes = bool(operator_info(invocation.operator).writes)
    of_strides = canonical_name(invocation.name).startswith("as_strided")
    rows = invocation.tensors
    if of_strides:
        _check_reach(rows, invocation.values)
    built = tensors(rows, inputs.arrays, place.dtype, place.device, shared=writes, keep_offset=of_strides)
    if place.precision != "own":
        invocation = invocation.with_values(scalars_as_elements(inputs))
    values = invocation.mapped(lambda at: built[at.row.name])
    kinds = {argument.name: str(argument.real_type) for argument in invocation.operator._schema.arguments}
    return {name: _adapted(value, kinds[name], name, place) for name, value in values.items()}


def _adapted(value: Any, kind: str, name: str, place: Place) -> Any:
    if isinstance(value, torch.dtype):
        return place.dtype(str(value).removeprefix("torch."))
    if "Device" in kind:
        return None if value is None else torch.device(place.device)
    if name == "pin_memory":
        return None
    if name == "half_to_float" and place.precision != "own":
        return False  # every half is float64 already
    return value


def scalars_as_elements(inputs: Inputs) -> dict[str, Any]:
    """Return the arguments by name, scalars rounded to the elements' dtype where they decide what is equal."""
    invocation = inputs.invocation
    dtype = _scalar_dtype(inputs)
    if dtype is None:
        return dict(invocation.values)
    kinds = {argument.name: str(argument.real_type) for argument in invocation.operator._schema.arguments}
    return {
        name: torch.tensor(value, dtype=dtype).item() if isinstance(value, float) and kinds[name] != "float" else value
        for name, value in invocation.values.items()
    }


def _scalar_dtype(inputs: Inputs) -> torch.dtype | None:
    """Return the dtype in which scalars meet elements where that decides: comparing with 0.1 is with float32's 0.1."""
    base = canonical_name(inputs.row.name)
    if base not in EXACT and base not in SELECTIVE and any(t.dtype.startswith("float") for t in inputs.row.outputs):
        return None
    floating = [tensor.dtype for tensor in inputs.invocation.tensors if tensor.dtype.startswith(_FLOATING)]
    dtypes = [torch_dtype(name) for name in floating]
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).bits, default=None)


_FLOATING = ("float16", "float32", "float64", "bfloat16")


def _check_reach(rows: Sequence[TensorRow], values: Mapping[str, Any]) -> None:
    """Raise NotReplayable when `as_strided` shows memory outside of the tensor it is called on."""
    if not rows:
        return
    offset = values.get("storage_offset")
    first = rows[0].storage_offset if offset is None else offset
    if not covers(rows[0], values["size"], values["stride"], first):
        raise NotReplayable("not recorded", "the view shows memory that is not part of its input")


def _outputs(operator: torch._ops.OpOverload, values: Mapping[str, Any], result: Any) -> dict[str, torch.Tensor]:
    """Return what the operator wrote and returned, by the names that the observer gives."""
    info = operator_info(operator)
    found: dict[str, torch.Tensor] = {}
    if info.writes and not info.returns_writes:
        found |= _named("output", [values.get(info.names[position]) for position in info.writes])
    return found | _named("output", result if isinstance(result, (list, tuple)) else (result,))


def _named(prefix: str, result: Sequence[Any]) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for position, value in enumerate(result):
        if isinstance(value, torch.Tensor):
            found[f"{prefix}.{position}"] = value
        elif isinstance(value, (list, tuple)):
            found |= _named(f"{prefix}.{position}", value)
    return found


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a result as a plain CPU tensor, lazy conjugation and negation done."""
    plain = tensor.detach().cpu()
    if plain._is_zerotensor():  # autograd's stand-in for zeros, which has no memory
        return torch.zeros(plain.shape, dtype=plain.dtype)
    return plain.resolve_conj().resolve_neg() if plain.layout is torch.strided else plain


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
