"""`OnnxOptions`, checked when they are built, and the axes that stay open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jumar.base.errors import UsageError
from jumar.export.options import PREFIXES

ONE_FILE_BYTES = 2_000_000_000
"""Weights of more bytes get a file of their own: a protobuf file ends at 2 GiB."""
_DYNAMIC = re.compile(r"([^:=,\s]+):(.+)")
_AXIS = re.compile(r"(-?\d+)(?:=([A-Za-z_]\w*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxOptions:
    """How a model is exported to ONNX. Raises UsageError when a field breaks its rule."""

    opset: int | None = None
    """Version of the operator set; None takes the exporter's default."""
    dynamic_batch: bool = False
    """Leave the first dimension of every input open, under the name `batch`."""
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Input -> axis -> name of the axis that stays open. Axes of one name have one size."""
    input_names: tuple[str, ...] = ()
    """Names of the inputs in the file, in order; empty: those of `forward`."""
    output_names: tuple[str, ...] = ()
    weights: str | None = None
    """A checkpoint whose weights the factory's model gets before it is exported."""
    only: str | None = None
    """Dotted path of the state dict in the checkpoint; None looks for it."""
    prefixes: tuple[str, ...] = PREFIXES
    """Taken off the keys of the checkpoint."""
    strict: bool = True
    """Refuse a checkpoint that lacks a weight of the model or has one that the model lacks."""
    one_file_bytes: int = ONE_FILE_BYTES
    """Weights of more bytes go to a file `OUTPUT.data` beside the model."""
    relative_tolerance: float = 1e-3
    absolute_tolerance: float = 1e-4
    """An output of ONNX Runtime must be within `absolute + relative * |output of PyTorch|`."""
    force: bool = False

    def __post_init__(self) -> None:
        if self.relative_tolerance < 0 or self.absolute_tolerance < 0:
            raise UsageError("a tolerance must not be negative; try --rtol 1e-3 --atol 1e-4.")
        for kind, names in (("input", self.input_names), ("output", self.output_names)):
            if len(set(names)) != len(names) or "" in names:
                raise UsageError(f"--{kind}-names must be different names; got {','.join(names)!r}.")
        if self.weights is None and (self.only is not None or not self.strict):
            raise UsageError("--only and --no-strict belong to --weights CHECKPOINT; add it, or leave them out.")
        if not 0 <= self.one_file_bytes <= ONE_FILE_BYTES:
            raise UsageError(f"weights in one file may have at most {ONE_FILE_BYTES} bytes, ONNX's limit.")


def parse_dynamic(texts: Iterable[str]) -> dict[str, dict[int, str]]:
    """Return what `INPUT:AXIS=NAME,AXIS=NAME` (repeated) says. An axis without a name is called `INPUT_AXIS`.

    Raises UsageError for another form and for an axis that is named twice.
    """
    found: dict[str, dict[int, str]] = {}
    for text in texts:
        match = _DYNAMIC.fullmatch(text.strip())
        parts = [_AXIS.fullmatch(part.strip()) for part in match[2].split(",")] if match else [None]
        if match is None or None in parts:
            raise UsageError(f'"--dynamic {text}" must be INPUT:AXIS=NAME; try --dynamic x:0=batch,2=height.')
        axes = found.setdefault(match[1], {})
        for part in filter(None, parts):
            axis = int(part[1])
            if axis in axes:
                raise UsageError(f'"--dynamic {text}" names axis {axis} of {match[1]} twice; leave one out.')
            axes[axis] = part[2] or f"{match[1]}_{part[1].replace('-', 'm')}"
    return found


def parse_names(text: str | None) -> tuple[str, ...]:
    """Return the names of `a,b`; empty for None."""
    return tuple(name.strip() for name in text.split(",")) if text is not None else ()
