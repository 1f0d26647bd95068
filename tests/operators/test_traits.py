"""Names and traits of operators, in every spelling."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from jumar.operators import (
    base_name,
    canonical_name,
    draws,
    functional_name,
    has,
    has_any,
    is_foreach,
    is_in_place,
    listed,
    named,
    operator,
    parse,
    short_name,
    writes,
)
from jumar.operators.traits import npu_equivalents, of_overload


@pytest.mark.parametrize(
    ("name", "base", "functional", "canonical"),
    [
        ("aten::add_.Tensor", "add_", "add", "add"),
        ("aten::__iand__.Tensor", "__iand__", "__and__", "__and__"),
        ("aten::__and__.Tensor", "__and__", "__and__", "__and__"),
        ("aten::_softmax", "_softmax", "_softmax", "softmax"),
        ("aten::_foreach_add_.List", "_foreach_add_", "_foreach_add", "add"),
        ("aten::convolution_overrideable", "convolution_overrideable", "convolution_overrideable", "convolution"),
        ("npu::npu_dtype_cast", "npu_dtype_cast", "npu_dtype_cast", "_to_copy"),
        ("relu_", "relu_", "relu", "relu"),
    ],
)
def test_one_parser_makes_every_form_of_a_name(name: str, base: str, functional: str, canonical: str) -> None:
    assert (base_name(name), functional_name(name), canonical_name(name)) == (base, functional, canonical)


def test_a_name_has_parts() -> None:
    assert parse("aten::add_.Tensor") == ("aten", "add_", "Tensor")
    assert parse("add_") == ("", "add_", "")
    assert (short_name("aten::add_.Tensor"), short_name("torchvision::nms")) == ("add_", "torchvision::nms")
    assert [is_in_place(name) for name in ("aten::add_", "__iand__", "__and__", "add")] == [True, True, False, False]
    assert is_foreach("aten::_fused_adamw_")
    assert not is_foreach("aten::add_")


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("aten::view", "view"),
        ("expand_as", "aliases"),
        ("_unsafe_view", "aliases"),
        ("aten::relu_", "in_place"),
        ("aten::relu.out", "out"),
        ("aten::zeros_like", "shape_only"),
        ("aten::empty.memory_format", "factory"),
        ("aten::sym_size.int", "query"),
        ("aten::item", "to_host"),
        ("aten::nonzero", "sized_by_values"),
        ("aten::max.other", "pointwise"),
        ("aten::max.dim", "reduction"),
        ("aten::reshape", "composite"),
        ("aten::convolution_backward", "backward"),
        ("aten::_foreach_mul_.Scalar", "foreach"),
        ("c10d::allreduce_", "collective"),
        ("profiler::_record_function_enter_new", "marker"),
        ("aten::_standard_gamma", "random"),
        ("aten::binomial", "random"),
        ("npu::npu_fusion_attention", "draws"),
        ("cat", "exact"),
        ("convolution_overrideable", "convolution"),
    ],
)
def test_operators_have_their_traits(name: str, trait: str) -> None:
    assert has(name, trait)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("aten::reshape", "random"),
        ("aten::_fused_sdp_choice", "draws"),
        ("aten::native_dropout", "random"),
        ("aten::index.Tensor", "sized_by_values"),
        ("aten::equal", "pointwise"),
        ("_to_copy", "aliases"),
        ("bernoulli", "exact"),
        ("max", "pointwise"),
    ],
)
def test_operators_have_no_other_traits(name: str, trait: str) -> None:
    assert not has(name, trait)  # type: ignore[arg-type]


def test_an_unknown_operator_has_only_what_its_name_tells() -> None:
    unknown = operator("mylib::scale_.Tensor")
    assert not unknown.known
    assert unknown.traits == {"in_place"}
    assert unknown.writes == ()
    assert not draws("mylib::scale_")
    assert canonical_name("mylib::scale_") == "scale"


def test_sets_of_names_hold_every_spelling() -> None:
    assert {"add_", "add"} <= named("elementwise")
    assert {"softmax", "_softmax", "softmax_backward"} <= named("softmax")
    assert "softmax_backward" in named("backward", "softmax")
    assert "convolution_backward" not in named("convolution") - named("backward")
    assert has_any("mm", "product", "convolution")


def test_arguments_decide_whether_a_call_draws() -> None:
    attention = "aten::scaled_dot_product_attention"
    assert not draws(attention, {})
    assert draws(attention, {"dropout_p": 0.1})
    assert draws(attention)
    assert not draws("aten::native_dropout", {"p": 0.5, "train": False})
    assert draws("aten::native_dropout", {"p": 0.5, "train": True})
    assert not draws("npu::npu_fusion_attention", {"keep_prob": 1.0})
    assert draws("aten::bernoulli.p", {"p": 0.0})


def test_written_arguments_include_running_statistics() -> None:
    assert writes("aten::native_batch_norm") == (3, 4)
    assert writes("aten::add_.Tensor") == (0,)
    assert writes("aten::add.Tensor") == ()


def test_lists_name_overloads() -> None:
    assert "pow.Tensor_Scalar" in listed("autocast_float32")
    assert npu_equivalents()["mkldnn_linear"] == "addmm"


def test_a_live_operator_is_read_from_its_schema() -> None:
    with torch.library._scoped_library("jumar_test_operators", "DEF") as library:
        library.define("noise(Tensor(a!) x, Generator? g) -> Tensor(a!)")
        found = of_overload(torch.ops.jumar_test_operators.noise.default)
    assert found.known
    assert found.writes == (0,)
    assert {"draws", "random"} <= found.traits
    assert of_overload(torch.ops.aten.add.Tensor) == operator("aten::add.Tensor")


def test_importing_the_vocabulary_loads_no_torch_and_no_data() -> None:
    code = (
        "import sys, jumar.operators, jumar.operators.data as data; "
        "assert 'torch' not in sys.modules; assert not data.computed.cache_info().currsize; "
        "assert jumar.operators.has('add_', 'in_place'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
