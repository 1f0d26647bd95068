"""Faults in real trainings are named exactly; healthy pairs agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fault_models import Fault, recorded, reference_of
from torch import nn

from jumar.comparison import Comparison, compare

WITH_OPTIMIZER = ("module", "op", "optimizer")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("references")


def named(comparison: Comparison) -> tuple[str, str, str, int]:
    first = comparison.first_divergence
    assert first is not None, comparison.headline
    return first.name, first.module_path, first.phase, first.step


@pytest.mark.parametrize(
    ("kind", "values"),
    [("gpt", "stats"), ("cnn", "stats"), ("cnn", "tensors"), pytest.param("gpt", "tensors", marks=pytest.mark.slow)],
)
def test_healthy_runs_with_other_kernels_agree(shared, tmp_path, kind, values) -> None:
    reference = reference_of(kind, shared, values=values, num_steps=2)
    target = recorded(tmp_path / "b", kind, values=values, num_steps=2, other_kernels=True)
    comparison = compare(reference, target)
    assert comparison.status == "agree", comparison.headline
    assert comparison.num_operators["inherited"] > 0, "the kernels were the same, so this test shows nothing"


@pytest.mark.parametrize("kind", ["gpt", "cnn"])
def test_parameters_that_a_list_optimizer_leaves_agree_with_those_of_a_single_one(shared, tmp_path, kind) -> None:
    target = recorded(tmp_path / "b", kind, foreach=True, other_kernels=True)
    comparison = compare(reference_of(kind, shared), target)
    assert comparison.status == "agree", comparison.headline
    parameters = [diff for diff in comparison.operators if diff.kind == "parameter"]
    assert len(parameters) > 10
    assert all(diff.status in {"agree", "inherited"} for diff in parameters)


@pytest.mark.parametrize("kind", ["gpt", "cnn"])
def test_a_list_optimizer_agrees_with_a_single_one(shared, tmp_path, kind) -> None:
    reference = reference_of(kind, shared, levels=WITH_OPTIMIZER)
    target = recorded(tmp_path / "b", kind, foreach=True, other_kernels=True, levels=WITH_OPTIMIZER)
    comparison = compare(reference, target)
    assert comparison.status == "agree", comparison.headline
    paired = [diff for diff in comparison.operators if "_foreach_" in diff.target_name and diff.status == "agree"]
    assert paired
    assert all("_foreach_" not in diff.reference_name for diff in paired)


@pytest.mark.parametrize("values", ["stats", pytest.param("tensors", marks=pytest.mark.slow)])
def test_bfloat16_autocast_agrees_with_float32(shared, tmp_path, values) -> None:
    reference = reference_of("gpt", shared, values=values)
    target = recorded(tmp_path / "b", "gpt", values=values, bfloat16=True)
    comparison = compare(reference, target)
    assert comparison.status == "agree", comparison.headline
    assert any("bfloat16" in diff.tolerance_origin for diff in comparison.operators)


def test_a_wrapper_around_the_model_changes_nothing(shared, tmp_path) -> None:
    class Wrapper(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.network = model

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.network(inputs)

    comparison = compare(reference_of("gpt", shared), recorded(tmp_path / "b", "gpt", wrapper=Wrapper))
    assert comparison.status == "agree"
    assert not comparison.unmatched_reference


MODEL_FAULTS = [
    ("gpt", "layer-norm epsilon", "aten::native_layer_norm", "blocks.1.ln1", "stats"),
    ("gpt", "gelu variant", "aten::gelu", "blocks.1.act", "stats"),
    ("gpt", "extra scale", "aten::mul.Tensor", "blocks.1", "stats"),
    ("gpt", "flipped sequence", "aten::flip", "blocks.1", "stats"),
    ("gpt", "flipped sequence", "aten::flip", "blocks.1", "tensors"),
    ("cnn", "batch-norm epsilon", "aten::native_batch_norm", "layer1.1", "stats"),
    ("cnn", "batch-norm epsilon", "aten::native_batch_norm", "layer1.1", "tensors"),
    ("cnn", "extra scale", "aten::mul.Tensor", "", "stats"),
]


@pytest.mark.parametrize(("kind", "fault", "operator", "path", "values"), MODEL_FAULTS)
def test_a_fault_in_the_model_is_named(shared, tmp_path, kind, fault, operator, path, values) -> None:
    reference = reference_of(kind, shared, values=values)
    target = recorded(tmp_path / "b", kind, values=values, fault=fault, other_kernels=True)
    comparison = compare(reference, target)
    assert named(comparison) == (operator, path, "forward", 0)
    assert comparison.findings[0].code == "JM301"


def scaled(factor: float):
    return lambda func, args, kwargs: func(*args, **kwargs) * factor


def without_scaling(func, args, kwargs):
    return args[0]


def wrong_tail(func, args, kwargs):
    out = func(*args, **kwargs)
    out[..., -1:].mul_(1.05)
    return out


def overflowing(func, args, kwargs):
    out = func(*args, **kwargs)
    out[0, 0, 0, :1].fill_(float("nan"))
    return out


def other_step_size(func, args, kwargs):
    return func(*args, **{**kwargs, "value": kwargs["value"] * 1.05})


KERNEL_FAULTS = [
    ("gpt", "aten::gelu_backward", scaled(1.01), "backward", "stats"),
    ("gpt", "aten::div_.Scalar", without_scaling, "forward", "stats"),
    ("cnn", "aten::convolution", wrong_tail, "forward", "stats"),
    ("cnn", "aten::convolution", wrong_tail, "forward", "tensors"),
    ("cnn", "aten::max_pool2d_with_indices_backward", scaled(1.02), "backward", "stats"),
    ("cnn", "aten::max_pool2d_with_indices_backward", scaled(1.02), "backward", "tensors"),
]


@pytest.mark.parametrize(("kind", "operator", "change", "phase", "values"), KERNEL_FAULTS)
def test_a_wrong_kernel_is_named(shared, tmp_path, kind, operator, change, phase, values) -> None:
    dropout = 0.1 if operator == "aten::div_.Scalar" else 0.0
    reference = reference_of(kind, shared, values=values, dropout=dropout)
    target = recorded(
        tmp_path / "b", kind, values=values, dropout=dropout, other_kernels=True, below=Fault(operator, change)
    )
    assert named(compare(reference, target))[::2] == (operator, phase)


def test_a_wrong_kernel_of_the_optimizer_is_named_by_level(shared, tmp_path) -> None:
    for levels, name in ((WITH_OPTIMIZER, "aten::addcdiv_"), (("module", "op"), "AdamW")):
        reference = reference_of("gpt", shared, levels=levels)
        below = Fault("aten::addcdiv_", other_step_size)
        target = recorded(tmp_path / name, "gpt", levels=levels, other_kernels=True, below=below)
        assert named(compare(reference, target))[::2] == (name, "optimizer")


def test_the_operator_where_nan_appears_is_named_and_masks_are_not(shared, tmp_path) -> None:
    reference = reference_of("gpt", shared)
    target = recorded(tmp_path / "b", "gpt", below=Fault("aten::_softmax", overflowing, first_call=1))
    comparison = compare(reference, target)
    assert named(comparison) == ("aten::_softmax", "blocks.1", "forward", 0)
    assert [finding.code for finding in comparison.findings][:2] == ["JM301", "JM309"]


def test_arguments_that_differ_are_named_as_the_cause(shared, tmp_path) -> None:
    reference = reference_of("gpt", shared)
    comparison = compare(reference, recorded(tmp_path / "b", "gpt", fault="layer-norm epsilon"))
    message = comparison.findings[0].message
    assert "eps 1e-05 against 0.001" in message
    assert message.index("eps 1e-05") < message.index("error")


def test_tensors_give_index_and_values_of_the_greatest_difference(shared, tmp_path) -> None:
    reference = reference_of("cnn", shared, values="tensors")
    target = recorded(tmp_path / "b", "cnn", values="tensors", below=Fault("aten::convolution", wrong_tail))
    first = compare(reference, target).first_divergence
    assert first is not None
    spot = first.outputs[0].max_abs
    assert spot is not None
    assert spot.index[-1] == 15
    assert spot.target == pytest.approx(spot.reference * 1.05, rel=1e-5)


def test_other_data_end_the_search(shared, tmp_path) -> None:
    comparison = compare(reference_of("gpt", shared), recorded(tmp_path / "b", "gpt", data_seed=2))
    assert (comparison.status, comparison.first_divergence) == ("incomparable", None)
    assert comparison.findings[0].code == "JM302"


def test_other_weights_end_the_search(shared, tmp_path) -> None:
    comparison = compare(reference_of("gpt", shared), recorded(tmp_path / "b", "gpt", seed=3))
    assert (comparison.status, comparison.first_divergence) == ("incomparable", None)
    assert comparison.findings[0].code == "JM303"


def test_other_random_numbers_end_the_search(shared, tmp_path) -> None:
    def shifted(func, args, kwargs):
        torch.rand(1)
        return func(*args, **kwargs)

    reference = reference_of("gpt", shared, dropout=0.1)
    target = recorded(tmp_path / "b", "gpt", dropout=0.1, below=Fault("aten::bernoulli_.float", shifted, first_call=1))
    comparison = compare(reference, target)
    assert comparison.status == "incomparable", comparison.headline
    assert comparison.findings[0].code == "JM307"
    assert comparison.findings[0].where.module_path == "blocks.1.drop"
