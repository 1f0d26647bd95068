"""`export_checkpoint`: write the weights of a checkpoint with bare keys, as CPU tensors, and verify the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import UsageError
from jumar.base.files import check_output, explained, write_atomically
from jumar.base.findings import Finding, Location
from jumar.export.convert import Overflow, converted
from jumar.export.find import find_state_dict, strip_prefixes
from jumar.export.formats import MINDSPORE, format_of, write
from jumar.export.formats.document import Document
from jumar.export.formats.opening import open_document
from jumar.export.formats.registry import write_nested
from jumar.export.names import Renaming, to_mindspore, to_pytorch
from jumar.export.options import DTYPES, CheckpointOptions
from jumar.export.rules import OVERFLOWING_DTYPE
from jumar.export.state.beside import write_state
from jumar.export.state.keep import MINDSPORE_STATE, Kept, keep, with_kept_state
from jumar.export.tensors import Deferred, same_bits

__all__ = ["CheckpointReport", "export_checkpoint", "same_bits"]


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
    state_kept: tuple[str, ...] = ()
    """Entries beside the weights that were kept (`--with-state`)."""
    state_file: Path | None = None
    """The file beside the output that holds them; None: the output does."""
    state_reason: str = ""
    """Why entries beside the weights were not kept although they were asked for."""
    framework: str = "pytorch"
    """Whose names and layouts the input has."""
    findings: tuple[Finding, ...]


def export_checkpoint(source: Path, output: Path, options: CheckpointOptions | None = None) -> CheckpointReport:
    """Write the weights in `source` to `output`, in the format of its suffix (else PyTorch's), and read them back.

    A tensor is in memory a piece at a time. Raises InputError for a file that cannot be used and OutputError for one
    that must not or cannot be written; `output` then is as it was.
    """
    options = options or CheckpointOptions()
    check_output(output, options.force)
    format_of(output).require(output)
    document = open_document(source)
    if options.with_state:
        document = with_kept_state(document, source)
    found_under, state, others = find_state_dict(document.root, options.only or document.only, source)
    bare, num_by_prefix = strip_prefixes(state, options.prefixes, source)
    renaming = _renaming(document, output, bare, options.embeddings)
    made = converted(renaming.state, options.dtype)
    gone = set(renaming.left_out)
    names = dict(zip((key for key in bare if key not in gone), renaming.state, strict=True))
    kept = keep(document, found_under, made.state, output, names) if options.with_state else Kept()
    _write(output, made.state, kept, options.force)
    tensors = [value for value in made.state.values() if isinstance(value, Deferred)]
    return CheckpointReport(
        output=output,
        found_under=found_under,
        others=others,
        num_tensors=len(tensors),
        num_values=sum(tensor.info.num_values for tensor in tensors),
        size_bytes=output.stat().st_size,
        num_by_dtype=_count_dtypes(tensors),
        num_by_prefix=num_by_prefix,
        left_behind=tuple(key for key in _left_behind(document.root, found_under) if key not in kept.names),
        num_renamed=renaming.num_renamed,
        left_out=() if MINDSPORE_STATE in kept.names else renaming.left_out,
        state_kept=kept.names,
        state_file=kept.file,
        state_reason=kept.reason,
        framework=document.framework,
        undecided=renaming.undecided,
        findings=tuple(_finding(one, options.dtype or "", output) for one in made.overflows if one.num_values),
    )


def _write(output: Path, state: Mapping[str, Any], kept: Kept, force: bool) -> None:
    """Write the weights and what is kept with them. Raises OutputError, and InputError of the tensors' files."""
    with explained(output, "choose a place you can write to"):
        output.parent.mkdir(parents=True, exist_ok=True)
        if kept.file is not None:
            file = kept.file
            check_output(file, force)
            write_atomically(file, lambda part: write_state(part, file, kept.tensors, kept.text))
        if kept.root is not None:
            root = kept.root
            write_atomically(output, lambda part: write_nested(part, output, root))
        else:
            write_atomically(output, lambda part: write(part, output, {**state, **kept.more}))


def _renaming(document: Document, output: Path, state: Mapping[str, Any], embeddings: Sequence[str]) -> Renaming:
    """Return the state under the names of the output's framework. Raises InputError, UsageError."""
    from_mindspore, into_mindspore = document.framework == "mindspore", format_of(output) is MINDSPORE
    if embeddings and (from_mindspore or not into_mindspore):
        raise UsageError("--embedding names tables for MindSpore; leave it out, or write a .ckpt from PyTorch's file.")
    if from_mindspore == into_mindspore or document.framework == "tensorflow":
        return Renaming(state=state)
    return to_pytorch(state) if from_mindspore else to_mindspore(state, embeddings)


def _count_dtypes(tensors: list[Deferred]) -> dict[str, int]:
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
