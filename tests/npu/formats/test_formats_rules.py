"""Which formats operators read and give, and the conversions in between."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu.formats import get_npu_format  # noqa: E402
from jumar.npu.formats.ledger import ledger  # noqa: E402  # the ledger needs the device


@pytest.fixture(autouse=True)
def first_generation():
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        yield


def blocked(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device="npu").npu_format_cast(3)


def dense(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device="npu")


def conversions(function, *args):
    """The result of `function`, and what was converted: (source, target, argument)."""
    seen: list[ledger.TransData] = []
    with ledger.follow(lambda execution: seen.extend(execution.transdata)):
        result = function(*args)
    return result, [(item.source_format, item.target_format, item.argument) for item in seen]


def test_a_half_convolution_keeps_its_result_in_blocks():
    weight = dense(20, 3, 3, 3).npu_format_cast(4)
    y, found = conversions(F.conv2d, dense(2, 3, 8, 8), weight)
    assert (str(get_npu_format(y)), found) == ("NC1HWC0", [("NCHW", "NC1HWC0", 0)])
    z, found = conversions(F.conv2d, y, dense(4, 20, 1, 1).npu_format_cast(4))
    assert (str(get_npu_format(z)), found) == ("NC1HWC0", [])


def test_a_dense_weight_is_converted_for_every_call():
    x, weight = blocked(2, 3, 8, 8), dense(20, 3, 3, 3)
    for _ in range(2):
        assert conversions(F.conv2d, x, weight)[1] == [("NCHW", "FRACTAL_Z", 1)]


def test_a_float_convolution_is_converted_before_and_after():
    y, found = conversions(F.conv2d, dense(2, 3, 8, 8, dtype=torch.float32), torch.ones(4, 3, 3, 3, device="npu"))
    assert str(get_npu_format(y)) == "NCHW"
    assert found == [("NCHW", "NC1HWC0", 0), ("NCHW", "FRACTAL_Z", 1), ("NC1HWC0", "NCHW", -1)]


def test_the_backward_of_a_convolution_converts_a_dense_gradient_for_each_kernel():
    x, weight = blocked(2, 16, 8, 8).requires_grad_(), nn.Parameter(dense(4, 16, 1, 1).npu_format_cast(4))
    y = F.conv2d(x, weight)
    _, found = conversions(lambda: y.backward(dense(2, 4, 8, 8)))
    assert found == [("NCHW", "NC1HWC0", 0), ("NCHW", "NC1HWC0", 0)]
    assert [str(get_npu_format(item.grad)) for item in (x, weight)] == ["NC1HWC0", "FRACTAL_Z"]


def test_a_whole_block_of_a_network_stays_in_blocks():
    model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)).npu().half()
    y, found = conversions(model, blocked(2, 16, 8, 8))
    assert (str(get_npu_format(y)), found) == ("NC1HWC0", [])


def test_relus_backward_follows_the_gradient_but_its_result_is_declared_like_the_forwards():
    result = blocked(2, 16, 4, 4)
    backward = torch.ops.aten.threshold_backward
    y, found = conversions(backward, dense(2, 16, 4, 4), result, 0)
    assert (str(get_npu_format(y)), found) == ("NC1HWC0", [("NC1HWC0", "NCHW", 1), ("NCHW", "NC1HWC0", -1)])
    gradient = dense(2, 16, 4, 4).npu_format_cast(3)
    assert conversions(backward, gradient, result, 0)[1] == []


@pytest.mark.parametrize(
    ("channels", "declared", "expected"),
    [(16, "NC1HWC0", []), (24, "NCHW", [("NC1HWC0", "NCHW", 0), ("NC1HWC0", "NCHW", 0)])],
)
def test_concatenation_is_in_blocks_only_where_channels_are_whole_blocks(channels, declared, expected):
    y, found = conversions(torch.cat, [blocked(2, channels, 4, 4), blocked(2, channels, 4, 4)], 1)
    assert (str(get_npu_format(y)), found) == (declared, expected)


def test_selecting_channels_is_dense_inside_and_converted_on_both_sides():
    index = torch.arange(16, device="npu")
    y, found = conversions(torch.index_select, blocked(2, 16, 4, 4), 1, index)
    assert (str(get_npu_format(y)), found) == ("NC1HWC0", [("NC1HWC0", "NCHW", 0), ("NCHW", "NC1HWC0", -1)])


def test_elementwise_operators_follow_their_first_argument():
    assert conversions(torch.add, blocked(2, 16, 4, 4), dense(2, 16, 4, 4))[1] == [("NCHW", "NC1HWC0", 1)]
    assert conversions(torch.add, dense(2, 16, 4, 4), blocked(2, 16, 4, 4))[1] == [("NC1HWC0", "NCHW", 1)]
    assert conversions(torch.mul, blocked(2, 16, 4, 4), 2)[1] == []
    assert conversions(torch.mul, blocked(2, 16, 4, 4), blocked(2, 16, 1, 1))[1] == []
    mixed = conversions(torch.mul, blocked(2, 16, 4, 4), dense(4, 4))[1]
    assert mixed == [("NC1HWC0", "NCHW", 0), ("NCHW", "NC1HWC0", -1)]


def test_parameter_updates_of_equal_format_convert_nothing():
    weight, gradient = blocked(24, 3, 3, 3), blocked(24, 3, 3, 3)
    assert conversions(weight.add_, gradient)[1] == []
    assert conversions(torch._foreach_add_, [weight, dense(3)], [gradient, dense(3)])[1] == []
    assert conversions(torch._foreach_add_, [weight], [dense(24, 3, 3, 3)])[1] == [("NCHW", "NC1HWC0", 1)]


def test_a_view_of_private_memory_is_converted_before_it_is_read():
    x = blocked(2, 16, 4, 4)
    y, found = conversions(lambda: x.view(2, -1).relu())
    assert (str(get_npu_format(y)), found) == ("ND", [("NC1HWC0", "NCHW", 0)])
    _, found = conversions(lambda: x.transpose(1, 2).contiguous())
    assert found == [("NC1HWC0", "NCHW", 0)]


def test_whole_blocks_of_channels_are_read_as_they_are():
    x = blocked(2, 32, 4, 4)
    assert conversions(x[:, 16:].relu)[1] == []
    assert conversions(x[:, 8:24].relu)[1] == [("NC1HWC0", "NCHW", 0)]


def test_writing_a_view_brings_its_memory_there_and_back():
    x = blocked(2, 16, 4, 4)
    _, found = conversions(lambda: x[:, :3].fill_(1))
    assert found[-2:] == [("NC1HWC0", "NCHW", -1), ("NCHW", "NC1HWC0", -1)]
    assert str(get_npu_format(x)) == "NC1HWC0"


def test_going_to_the_host_is_dense():
    assert conversions(blocked(2, 16, 4, 4).cpu)[1] == [("NC1HWC0", "NCHW", 0)]


@pytest.mark.parametrize(("size", "num"), [(32, 0), (33, 3)])
def test_matrix_products_are_dense_only_in_whole_blocks(size, num):
    assert len(conversions(torch.mm, dense(size, 32), dense(32, 16))[1]) == num


def test_matrices_in_nz_are_multiplied_as_they_are():
    torch.npu.set_option({"MM_BMM_ND_ENABLE": "disable"})
    a, b = dense(32, 32).npu_format_cast(29), dense(32, 32).npu_format_cast(29)
    y, found = conversions(lambda: a @ b.t())
    assert (str(get_npu_format(y)), found) == ("FRACTAL_NZ", [])


def test_later_chips_convert_nothing_by_default():
    with emulate("Ascend910B1"):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)).npu()
        y, found = conversions(model, torch.ones(2, 3, 8, 8, device="npu"))
        assert (str(get_npu_format(y)), found) == ("ND", [])


def test_later_chips_multiply_weights_in_nz_and_keep_results_dense():
    with emulate("Ascend910B1"):
        torch.npu.set_option({"ALLOW_INTERNAL_FORMAT": "enable"})
        x, weight = dense(5, 40), dense(40, 7).npu_format_cast(29)
        y, found = conversions(torch.mm, x, weight)
        assert (str(get_npu_format(y)), found) == ("ND", [])


def test_later_chips_use_blocks_in_convolutions_where_that_is_allowed():
    with emulate("Ascend910B1"):
        torch.npu.set_option({"ALLOW_INTERNAL_FORMAT": "enable"})
        y, found = conversions(F.conv2d, dense(2, 3, 8, 8), dense(4, 3, 3, 3))
        assert (str(get_npu_format(y)), len(found)) == ("NC1HWC0", 2)
        assert conversions(F.max_pool2d, dense(2, 3, 8, 8), 2)[1] == []


# What the migration guide changed in ShuffleNetV2, step by step, in its order.


def channel_shuffle(x, groups=2):
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


class Select(torch.autograd.Function):
    """The guide's IndexSelectFullImplementation, with or without its format cast."""

    @staticmethod
    def forward(ctx, x1, x2, forward, back1, back2, is_cast):
        ctx.back, ctx.is_cast = (back1, back2), is_cast
        return torch.cat([x1, x2], 1).index_select(1, forward)

    @staticmethod
    def backward(ctx, gradient):
        if ctx.is_cast:
            gradient.data = gradient.data.npu_format_cast(0)
        return *(gradient.index_select(1, index) for index in ctx.back), None, None, None, None


class Relu(torch.autograd.Function):
    """Relu whose backward casts the gradient first (the guide's item 8)."""

    @staticmethod
    def forward(ctx, x):
        y = x.relu()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient.npu_format_cast(y), y, 0)


class Unit(nn.Module):
    """A down-sampling unit of ShuffleNetV2: two branches, joined and shuffled."""

    def __init__(self, channels, relu, is_cast):
        super().__init__()
        half = channels // 2
        self.relu, self.is_cast = relu, is_cast
        self.left, self.right = (self.branch(channels, half) for _ in range(2))
        self.after = nn.Conv2d(channels, channels, 1)
        order = torch.arange(channels).view(2, half).t().flatten()
        self.register_buffer("forward_index", order)
        self.register_buffer("back1", torch.arange(0, channels, 2))
        self.register_buffer("back2", torch.arange(1, channels, 2))

    @staticmethod
    def branch(channels, half):
        return nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, half, 1),
            nn.BatchNorm2d(half),
        )

    def forward(self, x):
        a, b = self.relu(self.left(x)), self.relu(self.right(x))
        if self.is_cast is None:
            y = channel_shuffle(torch.cat([a, b], 1))
        else:
            y = Select.apply(a, b, self.forward_index, self.back1, self.back2, self.is_cast)
        return self.after(y)


def transdata_of_a_step(dtype=torch.float16, relu=torch.relu, is_cast=None, channels=48):
    torch.manual_seed(0)
    model = Unit(channels, relu, is_cast).npu()
    x = torch.randn(2, channels, 8, 8, device="npu", requires_grad=True)
    ledger.reset_counts()
    with torch.autocast("npu", dtype=torch.float16, enabled=dtype is torch.float16):
        y = model(x)
    y.sum().backward()
    return ledger.counts().num_transdata


def test_computing_in_half_saves_most_conversions():
    assert transdata_of_a_step(is_cast=False) < transdata_of_a_step(torch.float32, is_cast=False)


def test_casting_the_gradient_of_relu_saves_conversions():
    assert transdata_of_a_step(relu=Relu.apply) == transdata_of_a_step() - 2


def test_casting_the_gradient_before_selecting_saves_conversions():
    without = transdata_of_a_step(relu=Relu.apply, is_cast=False)
    assert transdata_of_a_step(relu=Relu.apply, is_cast=True) < without


def test_selecting_instead_of_shuffling_by_views_saves_conversions():
    assert transdata_of_a_step(is_cast=False) < transdata_of_a_step(is_cast=None)


def test_a_cast_before_two_selections_saves_one_conversion_of_the_gradient():
    gradient = blocked(2, 48, 8, 8)
    even, odd = (torch.arange(start, 48, 2, device="npu") for start in (0, 1))

    def select(x):
        return x.index_select(1, even), x.index_select(1, odd)

    _, without = conversions(select, gradient)
    _, with_cast = conversions(lambda: select(gradient.npu_format_cast(0)))
    assert [item[:2] for item in without].count(("NC1HWC0", "NCHW")) == 2
    assert [item[:2] for item in with_cast] == [("NC1HWC0", "NCHW")]
