"""Turn an operator of the ledger into the shapes that the time model takes."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from jumar.base.errors import DeviceError
from jumar.npu.core.events import OperatorEvent
from jumar.npu.core.overloads import arguments_of
from jumar.npu.core.state import STATE
from jumar.npu.formats.ledger.ledger import Execution, runs
from jumar.npu.formats.ledger.operands import inputs_of, outputs_of
from jumar.npu.formats.mode import allows_internal, is_online
from jumar.soc.estimate import Conversion, OperatorShape, Software, TensorShape, software
from jumar.soc.support import SupportTables

_WANTED = frozenset(
    {
        "transposed", "groups", "output_mask", "dim", "is_causal", "head_num", "input_layout", "sparse_mode",
        "non_blocking", "num_ranks",
    }
)  # fmt: skip
"""Arguments that the cost of an operator depends on."""

Layout = tuple[int, bool]
"""Elements that lie together (0: all of them), and whether only the last two dimensions are exchanged."""


class _Schema(NamedTuple):
    wanted: tuple[tuple[int, str], ...]
    lists: bool


def operator_shape(execution: Execution) -> OperatorShape:
    """Return the call as the time model takes it. Equal calls give the same object."""
    event = execution.event
    inputs, outputs = inputs_of(event), outputs_of(event)
    shapes = tuple(
        [
            _tensor(tuple(item.tensor.shape), item.tensor.dtype, name, *_layout(item.tensor))
            for item, name in zip(inputs, execution.input_formats, strict=False)
        ]
    )
    results = tuple(
        [
            _tensor(tuple(item.tensor.shape), item.tensor.dtype, name, *_layout(item.tensor))
            for item, name in zip(outputs, execution.output_formats, strict=False)
        ]
    )
    conversions = tuple(
        [
            Conversion(item.source_format, item.target_format, item.shape, item.dtype, item.argument < 0)
            for item in execution.transdata
        ]
    )
    pinned = bool(event.transfer) and any(
        item.tensor.is_cpu and item.tensor.is_pinned() for item in (*inputs, *outputs)
    )
    return _shape(
        event.operator,
        shapes,
        results,
        _attributes(event.operator, event.args, event.kwargs, pinned),
        conversions,
        event.transfer,
        event.transfer_bytes,
        not runs(event),
        _falls_back(event.operator, STATE.settings.soc),
        int(event.kwargs.get("num_ranks", 1)) if event.operator.startswith("hccl::") else 1,
    )


@functools.lru_cache(maxsize=65536)
def _shape(
    name: str,
    inputs: tuple[TensorShape, ...],
    outputs: tuple[TensorShape, ...],
    attributes: tuple[tuple[str, Hashable], ...],
    conversions: tuple[Conversion, ...],
    transfer: Any,
    transfer_bytes: int,
    nothing_runs: bool,
    on_host: bool,
    num_ranks: int,
) -> OperatorShape:
    return OperatorShape(
        name, inputs, outputs, attributes, conversions, transfer, transfer_bytes, on_host, num_ranks,
        is_view=nothing_runs and not transfer,
    )  # fmt: skip


@functools.lru_cache(maxsize=65536)
def _tensor(shape: tuple[int, ...], dtype: torch.dtype, format_name: str, run: int, transposed: bool) -> TensorShape:
    return TensorShape(shape, str(dtype).removeprefix("torch."), format_name, run, transposed)


def _layout(tensor: torch.Tensor) -> Layout:
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return 0, False
    return strided_layout(tuple(tensor.shape), tuple(tensor.stride()))


@functools.lru_cache(maxsize=16384)
def strided_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """Return how a strided tensor lies in memory.

    Expanded dimensions (stride 0) cost nothing: kernels broadcast. What is dense in another order of its
    dimensions than the last two is a permutation, whose runs are single elements or the inner dimensions
    that kept their place.
    """
    sizes = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1 and stride != 0]
    run = 1
    for size, stride in reversed(sizes):
        if stride != run:
            break
        run *= size
    dense = 1
    for size, _ in sizes:
        dense *= size
    if run == dense:
        return 0, False
    if len(sizes) < 2:
        return run, False
    exchanged = [*sizes[:-2], sizes[-1], sizes[-2]]
    expected, transposed = 1, True
    for position, (size, stride) in enumerate(reversed(exchanged)):
        transposed = transposed and (stride == expected or (position >= 2 and stride >= expected))
        expected = stride * size
    return run, transposed


def _attributes(
    operator: str, args: Sequence[Any], kwargs: Mapping[str, Any], pinned: bool
) -> tuple[tuple[str, Hashable], ...]:
    schema = _schema(operator)
    found: list[tuple[str, Hashable]] = [("pinned", True)] if pinned else []
    for position, name in schema.wanted:
        value = args[position] if position < len(args) else kwargs.get(name)
        if value is not None:
            found.append((name, tuple(value) if isinstance(value, list) else value))
    if schema.lists:
        found.append(("num_lists", sum(1 for value in args if _is_tensor_list(value))))
    return tuple(found)


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], torch.Tensor)


@functools.cache
def _schema(operator: str) -> _Schema:
    arguments = enumerate(arguments_of(operator))
    wanted = tuple((position, item.name) for position, item in arguments if item.name in _WANTED)
    return _Schema(wanted, "_foreach_" in operator or "_fused_" in operator)


@functools.cache
def _falls_back(operator: str, soc: str) -> bool:
    if not operator.startswith("aten::"):
        return False
    try:
        tables = SupportTables.load(soc)
    except DeviceError:
        return False
    return tables.operator(operator).status == "fallback"


def current_software() -> Software:
    """Return what runs on the emulated chip now: the route and the precision switches as they are set."""
    found = software(STATE.profile, not (is_online() or allows_internal()))
    options = STATE.options
    return replace(
        found,
        allow_hf32_convolution=options.get("ALLOW_CONV_HF32", "enable") != "disable",
        allow_hf32_matmul=options.get("ALLOW_MATMUL_HF32", "disable") == "enable",
    )


def event_only(event: OperatorEvent) -> Execution:
    """Return an execution without conversions for an event that the ledger did not see."""
    inputs = tuple("ND" for _ in inputs_of(event))
    outputs = tuple("ND" for _ in outputs_of(event))
    return Execution(event, inputs, outputs, (), compiled=False)
