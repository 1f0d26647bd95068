"""Fused optimizers keep parameters, gradients and state in combined tensors, with what follows from that."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from jumar import emulate
from jumar.device import DevicePlan, activate
from jumar.npu.api import optim
from jumar.npu.api.utils.combine_tensors import (
    get_part_combined_tensor,
    is_combined_tensor_valid,
    npu_combine_tensors,
)
from jumar.npu.core.events import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

import torch_npu  # noqa: E402  # there once the device is

Tensor = torch.Tensor
FRACTAL_Z = 4
ALL = [
    (optim.NpuFusedSGD, {"lr": 0.05, "momentum": 0.9}),
    (optim.NpuFusedAdam, {"amsgrad": True}),
    (optim.NpuFusedAdamW, {}),
    (optim.NpuFusedAdadelta, {}),
    (optim.NpuFusedRMSprop, {"momentum": 0.9, "centered": True}),
    (optim.NpuFusedRMSpropTF, {"momentum": 0.9, "centered": True}),
    (optim.NpuFusedLamb, {}),
    (optim.NpuFusedAdamP, {}),
    (optim.NpuFusedBertAdam, {"lr": 0.05}),
]
each_optimizer = pytest.mark.parametrize(("fused", "given"), ALL, ids=[fused.__name__ for fused, _ in ALL])


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to("npu", dtype)


def backward(model: nn.Module, seed: int) -> None:
    inputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed)).to("npu", next(model.parameters()).dtype)
    model(inputs).float().pow(2).mean().backward()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, seeds: range) -> list[Tensor]:
    for seed in seeds:
        optimizer.zero_grad()
        backward(model, seed)
        optimizer.step()
    return values(model)


def values(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().cpu().clone() for parameter in model.parameters()]


# Combined tensors -------------------------------------------------------------------------------------------


def test_combined_tensors_share_memory_and_keep_their_values():
    first, second = torch.arange(6.0, device="npu").view(2, 3), torch.full((), 7.0, device="npu")
    combined = npu_combine_tensors([first, second])
    assert combined.tolist() == [0, 1, 2, 3, 4, 5, 7]
    second.fill_(9)
    combined[0] = -1
    assert (first.tolist(), second.item(), combined[6].item()) == ([[-1, 1, 2], [3, 4, 5]], 9, 9)
    assert is_combined_tensor_valid(combined, [first, second])
    assert not is_combined_tensor_valid(combined, [first, second.clone()])


def test_without_copying_values_the_parts_are_zero():
    tensor = torch.ones(3, device="npu")
    npu_combine_tensors([tensor], require_copy_value=False)
    assert tensor.tolist() == [0, 0, 0]


def test_a_part_shows_the_combined_memory():
    combined = torch.arange(5.0, device="npu")
    part = get_part_combined_tensor(combined, 2, 2)
    part.mul_(10)
    assert combined.tolist() == [0, 1, 20, 30, 4]
    assert get_part_combined_tensor(combined, 0, 0) is None
    with pytest.raises(RuntimeError, match=r"\(index \+ size\) \(6\) > .* \(5\)"):
        get_part_combined_tensor(combined, 4, 2)


def test_nothing_combines_to_none():
    assert npu_combine_tensors([]) is None
    assert npu_combine_tensors([torch.empty(0, device="npu")]) is None
    assert is_combined_tensor_valid(None, [])
    assert not is_combined_tensor_valid(None, [torch.ones(1)])


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (lambda: [None], "must not have `None`"),
        (lambda: [torch.ones(2)], "must be on NPU, got cpu"),
        (lambda: [torch.ones(2, device="npu"), torch.ones(2, device="npu").half()], "must have the same dtype"),
        (lambda: [torch.ones(2, 3, device="npu").t()], "must be contiguous"),
    ],
)
def test_only_contiguous_npu_tensors_of_one_dtype_combine(tensors, words):
    with pytest.raises(RuntimeError, match=words):
        npu_combine_tensors(tensors())


# Optimizers -------------------------------------------------------------------------------------------------


@each_optimizer
def test_parameters_and_gradients_are_views_of_the_combined_tensors(fused, given):
    model = network()
    optimizer = fused(model.parameters(), **given)
    train(model, optimizer, range(2))
    parameters, gradients = optimizer.get_combined_params()[0], optimizer.get_combined_grads()[0]
    assert torch.equal(torch.cat([p.detach().flatten() for p in model.parameters()]), parameters)
    assert is_combined_tensor_valid(parameters, list(model.parameters()))
    assert is_combined_tensor_valid(gradients, [p.grad for p in model.parameters()])
    assert [optimizer.get_combined_params()[1], optimizer.get_combined_grads()[1]] == [None, None]


def test_an_update_is_a_few_operators_however_many_parameters_there_are():
    def num_operators(num_layers: int) -> int:
        model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(num_layers))).to("npu")
        optimizer = optim.NpuFusedAdamW(model.parameters())
        train(model, optimizer, range(1))
        events: list[str] = []
        with listen(lambda event: events.append(event.operator)):
            optimizer.step()
        return len(events)

    assert num_operators(1) == num_operators(5) > 0


def test_float32_and_float16_parameters_are_combined_apart():
    full, half = network(), network(torch.float16)
    optimizer = optim.NpuFusedAdam([{"params": full.parameters()}, {"params": half.parameters(), "lr": 0.01}])
    backward(full, 0)
    backward(half, 0)
    optimizer.step()
    sizes = [sum(p.numel() for p in model.parameters()) for model in (full, half)]
    combined = optimizer.get_combined_params()
    assert [(sizes[0], torch.float32), (sizes[1], torch.float16)] == [(t.numel(), t.dtype) for t in combined]
    assert torch.equal(torch.cat([p.detach().flatten() for p in half.parameters()]), combined[1])


@each_optimizer
def test_parameters_without_gradient_stay_as_they_are(fused, given):
    model, unused = network(), torch.ones(4, device="npu", requires_grad=True)
    optimizer = fused([*model.parameters(), unused], **given)
    before = values(model)
    after = train(model, optimizer, range(2))
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert (unused.tolist(), unused.grad) == ([1, 1, 1, 1], None)


@each_optimizer
def test_zero_grad_keeps_the_gradients_memory(fused, given):
    model = network()
    optimizer = fused(model.parameters(), **given)
    optimizer.zero_grad()
    assert [p.grad for p in model.parameters()] == [None] * 4
    backward(model, 0)
    optimizer.zero_grad()
    kept = [p.grad for p in model.parameters()]
    assert all(not gradient.any() for gradient in kept)
    backward(model, 1)
    assert all(p.grad is gradient and gradient.any() for p, gradient in zip(model.parameters(), kept, strict=True))


def test_zero_grad_refuses_to_drop_gradients():
    optimizer = optim.NpuFusedAdam(network().parameters())
    with pytest.raises(ValueError, match="set_to_none is not supported in fused optimizers"):
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("norm_type", [1, 2, 3.5, float("inf")])
@pytest.mark.parametrize("max_norm", [0.05, 1e4])
def test_clip_grad_norm_fused_clips_as_clip_grad_norm(norm_type, max_norm):
    model, plain = network(), network()
    optimizer = optim.NpuFusedAdam(model.parameters())
    backward(model, 0)
    backward(plain, 0)
    expected = torch.nn.utils.clip_grad_norm_(plain.parameters(), max_norm, norm_type)
    actual = optimizer.clip_grad_norm_fused_(max_norm, norm_type)
    torch.testing.assert_close(actual, expected)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_clipping_needs_gradients():
    optimizer = optim.NpuFusedAdam(network().parameters())
    with pytest.raises(ValueError, match="'is_params_grads_combined' must be True"):
        optimizer.clip_grad_norm_fused_(1.0)


@each_optimizer
def test_training_goes_on_from_a_state_dict_as_if_never_stopped(fused, given):
    whole = network()
    expected = train(whole, fused(whole.parameters(), **given), range(6))

    model = network()
    first = fused(model.parameters(), **given)
    train(model, first, range(3))
    saved = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": first.state_dict()}, saved)
    saved.seek(0)
    loaded = torch.load(saved, map_location="cpu")

    resumed = network()
    resumed.load_state_dict(loaded["model"])
    second = fused(resumed.parameters(), **given)
    second.load_state_dict(loaded["optimizer"])
    assert all(torch.equal(a, b) for a, b in zip(expected, train(resumed, second, range(3, 6)), strict=True))


@each_optimizer
def test_state_dict_round_trips(fused, given):
    model = network()
    optimizer = fused(model.parameters(), **given)
    train(model, optimizer, range(2))
    saved = copy.deepcopy(optimizer.state_dict())
    again = fused(network().parameters(), **given)
    again.load_state_dict(saved)
    assert saved["param_groups"] == again.state_dict()["param_groups"]
    torch.testing.assert_close(again.state_dict()["state"], saved["state"], rtol=0, atol=0)


def test_a_learning_rate_schedule_is_followed():
    model, plain = network(), network()
    results = []
    for one, optimizer in (
        (model, optim.NpuFusedSGD(model.parameters(), lr=0.1, momentum=0.5)),
        (plain, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.5)),
    ):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
        for seed in range(5):
            train(one, optimizer, range(seed, seed + 1))
            scheduler.step()
        results.append(values(one))
    torch.testing.assert_close(results[0], results[1])


def test_a_closure_runs_and_its_value_is_returned():
    model = network()
    optimizer = optim.NpuFusedAdam(model.parameters())

    def closure() -> str:
        with torch.enable_grad():
            backward(model, 0)
        return "loss"

    before = values(model)
    assert optimizer.step(closure) == "loss"
    assert all(not torch.equal(old, new) for old, new in zip(before, values(model), strict=True))


def test_a_closure_that_does_not_turn_gradients_on_fails_as_on_the_npu():
    model = network()
    with pytest.raises(RuntimeError, match="does not require grad"):
        optim.NpuFusedAdam(model.parameters()).step(lambda: backward(model, 0))


@pytest.mark.parametrize("fused", [optim.NpuFusedLamb, optim.NpuFusedAdamP])
def test_lamb_and_adamp_turn_gradients_on_for_their_closure(fused):
    model, plain = network(), network()
    optimizer, other = fused(model.parameters()), fused(plain.parameters())
    train(model, optimizer, range(1))
    train(plain, other, range(2))
    optimizer.zero_grad()
    optimizer.step(lambda: backward(model, 1))
    assert all(torch.equal(a, b) for a, b in zip(values(model), values(plain), strict=True))


def test_parameters_keep_their_private_format_and_their_storages():
    npu: Any = torch_npu
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)).to("npu")
        formats = [npu.get_npu_format(parameter) for parameter in model.parameters()]
        assert formats[0] == FRACTAL_Z
        optimizer = optim.NpuFusedAdam(model.parameters())
        for _ in range(2):
            model(torch.ones(2, 3, 8, 8, device="npu")).pow(2).sum().backward()
            optimizer.step()
        assert formats == [npu.get_npu_format(parameter) for parameter in model.parameters()]
        assert formats == [npu.get_npu_format(parameter.grad) for parameter in model.parameters()]
    sizes = [parameter.untyped_storage().nbytes() // 4 for parameter in model.parameters()]
    assert sizes == [parameter.numel() for parameter in model.parameters()]


def test_combined_memory_is_freed_with_its_last_tensor():
    npu: Any = torch.npu
    before = npu.memory_allocated()
    tensors = [torch.ones(1000, device="npu") for _ in range(3)]
    alone = npu.memory_allocated() - before
    combined = npu_combine_tensors(tensors)
    assert npu.memory_allocated() - before < 1.2 * alone
    del combined
    assert npu.memory_allocated() - before > 0
    assert torch.equal(tensors[2], torch.ones(1000, device="npu"))
    del tensors
    assert npu.memory_allocated() == before


def test_parameters_on_another_device_are_updated_there():
    model = nn.Linear(3, 2).to("npu:1")
    optimizer = optim.NpuFusedAdam(model.parameters())
    before = values(model)
    model(torch.ones(1, 3, device="npu:1")).sum().backward()
    optimizer.step()
    assert torch.device("npu:1") == model.weight.device == optimizer.get_combined_params()[0].device
    assert not torch.equal(before[0], values(model)[0])


# Loss scaling -----------------------------------------------------------------------------------------------


def scalers() -> list[Any]:
    npu: Any = torch.npu
    return [npu.amp.GradScaler(init_scale=1024.0), torch.amp.GradScaler("npu", init_scale=1024.0)]


@pytest.mark.parametrize("which", [0, 1], ids=["torch.npu.amp", "torch.amp"])
@each_optimizer
def test_a_step_with_inf_is_skipped_by_the_scaler(fused, given, which):
    model, plain, scaler = network(), network(), scalers()[which]
    optimizer, other = fused(model.parameters(), **given), fused(plain.parameters(), **given)
    for seed in range(4):
        optimizer.zero_grad()
        inputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed)).to("npu")
        loss = model(inputs).pow(2).mean()
        scaler.scale(loss * (float("inf") if seed == 2 else 1)).backward()
        before = values(model)
        scaler.step(optimizer)
        assert (seed == 2) == all(torch.equal(a, b) for a, b in zip(before, values(model), strict=True))
        scaler.update()
        if seed != 2:
            train(plain, other, range(seed, seed + 1))
    assert scaler.get_scale() == 512.0
    torch.testing.assert_close(values(model), values(plain), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", [0, 1], ids=["torch.npu.amp", "torch.amp"])
def test_unscaled_gradients_can_be_clipped(which):
    model, plain, scaler = network(), network(), scalers()[which]
    optimizer = optim.NpuFusedSGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        inputs = torch.ones(4, 6, device="npu")
        scaler.scale(model(inputs).pow(2).mean()).backward()
        scaler.unscale_(optimizer)
        norm = optimizer.clip_grad_norm_fused_(0.1)
        plain.zero_grad()
        plain(inputs).pow(2).mean().backward()
        torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.1))
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
    torch.testing.assert_close(values(model), values(plain))


# What an NPU does not forgive -------------------------------------------------------------------------------


def test_gradients_dropped_by_the_model_are_a_warning_and_change_nothing():
    model = network()
    optimizer = optim.NpuFusedSGD(model.parameters(), lr=0.1)
    train(model, optimizer, range(1))
    optimizer.zero_grad()
    before = values(model)
    model.zero_grad()
    backward(model, 1)
    with pytest.warns(UserWarning, match="gradients of 4 parameters were dropped or replaced"):
        optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    assert all(torch.equal(old, new) for old, new in zip(before, values(model), strict=True))


def test_state_loaded_after_the_first_step_is_a_warning_and_changes_nothing():
    model, plain = network(), network()
    optimizer, other = optim.NpuFusedAdam(model.parameters()), optim.NpuFusedAdam(plain.parameters())
    train(model, optimizer, range(1))
    train(plain, other, range(1))
    earlier = copy.deepcopy(optimizer.state_dict())
    train(model, optimizer, range(1, 2))
    train(plain, other, range(1, 2))
    with pytest.warns(UserWarning, match="state loaded after the first step is not used"):
        optimizer.load_state_dict(earlier)
    assert all(
        torch.equal(a, b)
        for a, b in zip(train(model, optimizer, range(2, 4)), train(plain, other, range(2, 4)), strict=True)
    )


def test_a_gradient_that_comes_after_the_others_is_an_error():
    model, late = network(), torch.ones(2, device="npu", requires_grad=True)
    optimizer = optim.NpuFusedAdam([*model.parameters(), late])
    train(model, optimizer, range(1))
    late.sum().backward()
    with pytest.raises(KeyError, match="'step': 1 parameters got their first gradient after the others"):
        optimizer.step()


@pytest.mark.parametrize("fused", [optim.NpuFusedSGD, optim.NpuFusedBertAdam])
def test_optimizers_that_count_no_steps_leave_a_late_parameter_alone_and_warn(fused):
    model, late = network(), torch.ones(2, device="npu", requires_grad=True)
    optimizer = fused([*model.parameters(), late], lr=0.1)
    train(model, optimizer, range(1))
    late.sum().backward()
    with pytest.warns(UserWarning, match="they are not updated"):
        optimizer.step()
    assert late.tolist() == [1, 1]


@each_optimizer
def test_a_step_before_there_are_gradients_leaves_no_state(fused, given):
    model = network()
    optimizer = fused(model.parameters(), **given)
    optimizer.step()
    backward(model, 0)
    with pytest.raises(KeyError, match="step"):
        optimizer.step()


def test_a_step_before_there_are_gradients_does_not_hurt_an_optimizer_without_state():
    model = network()
    optimizer = optim.NpuFusedSGD(model.parameters(), lr=0.1)
    optimizer.step()
    before = values(model)
    assert all(not torch.equal(old, new) for old, new in zip(before, train(model, optimizer, range(1)), strict=True))


def test_a_group_added_after_the_first_step_is_an_error():
    model = network()
    optimizer = optim.NpuFusedAdam(model.parameters())
    train(model, optimizer, range(1))
    optimizer.add_param_group({"params": [torch.ones(2, device="npu", requires_grad=True)]})
    with pytest.raises(IndexError, match="has no place for 1 added since"):
        optimizer.step()


def test_the_schedule_of_a_loaded_bert_adam_begins_again_with_a_warning():
    model = network()
    given = {"lr": 0.1, "t_total": 10, "warmup": 0.5}
    optimizer = optim.NpuFusedBertAdam(model.parameters(), **given)
    train(model, optimizer, range(2))
    again = optim.NpuFusedBertAdam(model.parameters(), **given)
    again.load_state_dict(optimizer.state_dict())
    backward(model, 2)
    before = values(model)
    with pytest.warns(UserWarning, match="schedule of the learning rate begins again"):
        again.step()
    assert all(torch.equal(old, new) for old, new in zip(before, values(model), strict=True))


@pytest.mark.parametrize(
    ("parameter", "error", "words"),
    [
        (lambda: torch.ones(2), RuntimeError, "must be on NPU, got cpu"),
        (lambda: torch.ones(2, device="npu").bfloat16(), TypeError, "float32 or float16, but received torch.bfloat16"),
        (lambda: torch.ones(2, 3, device="npu").t(), RuntimeError, "must be contiguous"),
    ],
)
def test_parameters_that_cannot_be_combined_are_refused_at_the_first_step(parameter, error, words):
    tensor = parameter().detach().requires_grad_()
    optimizer = optim.NpuFusedAdam([tensor])
    tensor.sum().backward()
    with pytest.raises(error, match=words):
        optimizer.step()


def test_sparse_gradients_are_refused():
    embedding = nn.Embedding(4, 2, sparse=True)  # on the CPU: the emulated NPU makes no sparse gradients
    optimizer = optim.NpuFusedAdam(embedding.parameters())
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="NpuFusedAdam does not support sparse gradients"):
        optimizer.step()


def test_the_base_says_what_a_subclass_must_give():
    parameter = torch.ones(2, device="npu", requires_grad=True)
    optimizer = optim.NpuFusedOptimizerBase([parameter], {})
    parameter.sum().backward()
    with pytest.raises(NotImplementedError, match="_new_state"):
        optimizer.step()
