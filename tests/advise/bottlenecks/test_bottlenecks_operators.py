"""Bytes, layout and FLOPs of single operators; FLOPs against PyTorch's own counter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from step_builder import StepBuilder
from torch.utils.flop_counter import FlopCounterMode

from jumar.advise.bottlenecks.layout import is_dense
from jumar.advise.bottlenecks.tally import number_text
from jumar.advise.bottlenecks.tensors import copy_of, flops, is_view, size_bytes, traffic_bytes, written_storages
from jumar.recording.schema import split_source


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


def test_what_is_overwritten_is_not_read():
    b = StepBuilder()
    x, y = b.tensor(10), b.tensor(10)
    b.op("aten::zero_", [x], x)
    b.op("aten::add_.Tensor", [x, y], x)
    b.op("aten::_copy_from", [x, y], None)
    assert [traffic_bytes(row) for row in b.rows] == [40, 120, 40]


def test_a_reshape_is_a_view_where_the_result_lies_in_its_inputs_storage():
    b = StepBuilder()
    x = b.tensor(4, 4)
    for output in (b.view(x, (16,), (1,)), b.tensor(16)):
        b.op("aten::reshape", [x], output)
        b.op("aten::contiguous", [x], output)
    b.op("aten::unsqueeze_", [x], b.view(x, (1, 4, 4), (16, 4, 1)))
    b.op("aten::resize_", [x], x)
    assert [is_view(row) for row in b.rows] == [True, True, False, False, True, False]


def test_the_source_and_the_target_of_a_copy_are_told_apart():
    b = StepBuilder()
    x, y = b.tensor(4), b.tensor(4, dtype="float16")
    b.op("aten::copy_", [x, y], x)
    b.op("aten::_copy_from", [x, y], y)
    b.op("aten::_to_copy", [x], y)
    b.op("aten::_foreach_copy_", [[x, x], [y, y]])
    b.op("aten::add.Tensor", [x, y], x)
    copies = [copy_of(row) for row in b.rows]
    assert [None if copy is None else (copy.position, copy.target.dtype) for copy in copies] == [
        (1, "float32"), (0, "float16"), (0, "float16"), None, None
    ]  # fmt: skip


def test_running_statistics_are_written():
    b = StepBuilder()
    x, mean, variance = b.tensor(2, 3, 4, 4), b.tensor(3), b.tensor(3)
    b.op("aten::native_batch_norm", [x, b.tensor(3), b.tensor(3), mean, variance], b.tensor(2, 3, 4, 4))
    written = written_storages(b.rows[0])
    assert {mean.storage, variance.storage} < written
    assert x.storage not in written


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


@pytest.mark.parametrize(("value", "text"), [(3.0, "3"), (2.667, "2.7"), (0.02, "0.02"), (1234, "1,234")])
def test_counts_have_one_digit_after_the_point_at_most(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("source", "parts"), [("train.py:41", ("train.py", 41)), ("", (None, None)), ("C:x.py", ("C:x.py", None))]
)
def test_a_source_is_a_path_and_a_line(source, parts):
    assert split_source(source) == parts
