"""`export_checkpoint`: write the weights of a checkpoint with bare keys, as CPU tensors, and verify the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.base.files import check_output, explained, write_atomically
from jumar.base.findings import Finding, Location
from jumar.export.find import find_state_dict, strip_prefixes
from jumar.export.formats import MINDSPORE, format_of, write
from jumar.export.load import load_checkpoint
from jumar.export.names import Renaming, to_mindspore, to_pytorch
from jumar.export.options import DTYPES, CheckpointOptions
from jumar.export.rules import OVERFLOWING_DTYPE
from jumar.recording.foreign.formats.mindspore.checkpoint import is_mindspore
from jumar.recording.foreign.safe import is_far_larger


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """What was written, and what was left out."""

    output: Path
    found_under: str
    """Dotted path of the weights in the input; empty: the whole file."""
    others: tuple[str, ...]
    """Other state dicts in the file that were not taken."""
    num_tensors: int
    num_values: int
    size_bytes: int
    """Of the written file."""
    num_by_dtype: Mapping[str, int]
    """Tensors by their dtype in the output."""
    num_by_prefix: Mapping[str, int]
    """Keys that carried each stripped prefix."""
    left_behind: tuple[str, ...]
    """Top-level entries of the input that are not weights (optimizer, epoch, …)."""
    num_renamed: int = 0
    """Keys that got the other framework's name."""
    left_out: tuple[str, ...] = ()
    """Keys without a counterpart in the other framework."""
    undecided: tuple[str, ...] = ()
    """Keys that keep their name, though the module's class may ask for another in MindSpore."""
    findings: tuple[Finding, ...]


def export_checkpoint(source: Path, output: Path, options: CheckpointOptions | None = None) -> CheckpointReport:
    """Write the weights in `source` to `output`, in the format of its suffix (else PyTorch's), and read them back.

    Raises InputError for a file that cannot be used and OutputError for one that must not or cannot be written;
    `output` then is as it was.
    """
    options = options or CheckpointOptions()
    check_output(output, options.force)
    format_of(output).require(output)
    loaded = load_checkpoint(source)
    found_under, state, others = find_state_dict(loaded, options.only, source)
    bare, num_by_prefix = strip_prefixes(state, options.prefixes, source)
    renaming = _renaming(source, output, bare, options.embeddings)
    converted, overflows = convert_tensors(renaming.state, options.dtype)
    with explained(output, "choose a place you can write to"):
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, lambda part: _write_and_verify(part, output, converted))
    tensors = [value for value in converted.values() if isinstance(value, torch.Tensor)]
    return CheckpointReport(
        output=output,
        found_under=found_under,
        others=others,
        num_tensors=len(tensors),
        num_values=sum(tensor.numel() for tensor in tensors),
        size_bytes=output.stat().st_size,
        num_by_dtype=_count_dtypes(tensors),
        num_by_prefix=num_by_prefix,
        left_behind=_left_behind(loaded, found_under),
        num_renamed=renaming.num_renamed,
        left_out=renaming.left_out,
        undecided=renaming.undecided,
        findings=tuple(_finding(overflow, options.dtype or "", output) for overflow in overflows),
    )


def _renaming(source: Path, output: Path, state: Mapping[str, Any], embeddings: Sequence[str]) -> Renaming:
    """Return the state under the names of the output's framework. Raises InputError, UsageError."""
    from_mindspore, into_mindspore = is_mindspore(source), format_of(output) is MINDSPORE
    if embeddings and (from_mindspore or not into_mindspore):
        raise UsageError("--embedding names tables for MindSpore; leave it out, or write a .ckpt from PyTorch's file.")
    if from_mindspore == into_mindspore:
        return Renaming(state=state)
    return to_pytorch(state) if from_mindspore else to_mindspore(state, embeddings)


def _write_and_verify(part: Path, output: Path, state: Mapping[str, Any]) -> None:
    _verify(state, write(part, output, state), output)


def _verify(state: Mapping[str, Any], written: Mapping[str, Any], output: Path) -> None:
    """Raise OutputError unless the file holds the same keys and bits: a full disk or bad memory must not pass."""
    if written.keys() != state.keys():
        raise OutputError(f"{output} did not come back with the keys that were written; check the disk.")
    for key, value in state.items():
        if isinstance(value, torch.Tensor) and not same_bits(value, written[key]):
            raise OutputError(f"{output} did not come back with the values of {key!r}; check the disk and memory.")


def _count_dtypes(tensors: list[torch.Tensor]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tensor in tensors:
        name = str(tensor.dtype).removeprefix("torch.")
        counts[name] = counts.get(name, 0) + 1
    return counts


def _left_behind(loaded: Any, found_under: str) -> tuple[str, ...]:
    if not found_under or not isinstance(loaded, Mapping):
        return ()
    taken = next((key for key in loaded if f"{found_under}.".startswith(f"{key}.")), None)
    return tuple(str(key) for key in loaded if key != taken)


def _finding(overflow: Overflow, dtype: str, output: Path) -> Finding:
    return OVERFLOWING_DTYPE.finding(
        f"{overflow.num_values:,} values of {overflow.key!r} are too great for {dtype} and became infinite.",
        where=Location(path=str(output)),
        evidence={"key": overflow.key, "num_values": overflow.num_values, "greatest": overflow.greatest},
        why=f"The greatest is {overflow.greatest:.6g}; {dtype} ends at {_end(dtype):.6g}.",
        action="Export with --dtype bf16 or fp32.",
    )


def _end(dtype: str) -> float:
    return float(torch.finfo(getattr(torch, DTYPES[dtype])).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """A tensor with finite values that the wanted dtype cannot hold."""

    key: str
    num_values: int
    greatest: float
    """Greatest absolute finite value before the conversion."""


def convert_tensors(state: Mapping[str, Any], dtype: str | None) -> tuple[dict[str, Any], list[Overflow]]:
    """Return the state with tensors on the CPU and floating ones as `dtype` (a name of `DTYPES`, None: as they are).

    Tensors that were one (tied weights) stay one; a view of something larger no longer drags it along.
    Raises InputError for a tensor that has no values, is not dense, or stands for far more values than are stored.
    """
    wanted = getattr(torch, DTYPES[dtype]) if dtype else None
    made: dict[tuple[Any, ...], torch.Tensor] = {}
    result: dict[str, Any] = {}
    overflows: list[Overflow] = []
    for key, value in state.items():
        if not isinstance(value, torch.Tensor):
            result[key] = value
            continue
        _check_values(key, value)
        identity = (value.data_ptr(), value.dtype, value.shape, value.stride()) if value.numel() else (key,)
        if identity not in made:
            made[identity], overflow = _convert(key, value, wanted)
            overflows += [overflow] if overflow else []
        result[key] = made[identity]
    return result, overflows


def _check_values(key: str, tensor: torch.Tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        how = "dequantize()" if tensor.is_quantized else "to_dense()"
        raise InputError(f"{key!r} must be a dense tensor, and it is {kind}; save it with {how}, or leave it out.")
    if tensor.is_meta:
        raise InputError(f"{key!r} has no values, because it was saved from the device meta; save the loaded model.")
    if is_far_larger(tensor):
        held = tensor.untyped_storage().nbytes()
        raise InputError(f"{key!r} has {tensor.numel():,} values that stand for {held:,} bytes; save it as a clone().")


def _convert(key: str, value: torch.Tensor, dtype: torch.dtype | None) -> tuple[torch.Tensor, Overflow | None]:
    tensor = value.detach().cpu()
    if dtype is not None and tensor.is_floating_point() and tensor.dtype != dtype:
        narrow = tensor.to(dtype)
        return narrow, _overflow(key, tensor, narrow)
    own_bytes = tensor.numel() * tensor.element_size()
    return (tensor if tensor.untyped_storage().nbytes() == own_bytes else tensor.clone()), None


def _overflow(key: str, before: torch.Tensor, after: torch.Tensor) -> Overflow | None:
    finite = torch.isfinite(before)
    lost = finite & ~torch.isfinite(after)
    number = int(lost.sum())
    if number == 0:
        return None
    return Overflow(key=key, num_values=number, greatest=float(before[finite].abs().max()))


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two CPU tensors have the same dtype, shape and bits (NaN equal to the same NaN)."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.numel() == 0:
        return True
    return torch.equal(_bytes(left), _bytes(right))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
