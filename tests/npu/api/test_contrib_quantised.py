"""Quantised layers of `torch_npu.contrib.module`, and its loss with smoothed labels."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate
from jumar.npu.api.contrib import module
from jumar.npu.core.events import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor
DEPRECATED = "torch_npu.contrib.module.LinearA8W8Quant is deprecated"


def whole(*shape: int, bound: int = 20, seed: int = 0) -> Tensor:
    return torch.randint(-bound, bound, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


def filled(layer: torch.nn.Module, **values: Tensor) -> torch.nn.Module:
    """Give a layer on the npu the parameters of a checkpoint."""
    layer.npu()
    for name, value in values.items():
        getattr(layer, name).data = value.npu()
    return layer


def linear(name: str, *args, **kwargs) -> torch.nn.Module:
    if name == "LinearQuant":
        return module.LinearQuant(*args, **kwargs)
    with pytest.warns(FutureWarning, match=DEPRECATED):
        return module.LinearA8W8Quant(*args, **kwargs)


each_name = pytest.mark.parametrize("name", ["LinearQuant", "LinearA8W8Quant"])


@each_name
@pytest.mark.parametrize("pertoken", [False, True])
@pytest.mark.parametrize("output_dtype", [torch.float16, torch.bfloat16])
def test_a_quantised_linear_layer_is_an_integer_product_scaled(name, pertoken, output_dtype):
    x, weight = whole(6, 16), whole(8, 16, seed=1)
    scale, bias = torch.rand(8) / 64 + 0.01, torch.arange(-4, 4, dtype=torch.int32) * 10
    values = {"weight": weight, "scale": scale, "bias": bias}
    rows = torch.rand(6) + 0.5
    if pertoken:
        values["pertoken_scale"] = rows
    layer = filled(linear(name, 16, 8, pertoken_scale=pertoken, output_dtype=output_dtype), **values)
    expected = (x.long() @ weight.long().t() + bias) * scale * (rows[:, None] if pertoken else 1)
    result = layer(x.npu())
    assert result.dtype == output_dtype
    torch.testing.assert_close(result.cpu().float(), expected.float(), rtol=1e-2, atol=2e-2)


@each_name
def test_a_quantised_linear_layer_gives_int8_by_default_with_an_offset(name):
    x, weight = whole(4, 16), whole(8, 16, seed=1)
    scale, offset = torch.rand(8) / 64 + 0.01, torch.arange(8.0)
    layer = filled(linear(name, 16, 8, bias=False, offset=True), weight=weight, scale=scale, offset=offset)
    expected = ((x.long() @ weight.long().t()) * scale + offset).round().clamp(-128, 127)
    result = layer(x.npu())
    assert result.dtype == torch.int8
    # One off where rounding is decided beyond the precision of the packed scale.
    assert (result.cpu() - expected).abs().max() <= 1
    assert (result.cpu() == expected).float().mean() > 0.9


@each_name
def test_a_quantised_linear_layer_is_two_operators(name):
    layer = filled(linear(name, 16, 8, bias=False), weight=whole(8, 16), scale=torch.ones(8))
    operators: list[str] = []
    with listen(lambda event: operators.append(event.operator)):
        layer(whole(2, 16).npu())
    assert [o for o in operators if o.startswith("npu::")] == ["npu::npu_trans_quant_param", "npu::npu_quant_matmul"]


@each_name
def test_a_quantised_linear_layer_wants_equal_integers(name):
    layer = filled(linear(name, 16, 8, bias=False), weight=whole(8, 16), scale=torch.ones(8))
    with pytest.raises(ValueError, match=r"input is torch\.int32, weight is torch\.int8"):
        layer(whole(2, 16).int().npu())
    with pytest.raises(ValueError, match=r"input is torch\.float32, weight is torch\.float32"):
        filled(layer, weight=torch.ones(8, 16))(torch.ones(2, 16).npu())


@each_name
def test_a_quantised_linear_layer_trains_nothing(name):
    layer = linear(name, 16, 8, offset=True, pertoken_scale=True)
    assert {parameter: value.requires_grad for parameter, value in layer.named_parameters()} == dict.fromkeys(
        ("weight", "scale", "offset", "pertoken_scale", "bias"), False
    )
    assert (layer.bias.dtype, layer.weight.shape) == (torch.int32, (8, 16))
    assert list(linear(name, 16, 8, bias=False).state_dict()) == ["weight", "scale"]


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ({"scale": torch.ones(8).half()}, {}, r"scale should be torch\.int64, torch\.float32 or torch\.bfloat16"),
        ({"offset": torch.ones(8).half()}, {"offset": True}, r"offset should be torch\.float32 datatype"),
        ({"bias": torch.ones(8).long()}, {"bias": True}, r"bias should be torch\.int32, .* it is torch\.int64"),
        (
            {"pertoken_scale": torch.ones(8).half()},
            {"pertoken_scale": True},
            r"pertoken_scale should be torch\.float32 datatype",
        ),
        ({}, {"output_dtype": torch.float32}, r"output_dtype should be torch\.int8, torch\.float16 or torch\.bfloat16"),
    ],
)
def test_the_older_layer_checks_dtypes(values, options, words):
    layer = linear("LinearA8W8Quant", 16, 8, **{"bias": False, **options})
    filled(layer, **{"weight": whole(8, 16), "scale": torch.ones(8), **values})
    with pytest.raises(ValueError, match=words):
        layer(whole(2, 16).npu())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("group_size", [0, 32])
def test_a_layer_with_quantised_weight_makes_it_float_again(dtype, group_size):
    torch.manual_seed(0)
    x, weight = torch.randn(5, 64).to(dtype), whole(8, 64, bound=100)
    groups = (8, 2) if group_size else (8,)
    scale, offset = (torch.rand(groups) / 100).to(dtype), torch.randint(-5, 5, groups).to(dtype)
    layer = module.LinearWeightQuant(64, 8, antiquant_offset=True, antiquant_group_size=group_size)
    bias = torch.randn(8).to(torch.float16 if dtype == torch.float16 else torch.float32)
    filled(layer, weight=weight, antiquant_scale=scale, antiquant_offset=offset, bias=bias)
    spread = (lambda t: t.repeat_interleave(32, 1)) if group_size else (lambda t: t[:, None])
    full = ((weight + spread(offset.float())) * spread(scale.float())).to(dtype)
    expected = x.float() @ full.float().t() + bias.float()
    result = layer(x.npu())
    assert result.dtype == dtype
    torch.testing.assert_close(result.cpu().float(), expected, rtol=2e-2, atol=2e-2)


def test_a_layer_with_quantised_weight_keeps_what_was_asked_for():
    layer = module.LinearWeightQuant(4, 3, False, quant_scale=True, quant_offset=True, device="npu")
    assert [name for name, _ in layer.named_parameters()] == [
        "weight",
        "antiquant_scale",
        "quant_scale",
        "quant_offset",
    ]
    assert {parameter.device.type for parameter in layer.parameters()} == {"npu"}
    assert (layer.bias, layer.antiquant_offset) == (None, None)


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), ((2, 1), (1, 2), 2, 2)])
def test_a_quantised_convolution_is_an_integer_convolution_scaled(stride, padding, dilation, groups):
    x, weight = whole(2, 4, 7, 8), whole(6, 4 // groups, 3, 3, seed=1)
    scale, bias = torch.rand(6) / 64 + 0.01, torch.arange(6, dtype=torch.int32) * 5
    layer = module.QuantConv2d(4, 6, 3, torch.float16, stride, padding, dilation, groups)
    filled(layer, weight=weight, scale=scale, bias=bias)
    sums = functional.conv2d(x.double(), weight.double(), bias.double(), stride, padding, dilation, groups)
    result = layer(x.npu())
    assert result.dtype == torch.float16
    torch.testing.assert_close(result.cpu().double(), sums * scale.view(-1, 1, 1), rtol=1e-2, atol=2e-2)


def test_a_quantised_convolution_pads_with_a_value_and_takes_the_number_of_a_dtype():
    x, weight = whole(1, 1, 3, 3), torch.ones(1, 1, 3, 3, dtype=torch.int8)
    half = 5  # the number of torch.float16 in the vendor's schema
    layer = module.QuantConv2d(1, 1, 3, half, padding=1, offset_x=7, bias=False)
    filled(layer, weight=weight, scale=torch.ones(1))
    padded = functional.pad(x.float(), (1, 1, 1, 1), value=7.0)
    expected = functional.avg_pool2d(padded, 3, 1, divisor_override=1)
    assert torch.equal(layer(x.npu()).cpu(), expected.half())


def test_the_operator_of_a_quantised_convolution_wants_a_dtype_of_floats():
    x, scale = torch.ones(1, 1, 4, 4, dtype=torch.int8).npu(), torch.ones(1).npu()
    for given, words in ((None, "cannot be None"), (torch.int8, "must be float16")):
        with pytest.raises(RuntimeError, match=words):
            torch.ops.npu.npu_quant_conv2d(x, x, scale, output_dtype=given)
    found = torch.ops.npu.npu_quant_conv2d(x, x, scale, output_dtype=torch.bfloat16)
    assert (found.dtype, found.item()) == (torch.bfloat16, 16.0)


def test_a_quantised_convolution_of_other_numbers_is_refused():
    layer = filled(module.QuantConv2d(1, 1, 3, torch.float16, bias=False), scale=torch.ones(1))
    with pytest.raises(RuntimeError, match="input must be one of int8"):
        layer(torch.ones(1, 1, 4, 4).npu())
    x, scale = torch.ones(1, 1, 4, 4, dtype=torch.int8).npu(), torch.ones(1).npu()
    with pytest.raises(NotImplementedError, match="hifloat8"):
        torch.ops.npu.npu_quant_conv2d(x, x, scale, output_dtype=5, input_dtype=290, weight_dtype=290)


def test_a_quantised_convolution_has_no_offset():
    with pytest.raises(ValueError, match="offset must be False"):
        module.QuantConv2d(4, 6, 3, torch.float16, offset=True)
    layer = module.QuantConv2d(4, 6, (3, 5), torch.float16, bias=False)
    assert (layer.bias, layer.offset, layer.scale.dtype) == (None, None, torch.int64)
    assert layer.weight.shape == (6, 4, 3, 5)


@pytest.mark.parametrize("smooth", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_smoothed_labels_spread_over_the_other_classes(smooth, dtype):
    logits, labels = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 6, 2, 2, 3])
    found = []
    for device in ("npu", "cpu"):
        leaf = logits.to(dtype if device == "npu" else torch.float32).to(device).requires_grad_()
        if device == "npu":
            loss = module.LabelSmoothingCrossEntropy(7, smooth)(leaf, labels.npu())
        else:
            targets = torch.full((5, 7), smooth / 6).scatter_(1, labels[:, None], 1 - smooth)
            loss = functional.cross_entropy(leaf, targets)
        loss.backward()
        found.append([loss.detach().cpu(), leaf.grad.cpu().float()])
    assert found[0][0].dtype == torch.float32
    tolerance = 1e-5 if dtype == torch.float32 else 5e-3
    torch.testing.assert_close(found[0], found[1], rtol=tolerance, atol=tolerance)
