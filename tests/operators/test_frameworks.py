"""Operators of MindSpore and TensorFlow are what PyTorch's operators of the same calculation are."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from jumar.operators import base_name, canonical_name, draws, has, operator
from jumar.operators.data import FOLDER, torch_names
from jumar.operators.names import FRAMEWORKS, framework_of


@pytest.mark.parametrize("framework", FRAMEWORKS.values())
def test_each_name_stands_on_one_line_and_names_an_operator_of_pytorch(framework: str) -> None:
    lines = json.loads((FOLDER / f"{framework}.json").read_text("utf-8"))
    counts = Counter(name for names in lines.values() for name in names.split())
    assert [name for name, times in counts.items() if times > 1] == []
    assert [base for base in lines if not operator(base).known] == []


@pytest.mark.parametrize("prefix", FRAMEWORKS)
def test_a_name_of_a_framework_is_known_by_its_prefix(prefix: str) -> None:
    assert framework_of(f"{prefix}MatMul") == FRAMEWORKS[prefix]
    assert base_name(f"{prefix}MatMul") == "mm"
    assert framework_of("aten::mm") == framework_of("mm") == framework_of("torchvision::nms") == ""


def test_frameworks_share_names_of_calculations() -> None:
    assert canonical_name("tf::BatchMatMulV2") == canonical_name("ms::BatchMatMul") == canonical_name("aten::bmm")
    assert canonical_name("tf::Softmax") == canonical_name("aten::_softmax.out")
    assert canonical_name("tf::FusedBatchNormV3") == canonical_name("aten::cudnn_batch_norm")
    assert canonical_name("tf::MyOwnOperator") != canonical_name("aten::mm")
    assert not operator("tf::MyOwnOperator").known


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("Reshape", "aliases"),
        ("Cast", "copies"),
        ("Identity", "transport"),
        ("RealDiv", "singular"),
        ("Log", "dividing"),
        ("Rsqrt", "singular"),
        ("Exp", "exponential"),
        ("MatMul", "product"),
        ("DepthwiseConv2dNative", "convolution"),
        ("MaxPool", "pooling"),
        ("FusedBatchNormV3", "normalization"),
        ("UnsortedSegmentSum", "atomic_adds"),
        ("ZerosLike", "shape_only"),
        ("Fill", "factory"),
        ("ReluGrad", "backward"),
    ],
)
def test_an_operator_of_tensorflow_has_the_traits_of_its_calculation(name: str, trait: str) -> None:
    assert has(f"tf::{name}", trait)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["RandomUniform", "StatelessRandomNormalV2", "Multinomial", "TruncatedNormal"])
def test_operators_of_tensorflow_draw_random_numbers(name: str) -> None:
    assert draws(f"tf::{name}")
    assert has(f"tf::{name}", "random")


def test_other_operators_of_tensorflow_draw_none() -> None:
    drawing = {name for name in torch_names("tensorflow") if draws(f"tf::{name}")}
    assert all("Random" in name or "Normal" in name or "Multinomial" in name for name in drawing)
