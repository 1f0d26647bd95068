"""`apex.amp` on the emulated NPU: levels, loss scales, master weights, checkpoints."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

import apex  # noqa: E402  # it answers once the device is up
from apex import amp  # noqa: E402


@pytest.fixture(autouse=True)
def _no_casts_afterwards() -> Iterator[None]:
    import jumar

    with jumar.emulate(numerics="exact", unsupported="fallback"):
        yield
    amp._STATE.level = None
    amp._STATE.scalers = []


def network() -> nn.Module:
    torch.manual_seed(1)
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 4)
    return nn.Sequential(*layers).npu()


def batch(seed: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, 3, 6, 6, generator=generator).npu(), torch.tensor([0, 1, 2, 3]).npu()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, scale: bool = True, seed: int = 2) -> float:
    x, y = batch(seed)
    loss = functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    if scale:
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
    else:
        loss.backward()
    optimizer.step()
    return loss.item()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def dtypes(model: Any) -> list[torch.dtype]:
    return [model[0].weight.dtype, model[1].weight.dtype, model[4].weight.dtype]


HALF, FLOAT = torch.float16, torch.float32


@pytest.mark.parametrize(
    ("level", "weights", "output", "checkpoint"),
    [
        ("O0", [FLOAT, FLOAT, FLOAT], FLOAT, FLOAT),
        ("O1", [FLOAT, FLOAT, FLOAT], HALF, FLOAT),
        ("O2", [HALF, FLOAT, HALF], FLOAT, FLOAT),
        ("O3", [HALF, HALF, HALF], FLOAT, HALF),
    ],
)
def test_a_level_says_what_is_float16(level, weights, output, checkpoint):
    model, optimizer = amp.initialize(network(), None, opt_level=level, verbosity=0), None
    assert optimizer is None
    assert dtypes(model) == weights
    assert model(batch()[0]).dtype is output
    assert model.state_dict()["0.weight"].dtype is checkpoint


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_training_follows_float32(level):
    plain, model = network(), network()
    optimizer = sgd(plain)
    reference = [step(plain, optimizer, scale=False) for _ in range(4)]
    model, optimizer = amp.initialize(model, sgd(model), opt_level=level, verbosity=0)
    assert [step(model, optimizer) for _ in range(4)] == pytest.approx(reference, abs=5e-3)


def test_o0_gives_the_bits_of_float32():
    plain, model = network(), network()
    optimizer = sgd(plain)
    reference = [step(plain, optimizer, scale=False) for _ in range(3)]
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O0", verbosity=0)
    assert [step(model, optimizer) for _ in range(3)] == reference


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_power_of_two_as_loss_scale_changes_nothing_but_underflow(level):
    runs = []
    for scale in (128.0, 1024.0):
        model = network()
        model, optimizer = amp.initialize(model, sgd(model), opt_level=level, loss_scale=scale, verbosity=0)
        runs.append([step(model, optimizer) for _ in range(3)])
    assert runs[0] == pytest.approx(runs[1], abs=1e-3)


def test_an_overflow_skips_the_step_and_halves_the_scale(capsys):
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", verbosity=1)
    before = copy.deepcopy(model.state_dict())
    x, y = batch()
    optimizer.zero_grad()
    with amp.scale_loss(functional.cross_entropy(model(x), y) * 1e6, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    after = model.state_dict()
    weights = [name for name in before if "running" not in name and "tracked" not in name]
    assert all(torch.equal(before[name], after[name]) for name in weights)
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 2.0**15, "unskipped": 0}}
    assert "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0" in capsys.readouterr().out
    step(model, optimizer)
    assert not torch.equal(before["4.weight"], model.state_dict()["4.weight"])


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("fused", [False, True])
def test_gradients_of_two_backward_passes_add_up(level, fused):
    model = network()
    make = apex.optimizers.NpuFusedSGD if fused else torch.optim.SGD
    model, optimizer = amp.initialize(model, make(model.parameters(), lr=0.1), opt_level=level, verbosity=0)
    sums: list[torch.Tensor] = []
    for seeds in ([2], [3], [2, 3]):
        optimizer.zero_grad()
        for seed in seeds:
            x, y = batch(seed)
            model.eval()  # the same batch statistics in every pass
            with amp.scale_loss(functional.cross_entropy(model(x), y), optimizer) as scaled:
                scaled.backward()
        sums.append(next(iter(amp.master_params(optimizer))).grad.clone())
    assert torch.allclose(sums[0] + sums[1], sums[2], rtol=1e-2, atol=1e-4)
    assert sums[2].dtype is FLOAT


def test_gradients_may_stay_scaled_until_the_last_of_several_passes():
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", loss_scale=64.0, verbosity=0)
    model.eval()
    x, y = batch()
    for delay in (True, False):
        with amp.scale_loss(functional.cross_entropy(model(x), y), optimizer, delay_unscale=delay) as scaled:
            scaled.backward()
        if delay:
            assert next(iter(amp.master_params(optimizer))).grad is None
    twice = next(iter(amp.master_params(optimizer))).grad.clone()
    optimizer.zero_grad()
    with amp.scale_loss(functional.cross_entropy(model(x), y), optimizer) as scaled:
        scaled.backward()
    once = next(iter(amp.master_params(optimizer))).grad
    assert torch.allclose(twice, 2 * once, rtol=1e-2, atol=1e-4)


def test_fused_optimizers_train_as_the_plain_ones():
    runs = []
    for make in (torch.optim.SGD, apex.optimizers.NpuFusedSGD):
        model = network()
        optimizer = make(model.parameters(), lr=0.1, momentum=0.9)
        model, optimizer = amp.initialize(
            model, optimizer, opt_level="O2", loss_scale=128.0, combine_grad=True, verbosity=0
        )
        runs.append([step(model, optimizer) for _ in range(4)])
    assert runs[0] == pytest.approx(runs[1], abs=1e-4)


def test_training_goes_on_from_a_checkpoint_of_amp():
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", verbosity=0)
    step(model, optimizer)
    saved = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()})
    expected = [step(model, optimizer) for _ in range(2)]
    other = network()
    other, optimizer = amp.initialize(other, sgd(other), opt_level="O2", verbosity=0)
    other.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    amp.load_state_dict(saved["amp"])
    assert amp.state_dict() == saved["amp"]
    # The masters are float32 and the checkpoint holds the rounded weights: the runs agree to float16.
    assert [step(other, optimizer) for _ in range(2)] == pytest.approx(expected, abs=2e-3)


def test_functions_are_registered_for_one_dtype(monkeypatch):
    module = type(sys)("mine")
    module.shown = lambda x: x.dtype
    module.widest = lambda x, y: (x.dtype, y.dtype)
    amp.register_float_function(module, "shown")
    amp.register_promote_function(module, "widest")
    amp.initialize(network(), None, opt_level="O1", verbosity=0)
    half, whole = torch.ones(2, dtype=HALF, device="npu"), torch.ones(2, device="npu")
    assert module.shown(half) is FLOAT
    assert module.widest(half, whole) == (FLOAT, FLOAT)
    assert module.widest(half, half) == (HALF, HALF)
    assert (whole[None] @ whole[:, None]).dtype is HALF
    with amp.disable_casts():
        assert (whole[None] @ whole[:, None]).dtype is FLOAT
        assert module.shown(half) is HALF


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: amp.initialize(network(), opt_level="02"), "the letter O, not the number zero"),
        (lambda: amp.initialize(network(), opt_level="O1", keep_batchnorm_fp32=True), "should be None"),
        (lambda: amp.initialize(network(), opt_level="O1", master_weights=True), "master_weights"),
        (lambda: amp.initialize(network().half(), opt_level="O2"), "do not need to call .half"),
        (lambda: amp.initialize(network().cpu(), opt_level="O2"), "located on a NPU device"),
        (lambda: amp.initialize(nn.DataParallel(network()), opt_level="O2"), "AFTER"),
        (lambda: amp.scale_loss(torch.ones(()), sgd(network())).__enter__(), "has not been initialized"),
        (lambda: apex.optimizers.FusedAdam([]), "NpuFusedAdam"),
        (lambda: amp.load_state_dict({"scale": 1}), "Unexpected key"),
    ],
)
def test_wrong_use_is_an_error_that_says_what_to_do(change, message):
    with pytest.raises(RuntimeError, match=message):
        change()


def test_layer_norm_of_apex_names_what_replaces_it():
    with pytest.raises(ModuleNotFoundError, match=r"torch\.nn\.LayerNorm"):
        apex.normalization.FusedLayerNorm(4)


def test_a_module_of_apex_that_is_not_there_is_said():
    with pytest.raises(ModuleNotFoundError, match="of apex the emulated NPU has amp"):
        __import__("apex.transformer")


def test_not_enabled_means_untouched():
    model = network()
    optimizer = sgd(model)
    same, same_optimizer = amp.initialize(model, optimizer, enabled=False, opt_level="O2")
    assert (same, same_optimizer) == (model, optimizer)
    assert dtypes(model) == [FLOAT, FLOAT, FLOAT]


def test_a_group_added_later_has_masters_too():
    model, more = network(), nn.Linear(4, 4).npu()
    (model, more), optimizer = amp.initialize([model, more], sgd(model), opt_level="O2", verbosity=0)
    optimizer.zero_grad()
    optimizer.add_param_group({"params": more.parameters()})
    assert {parameter.dtype for parameter in amp.master_params(optimizer)} == {FLOAT}


def test_the_casts_of_functions_end_with_the_block_they_began_in():
    import jumar

    whole = torch.ones(1, 2, device="npu")
    with jumar.emulate(numerics="exact"):
        amp.initialize(network(), None, opt_level="O1", verbosity=0)
        assert (whole @ whole.T).dtype is HALF
    assert (whole @ whole.T).dtype is FLOAT


def test_the_saturating_chip_reports_overflow_by_its_flag():
    import jumar

    with jumar.emulate("Ascend910A"):
        model = network()
        model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", verbosity=0)
        x, y = batch()
        with amp.scale_loss(functional.cross_entropy(model(x), y) * 1e7, optimizer) as scaled:
            scaled.backward()
        assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15
