"""The order of elements in memory: which tensors must be copied because of it, and which call caused that."""

from __future__ import annotations

import math

from jumar.advise.bottlenecks.run import Call, StepView
from jumar.advise.bottlenecks.tensors import copy_of, stored_elements
from jumar.recording.schema import TensorRow


def is_dense(tensor: TensorRow) -> bool:
    """Return whether the elements fill one block of memory without gaps or overlap, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride, tensor.shape, strict=False)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def is_reordered(tensor: TensorRow, *, by_view: bool | None) -> bool:
    """Return whether a kernel that wants one contiguous block would have to copy this tensor first.

    `by_view` says that a view made it so; None that its maker is outside the step. A tensor that is
    only expanded does not count (kernels broadcast it), nor does one that an operator returned so:
    that is the order which this device's kernel chose, and an NPU's may choose another. A dense
    channels-last tensor from outside is the model's choice of layout.
    """
    if tensor.contiguous or math.prod(tensor.shape) <= 1:
        return False
    if len(tensor.stride) != len(tensor.shape):  # sparse and other layouts have no strides
        return False
    if _is_only_expanded(tensor):
        return False
    return not _is_channels_last(tensor) if by_view is None else by_view


def _is_only_expanded(tensor: TensorRow) -> bool:
    """Return whether what is stored is contiguous and the other dimensions only repeat it."""
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride), strict=True):
        if stride and size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _is_channels_last(tensor: TensorRow) -> bool:
    return len(tensor.shape) in {4, 5} and tensor.stride[1] == 1 and is_dense(tensor)


def relaid_input(call: Call) -> int | None:
    """Return the position of the input that a copy has to gather or scatter element by element, or None.

    A copy that keeps the order of a dense block is a plain one: None.
    """
    copy = copy_of(call.row)
    if copy is None or math.prod(copy.source.shape) <= 1:
        return None
    source, target = copy.source, copy.target
    if copy.into_input and not target.contiguous and not is_dense(target):
        return call.row.inputs.index(target)
    if source.contiguous or len(source.stride) != len(source.shape) or stored_elements(source) <= 1:
        return None
    keeps_order = source.stride == target.stride and is_dense(source)
    return None if keeps_order else copy.position


def who_reordered(step: StepView, call: Call, position: int) -> Call | None:
    """Return the call that turned a contiguous tensor into this non-contiguous input, or None.

    It is followed through further views and through operators that keep their input's order. None
    when that call lies outside the step.
    """
    current = step.origin(call, position)
    while current is not None:
        parent = next(
            (
                number
                for number, tensor in enumerate(current.row.inputs)
                if not tensor.contiguous and (current.is_view or tensor.shape == call.row.inputs[position].shape)
            ),
            None,
        )
        if parent is None:
            return current
        call, position = current, parent
        origin = step.origin(current, parent)
        if origin is None:
            return current if current.is_view else None
        current = origin
    return None
