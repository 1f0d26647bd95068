"""Dtypes, FLOPs and schemas agree with PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from jumar.operators.dtypes import DTYPES, Dtype, dtype, epsilon, largest, size_bytes
from jumar.operators.flops import Product, flops, product
from jumar.operators.schemas import defaults, overloads, schema


@pytest.mark.parametrize("item", DTYPES.values(), ids=lambda item: item.name)
def test_limits_are_those_of_pytorch(item: Dtype) -> None:
    of_torch = getattr(torch, item.name)
    assert item.size_bytes == of_torch.itemsize
    if item.kind in ("float", "complex"):
        info = torch.finfo(of_torch)
        assert (item.largest, item.lowest, item.smallest_normal) == (info.max, info.min, info.smallest_normal)
        if item.name != "float8_e5m2fnuz":  # torch.finfo says 0.125, one bit of mantissa too much
            assert item.epsilon == info.eps
    elif item.kind == "int":
        whole = torch.iinfo(of_torch)
        assert (item.largest, item.lowest) == (float(whole.max), float(whole.min))


@pytest.mark.parametrize("name", ["float16", "torch.float16", "fp16", "half", "HALF", "DT_FLOAT16", "f16"])
def test_a_type_has_many_names(name: str) -> None:
    assert dtype(name) is DTYPES["float16"]


def test_both_names_of_the_8_bit_float_are_one_type() -> None:
    assert dtype("float8_e4m3") is DTYPES["float8_e4m3fn"]
    assert largest("float8_e4m3") == 448.0


def test_unknown_types_have_a_safe_answer() -> None:
    assert dtype("quint8") is None
    assert (size_bytes("quint8"), size_bytes("quint8", 1), epsilon("quint8"), largest("int8")) == (4, 1, 0.0, None)


def _counted(function: Any, *arguments: Any, **keywords: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        function(*arguments, **keywords)
    return int(counter.get_total_flops())


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", [(3, 4), (4, 5)]),
        ("addmm", [(3, 5), (3, 4), (4, 5)]),
        ("bmm", [(2, 3, 4), (2, 4, 5)]),
        ("baddbmm", [(2, 3, 5), (2, 3, 4), (2, 4, 5)]),
    ],
)
def test_products_count_as_in_pytorch(name: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = [torch.ones(shape) for shape in shapes]
    assert flops(f"aten::{name}", shapes) == _counted(getattr(torch, name), *tensors)


def test_linear_is_a_product() -> None:
    assert product("aten::linear", [(2, 3, 4), (5, 4), (5,)]) == Product(1, 6, 4, 5)


@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_count_as_in_pytorch(transposed: bool) -> None:
    data, weight = torch.ones(2, 4, 8, 8, requires_grad=True), torch.ones(4, 4, 3, 3, requires_grad=True)
    arguments = ([1, 1], [1, 1], [1, 1], transposed, [0, 0], 1)
    out = torch.ops.aten.convolution(data, weight, None, *arguments)
    counted = _counted(torch.ops.aten.convolution, data, weight, None, *arguments)
    named = {"transposed": transposed}
    assert flops("aten::convolution", [data.shape, weight.shape], [out.shape], named) == counted
    whole = _counted(
        lambda: torch.autograd.grad(torch.ops.aten.convolution(data, weight, None, *arguments).sum(), (data, weight))
    )
    backward = flops("aten::convolution_backward", [out.shape, data.shape, weight.shape], (), named)
    assert backward == whole - counted


def test_attention_counts_as_in_pytorch() -> None:
    query, key = (2, 3, 5, 8), (2, 3, 7, 8)
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert flops(name, [query, key, key]) == sdpa_flop_count(query, key, key)  # type: ignore[no-untyped-call]
    backward = sdpa_backward_flop_count(query, query, key, key)  # type: ignore[no-untyped-call]
    assert flops(f"{name}_backward", [query, query, key, key]) == backward


def test_other_operators_have_no_formula() -> None:
    assert flops("aten::add.Tensor", [(3, 4), (3, 4)]) is None
    assert flops("aten::convolution", [(3, 4)]) is None


def test_schemas_are_read_as_pytorch_writes_them() -> None:
    for name in ("aten::add.Tensor", "aten::convolution_backward", "aten::_foreach_add_.List", "aten::split.Tensor"):
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        live = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")._schema
        found = schema(name)
        assert found is not None
        assert found.names == tuple(argument.name for argument in live.arguments)
        assert [argument.is_keyword for argument in found.arguments] == [item.kwarg_only for item in live.arguments]
        assert defaults(name) == {item.name: item.default_value for item in live.arguments if item.has_default_value()}


def test_a_name_without_overload_means_the_unnamed_one() -> None:
    found = schema("relu")
    assert found is not None
    assert found.text.startswith("aten::relu(Tensor self)")
    assert schema("no_such_operator") is None
    assert "Tensor" in overloads("add")
