"""Channel shuffle of ShuffleNet by index, fused with the concatenation before and the split behind it."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from jumar.npu.formats import Format

Tensor = torch.Tensor

__all__ = [
    "ChannelShuffle",
    "IndexSelectFullImplementation",
    "IndexSelectHalfImplementation",
    "indexselect_full_implementation_forward",
    "indexselect_half_implementation_forward",
]


class ChannelShuffle(nn.Module):
    """Concatenates two tensors along the channels, shuffles these and, by default, splits them in half again.

    `in_channels` counts both tensors together, which are (batch, in_channels / 2, ...). Two groups are
    supported; the gradients of another number are those of two groups, as on the NPU, and a warning says so.
    The indices follow the first input to its device and are no buffers: they are not in the state dict.
    """

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        if groups != 2:
            warnings.warn(
                f"ChannelShuffle of {groups} groups has the gradients of two groups, as on the NPU.",
                UserWarning,
                stacklevel=2,
            )
        self.split_shuffle = split_shuffle
        self.group_len = in_channels // groups
        self.out_channels = torch.arange(in_channels).view(groups, self.group_len).t().flatten()
        if split_shuffle:
            self.fp_index1 = self.out_channels[: self.group_len]
            self.fp_index2 = self.out_channels[self.group_len :]
        else:
            self.fp_index = self.out_channels
        self.bp_index1 = torch.arange(0, in_channels, 2)
        self.bp_index2 = torch.arange(1, in_channels, 2)
        self.checked = False

    def check_self(self, x: Tensor) -> None:
        """Move the indices to the device of `x`; on an npu they become int32."""
        if self.bp_index1.device == x.device:
            self.checked = True
            return
        dtype = torch.int32 if x.device.type == "npu" else self.bp_index1.dtype
        names = ["fp_index1", "fp_index2"] if self.split_shuffle else ["fp_index"]
        for name in (*names, "bp_index1", "bp_index2"):
            setattr(self, name, getattr(self, name).to(dtype).to(x.device))

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        """Return two tensors of the inputs' shape, or with `split_shuffle=False` one of twice their channels."""
        if not self.checked:
            self.check_self(x1)
        if self.split_shuffle:
            if not self.training:
                return indexselect_half_implementation_forward(x1, x2, self.fp_index1, self.fp_index2)
            return IndexSelectHalfImplementation.apply(  # type: ignore[no-untyped-call]
                x1, x2, self.fp_index1, self.fp_index2, self.bp_index1, self.bp_index2
            )
        if not self.training:
            return indexselect_full_implementation_forward(x1, x2, self.fp_index)
        return IndexSelectFullImplementation.apply(  # type: ignore[no-untyped-call]
            x1, x2, self.fp_index, self.bp_index1, self.bp_index2
        )


def indexselect_full_implementation_forward(x1: Tensor, x2: Tensor, fp_index: Tensor) -> Tensor:
    """Return the channels of both tensors in the order `fp_index`."""
    return torch.cat([x1, x2], dim=1).index_select(1, fp_index)


def indexselect_half_implementation_forward(
    x1: Tensor, x2: Tensor, fp_index1: Tensor, fp_index2: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the channels `fp_index1` and the channels `fp_index2` of both tensors."""
    x = torch.cat([x1, x2], dim=1)
    return x.index_select(1, fp_index1), x.index_select(1, fp_index2)


class IndexSelectFullImplementation(torch.autograd.Function):
    """Concatenation and shuffle; its backward selects by index too, where PyTorch's own adds up."""

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, fp_index: Tensor, bp_index1: Tensor, bp_index2: Tensor) -> Tensor:
        """Return the channels of both tensors in the order `fp_index`."""
        _synchronize(x1)
        ctx.bp_index1, ctx.bp_index2 = bp_index1, bp_index2
        return indexselect_full_implementation_forward(x1, x2, fp_index)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of both tensors, selected from a gradient in NCHW."""
        if grad_output.device.type == "npu":
            _synchronize(grad_output)
            # NOTE: index_select has no NC1HWC0 kernel; converting once here saves the second conversion.
            grad_output.data = torch.ops.npu.npu_format_cast(grad_output.data, int(Format.NCHW))
        return (*_both(grad_output, ctx), None, None, None)


class IndexSelectHalfImplementation(torch.autograd.Function):
    """Concatenation, shuffle and split."""

    @staticmethod
    def forward(
        ctx: Any,
        x1: Tensor,
        x2: Tensor,
        fp_index1: Tensor,
        fp_index2: Tensor,
        bp_index1: Tensor,
        bp_index2: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the channels `fp_index1` and the channels `fp_index2` of both tensors."""
        ctx.bp_index1, ctx.bp_index2 = bp_index1, bp_index2
        return indexselect_half_implementation_forward(x1, x2, fp_index1, fp_index2)

    @staticmethod
    def backward(ctx: Any, grad_output1: Tensor, grad_output2: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of both tensors."""
        return (*_both(torch.cat([grad_output1, grad_output2], 1), ctx), None, None, None, None)


def _both(grad: Tensor, ctx: Any) -> tuple[Tensor, Tensor]:
    return grad.index_select(1, ctx.bp_index1), grad.index_select(1, ctx.bp_index2)


def _synchronize(x: Tensor) -> None:
    if x.device.type == "npu":
        pytorch: Any = torch
        pytorch.npu.current_stream().synchronize()
