"""ShuffleNetV2 as the migration guide rewrites it for the NPU: the same network, by index instead of transposes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from jumar import emulate
from jumar.device import DevicePlan, activate
from jumar.npu.formats.ledger import ledger

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor
NCHW, NC1HWC0 = 0, 3


def plain_shuffle(x: Tensor, groups: int) -> Tensor:
    """The framework's channel shuffle: a transposition of groups and the channels within."""
    batch, channels, height, width = x.shape
    grouped = x.view(batch, groups, channels // groups, height, width)
    return grouped.transpose(1, 2).contiguous().view(batch, channels, height, width)


def order(channels: int, groups: int) -> Tensor:
    """Where each channel of the shuffled tensor comes from."""
    return torch.arange(channels).reshape(groups, channels // groups).t().flatten()


class Whole(torch.autograd.Function):
    """Concatenation and shuffle by index; the gradient is selected too, after one cast to NCHW."""

    cast = True

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, forth: Tensor, back1: Tensor, back2: Tensor) -> Tensor:
        torch.npu.current_stream().synchronize()
        ctx.back = back1, back2
        return torch.cat([x1, x2], dim=1).index_select(1, forth)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        torch.npu.current_stream().synchronize()
        if Whole.cast:
            gradient.data = gradient.data.npu_format_cast(NCHW)
        back1, back2 = ctx.back
        # As in the guide: one None more than there are inputs, which autograd allows.
        return gradient.index_select(1, back1), gradient.index_select(1, back2), None, None, None, None


class Halves(torch.autograd.Function):
    """Concatenation, shuffle by index and split."""

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, *indices: Tensor) -> tuple[Tensor, Tensor]:
        forth1, forth2, *ctx.back = indices
        x = torch.cat([x1, x2], dim=1)
        return x.index_select(1, forth1), x.index_select(1, forth2)

    @staticmethod
    def backward(ctx: Any, gradient1: Tensor, gradient2: Tensor) -> tuple[Tensor | None, ...]:
        gradient = torch.cat([gradient1, gradient2], 1)
        return *(gradient.index_select(1, back) for back in ctx.back), None, None, None, None


class Shuffle(nn.Module):
    """The guide's layer: int32 indices as buffers, which `.to("npu")` takes along."""

    def __init__(self, channels: int, split: bool = True) -> None:
        super().__init__()
        self.split, half = split, channels // 2
        forth = order(channels, 2).int()
        for name, index in {
            "forth1": forth[:half],
            "forth2": forth[half:],
            "forth": forth,
            "back1": torch.arange(0, channels, 2, dtype=torch.int32),
            "back2": torch.arange(1, channels, 2, dtype=torch.int32),
        }.items():
            self.register_buffer(name, index)

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        if self.split:
            return Halves.apply(x1, x2, self.forth1, self.forth2, self.back1, self.back2)
        return Whole.apply(x1, x2, self.forth, self.back1, self.back2)


def conv_norm(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class Block(nn.Module):
    """The guide's inverted residual, before (`rewritten=False`) and after."""

    def __init__(self, inputs: int, outputs: int, stride: int, rewritten: bool, split: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.stride, self.split = stride, split
        self.branch1 = nn.Sequential()
        if stride > 1:
            self.branch1 = nn.Sequential(
                *conv_norm(inputs, inputs, 3, stride, inputs), *conv_norm(inputs, half), nn.ReLU(inplace=True)
            )
        self.branch2 = nn.Sequential(
            *conv_norm(inputs if stride > 1 else half, half),
            nn.ReLU(inplace=True),
            *conv_norm(half, half, 3, stride, half),
            *conv_norm(half, half),
            nn.ReLU(inplace=True),
        )
        self.shuffle = Shuffle(outputs, split) if rewritten else None

    def forward(self, x: Any) -> Any:
        if self.stride == 1:
            x1, x2 = x if self.shuffle is not None else x.chunk(2, dim=1)
            x2 = self.branch2(x2)
        else:
            x1, x2 = self.branch1(x), self.branch2(x)
        if self.shuffle is not None:
            return self.shuffle(x1, x2)
        return plain_shuffle(torch.cat((x1, x2), dim=1), 2)


class Network(nn.Module):
    def __init__(self, rewritten: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(*conv_norm(3, 8, 3, 2), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(
            Block(8, 16, 2, rewritten),
            Block(16, 16, 1, rewritten),
            Block(16, 16, 1, rewritten, split=False),
        )
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_selecting_channels_by_index_is_the_shuffle(groups):
    x = torch.randn(2, 232, 14, 14).to("npu")
    assert torch.equal(plain_shuffle(x, groups), x.index_select(1, order(232, groups).to("npu")))


@pytest.mark.parametrize("split", [True, False])
def test_the_fused_shuffle_has_the_result_and_the_gradients_of_the_plain_one(split):
    x1, x2 = (torch.randn(2, 6, 5, 3).to("npu").requires_grad_() for _ in range(2))
    weights = torch.randn(2, 12, 5, 3).to("npu")
    expected = plain_shuffle(torch.cat((x1, x2), dim=1), 2)
    expected_gradients = torch.autograd.grad((expected * weights).sum(), (x1, x2))
    actual = Shuffle(12, split).to("npu")(x1, x2)
    actual = torch.cat(actual, dim=1) if split else actual
    assert torch.equal(expected, actual)
    actual_gradients = torch.autograd.grad((actual * weights).sum(), (x1, x2))
    assert all(torch.equal(a, b) for a, b in zip(expected_gradients, actual_gradients, strict=True))


def test_the_indices_travel_with_the_module_and_its_checkpoint():
    layer = Shuffle(8).to("npu")
    assert {("npu", torch.int32)} == {(index.device.type, index.dtype) for index in layer.buffers()}
    assert layer.state_dict()["forth1"].tolist() == [0, 4, 1, 5]


@pytest.mark.parametrize("training", [True, False])
def test_the_rewritten_network_is_the_network(training):
    torch.manual_seed(0)
    before, after = Network(rewritten=False), Network(rewritten=True)
    after.load_state_dict(before.state_dict(), strict=False)
    images = torch.randn(4, 3, 32, 32).to("npu")
    losses, gradients = [], []
    for network in (before, after):
        network.to("npu").train(training)
        loss = network(images).pow(2).sum()
        loss.backward()
        losses.append(loss.item())
        gradients.append([parameter.grad for parameter in network.parameters()])
    assert losses[0] == losses[1]
    # Not to the bit: the plain backward adds the gradients of both halves up in another order.
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


def conversions(cast: bool) -> Counter[str]:
    """Count conversions of NC1HWC0 to NCHW by operator where the gradient comes in NC1HWC0."""
    x1, x2 = (torch.randn(2, 16, 6, 6).to("npu").requires_grad_() for _ in range(2))
    result = Shuffle(32, split=False).to("npu")(x1, x2)
    gradient = torch.randn(2, 32, 6, 6).to("npu").npu_format_cast(NC1HWC0)
    found: Counter[str] = Counter()

    def note(execution: ledger.Execution) -> None:
        for item in execution.transdata:
            found[execution.event.operator] += (item.source_format, item.target_format) == ("NC1HWC0", "NCHW")

    Whole.cast = cast
    try:
        with ledger.follow(note):
            result.backward(gradient)
    finally:
        Whole.cast = True
    return +found


def test_one_cast_to_nchw_saves_the_second_conversion_of_the_gradient():
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        without, with_cast = conversions(cast=False), conversions(cast=True)
    assert without == {"aten::index_select": 2}
    assert with_cast == {"npu::npu_format_cast": 1}
