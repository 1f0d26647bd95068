"""A split in the words of each framework, and the vendor's file of measured gradients."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jumar.base.errors import InputError
from jumar.tune.search.gradients.forms import (
    cap_list,
    forms_of,
    fusion_config,
    gradient_fusion,
    item_size,
    model_hash,
    read_gradient_fusion,
    write_gradient_fusion,
)
from jumar.tune.search.gradients.model import Gradient, Link
from jumar.tune.search.gradients.solve import solve
from jumar.tune.search.gradients.splits import evaluated

SLOW = Link(latency_s=1e-5, bandwidth=1e8)


def reversed_gradients(sizes: list[int], gap_us: int = 100) -> list[Gradient]:
    """Return gradients that are ready in the opposite order of their parameters; `sizes` are in ready order."""
    count = len(sizes)
    return [
        Gradient(name=f"p{count - 1 - place}", size_bytes=size, ready_ns=1000 * gap_us * place, place=count - 1 - place)
        for place, size in enumerate(sizes)
    ]


def test_mindspores_indices_are_the_last_parameter_of_each_bucket() -> None:
    gradients = reversed_gradients([4000] * 6)
    config, split = fusion_config(gradients, SLOW)
    assert split == solve(gradients, SLOW)
    starts = [0, *(end + 1 for end in split.ends[:-1])]
    assert config == tuple(sorted(gradients[start].place for start in starts))
    assert config[-1] == 5


def test_where_gradients_come_in_another_order_the_parameters_order_is_solved_anew() -> None:
    one, two, three = reversed_gradients([4000, 4000, 4000])
    late = [two, three, replace(one, ready_ns=500_000)]  # the last parameter's gradient is the last to be ready
    config, split = fusion_config(late, SLOW)
    assert config == (2,)  # all wait for it: one bucket
    assert split.tail_s == pytest.approx(SLOW.seconds(12000))


def test_ddps_list_is_in_ready_order_and_never_above_the_bytes() -> None:
    gradients = reversed_gradients([1_000_003, 12, 2_000_001, 7])
    caps = cap_list(gradients, [0, 2, 3])
    for cap, size in zip(caps, (1_000_003, 2_000_013, 7), strict=True):
        assert 0 <= size - cap * 2**20 < 2


def test_the_forms_of_one_split_agree() -> None:
    gradients = reversed_gradients([400_000] * 5 + [4000])
    split = solve(gradients, SLOW)
    forms = forms_of(gradients, SLOW, split)
    assert len(forms.bucket_cap_mb_list) == split.num_buckets
    assert forms.cap_split == evaluated(gradients, SLOW, forms.cap_split.ends)
    assert forms.megatron_bucket_size == pytest.approx(forms.bucket_cap_mb * 2**20 / 4, abs=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_the_size_of_a_number_is_pytorchs(dtype: torch.dtype) -> None:
    assert item_size(str(dtype).removeprefix("torch.")) == dtype.itemsize


def test_the_vendors_file_has_intervals_and_sizes() -> None:
    gradients = reversed_gradients([8, 4, 2], gap_us=3)
    entry = gradient_fusion(gradients)
    assert entry["modelvalue"] == {"gradientTime": [0, 3000, 3000], "gradientSize": [8, 4, 2]}
    assert 0 <= int(entry["modelhash"]) < 2**64


def test_the_vendors_file_keeps_other_models_and_replaces_its_own(tmp_path: Path) -> None:
    path = tmp_path / "Ascend910B1_gradient_fusion.json"
    path.write_text(json.dumps([{"modelhash": "7", "modelvalue": {"gradientTime": [0], "gradientSize": [1]}}]))
    early, late = reversed_gradients([8, 4], gap_us=1), reversed_gradients([8, 4], gap_us=2)
    assert model_hash(early) == model_hash(late) != model_hash(reversed_gradients([8, 5]))
    for one in (early, late):
        write_gradient_fusion(path, one)
    found = read_gradient_fusion(path)
    assert [one["modelhash"] for one in found] == ["7", model_hash(late)]
    assert found[1]["modelvalue"]["gradientTime"] == [0, 2000]


@pytest.mark.parametrize("text", ["{", '{"modelhash": "1"}', "[1]"])
def test_a_file_of_another_form_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cpu_gradient_fusion.json"
    path.write_text(text)
    with pytest.raises(InputError, match="Move it away"):
        write_gradient_fusion(path, reversed_gradients([8]))
    assert path.read_text() == text
