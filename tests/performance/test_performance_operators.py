"""Bytes, layout and FLOPs of single operators; FLOPs against PyTorch's own counter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from step_builder import StepBuilder
from torch.utils.flop_counter import FlopCounterMode

from jumar.performance.flops import flops
from jumar.performance.layout import is_dense
from jumar.performance.operators import VIEW_OPERATORS, base_name, is_in_place, size_bytes, traffic_bytes
from jumar.performance.tally import bytes_text, number_text, split_source


@pytest.mark.parametrize(
    ("name", "base"),
    [("aten::add.Tensor", "add"), ("aten::mm", "mm"), ("torchvision::nms", "torchvision::nms"), ("x", "x")],
)
def test_the_base_name_drops_aten_and_the_overload(name, base):
    assert base_name(name) == base


@pytest.mark.parametrize(
    ("name", "expected"), [("aten::add_.Tensor", True), ("aten::add.Tensor", False), ("aten::__and__.Tensor", False)]
)
def test_in_place_operators_end_in_one_underscore(name, expected):
    assert is_in_place(name) is expected


def test_the_views_are_those_whose_schema_returns_an_unwritten_alias():
    aliasing = set()
    for schema in torch._C._jit_get_all_schemas():
        alias = [argument.alias_info for argument in schema.arguments if argument.alias_info]
        results = [result.alias_info for result in schema.returns if result.alias_info]
        if schema.name.startswith("aten::") and alias and results and not any(a.is_write for a in (*alias, *results)):
            aliasing.add(schema.name.removeprefix("aten::"))
    hides_alias = {name for name in VIEW_OPERATORS if "unsafe" in name} | {"chunk"}
    assert VIEW_OPERATORS - aliasing - hides_alias == set()
    common = {"view", "t", "transpose", "permute", "expand", "slice", "select", "split", "unbind", "detach", "alias"}
    assert common <= VIEW_OPERATORS


def test_an_expanded_dimension_is_stored_once():
    b = StepBuilder()
    assert size_bytes(b.view(b.tensor(1, 64), (32, 64), (0, 1))) == 64 * 4


def test_traffic_counts_inputs_once_and_what_is_written():
    b = StepBuilder()
    x = b.tensor(10, dtype="float16")
    b.op("aten::mul.Tensor", [x, x], b.tensor(10, dtype="float16"))
    b.op("aten::copy_", [b.tensor(10), x], b.tensor(10))
    b.op("aten::view", [x], b.view(x, (2, 5), (5, 1)))
    b.op("aten::embedding", [b.tensor(1000, 4), b.tensor(3, dtype="int64")], b.tensor(3, 4))
    assert [traffic_bytes(row) for row in b.rows] == [20 + 20, 20 + 40, 0, 48 + 24 + 48]


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [((2, 3), (3, 1), True), ((2, 3), (1, 2), True), ((2, 3), (6, 1), False), ((2, 3), (0, 1), False)],
)
def test_dense_means_one_block_in_any_order(shape, stride, expected):
    b = StepBuilder()
    assert is_dense(b.view(b.tensor(1), shape, stride)) is expected


CASES: dict[str, tuple[Callable[..., object], list[tuple[int, ...]], dict[str, object]]] = {
    "aten::mm": (torch.mm, [(3, 4), (4, 5)], {}),
    "aten::addmm": (torch.addmm, [(5,), (3, 4), (4, 5)], {}),
    "aten::bmm": (torch.bmm, [(2, 3, 4), (2, 4, 5)], {}),
    "aten::baddbmm": (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)], {}),
    "aten::convolution": (
        lambda x, w: torch.nn.functional.conv2d(x, w, groups=2),
        [(2, 4, 8, 8), (6, 2, 3, 3)],
        {"transposed": False},
    ),
    "transposed": (torch.nn.functional.conv_transpose2d, [(2, 4, 8, 8), (4, 6, 3, 3)], {"transposed": True}),
}


@pytest.mark.parametrize("case", list(CASES))
def test_flops_are_those_of_pytorchs_counter(case):
    function, shapes, arguments = CASES[case]
    tensors = [torch.zeros(shape) for shape in shapes]
    with FlopCounterMode(display=False) as counter:
        out = function(*tensors)
    b = StepBuilder()
    name = "aten::convolution" if case == "transposed" else case
    b.op(name, [b.tensor(*shape) for shape in shapes], b.tensor(*out.shape), arguments=arguments)
    assert flops(b.rows[0]) == counter.get_total_flops()


def test_flops_of_a_convolutions_backward_follow_its_mask():
    x, w = torch.zeros(2, 4, 8, 8, requires_grad=True), torch.zeros(6, 4, 3, 3, requires_grad=True)
    out = torch.nn.functional.conv2d(x, w)
    with FlopCounterMode(display=False) as counter:
        out.sum().backward()
    b = StepBuilder()
    inputs = [b.tensor(*out.shape), b.tensor(*x.shape), b.tensor(*w.shape)]
    grads = [b.tensor(*x.shape), b.tensor(*w.shape)]
    for mask in ([True, True, False], [False, True, False]):
        b.op("aten::convolution_backward", inputs, grads, arguments={"output_mask": mask, "transposed": False})
    assert flops(b.rows[0]) == counter.get_total_flops()
    assert flops(b.rows[1]) == counter.get_total_flops() // 2


def test_flops_of_attention_are_its_products():
    b = StepBuilder()
    q, k, v = (b.tensor(2, 3, length, 8) for length in (5, 7, 7))
    out = b.tensor(2, 3, 5, 8)
    b.op("aten::_scaled_dot_product_flash_attention", [q, k, v], out)
    b.op("aten::_scaled_dot_product_flash_attention_backward", [out, q, k, v], [q, k, v])
    assert [flops(row) for row in b.rows] == [2 * 2 * 6 * 5 * 7 * 8, 5 * 2 * 6 * 5 * 7 * 8]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (640, "640 B"), (12_897_485, "12.3 MiB"), (2**40, "1024 GiB"), (1536, "1.5 KiB")]
)
def test_bytes_are_said_in_binary_units(value, text):
    assert bytes_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(3.0, "3"), (2.667, "2.7"), (0.02, "0.02"), (1234, "1,234")])
def test_counts_have_one_digit_after_the_point_at_most(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("source", "parts"), [("train.py:41", ("train.py", 41)), ("", ("", None)), ("C:x.py", ("C:x.py", None))]
)
def test_a_source_is_a_path_and_a_line(source, parts):
    assert split_source(source) == parts
