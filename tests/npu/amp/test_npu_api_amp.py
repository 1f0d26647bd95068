"""Mixed precision, random numbers and checkpoints through the vendor's names."""

from __future__ import annotations

import io
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never"))


@pytest.fixture(autouse=True)
def exact() -> Any:
    with emulate(numerics="exact", unsupported="fallback"):
        torch.manual_seed(0)
        yield


def test_autocast_has_the_vendors_form() -> None:
    x = torch.ones(2, 2, device="npu")
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert torch.npu.is_autocast_enabled()
        assert torch.npu.get_autocast_dtype() == torch.bfloat16
        assert (x @ x).dtype == torch.bfloat16
    with torch.npu.amp.autocast(enabled=False):
        assert (x @ x).dtype == torch.float32


def test_custom_functions_take_their_casts() -> None:
    dtypes = []

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.npu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            dtypes.append((x.dtype, torch.npu.is_autocast_enabled()))
            return x * 2

        @staticmethod
        @torch.npu.amp.custom_bwd
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            dtypes.append((gradient.dtype, torch.npu.is_autocast_enabled()))
            return gradient * 2

    x = torch.ones(2, device="npu", dtype=torch.float16, requires_grad=True)
    with torch.npu.amp.autocast():
        y = Double.apply(x)
    y.sum().backward()
    assert dtypes == [(torch.float32, False), (torch.float32, False)]
    assert x.grad.tolist() == [2, 2]


def one_step(scaler: Any, value: float, weight: float = 1.0) -> tuple[float, float]:
    """Return the weight and the scale after one step whose gradient is `value`."""
    parameter = nn.Parameter(torch.tensor([weight], device="npu"))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler.scale((parameter * value).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return parameter.item(), scaler.get_scale()


def test_the_scaler_halves_and_doubles_its_scale_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    scaler = torch.npu.amp.GradScaler(init_scale=8.0, growth_interval=2)
    with caplog.at_level(logging.INFO, "torch_npu.amp"):
        assert one_step(scaler, float("inf")) == (1.0, 4.0)
        assert one_step(scaler, 0.25) == (0.75, 4.0)
        assert one_step(scaler, 0.25) == (0.75, 8.0)
    assert [record.message for record in caplog.records] == [
        "Gradient overflow. Skipping step",
        "Loss scaler reducing loss scale to 4.0",
        "Loss scaler increasing loss scale to 8.0",
    ]


def test_a_scaler_with_a_fixed_scale_always_steps() -> None:
    scaler = torch.npu.amp.GradScaler(init_scale=8.0, growth_interval=1, dynamic=False)
    assert one_step(scaler, 0.25) == (0.75, 8.0)
    assert one_step(scaler, float("inf")) == (float("-inf"), 8.0)


def fused_step(scaler: Any, *gradients: float, dtype: torch.dtype = torch.float32) -> list[float]:
    """Step a fused optimizer once over parameters of 1 whose gradients are these; return the parameters."""
    import torch_npu

    parameters = [nn.Parameter(torch.ones((), device="npu", dtype=dtype)) for _ in gradients]
    optimizer = torch_npu.optim.NpuFusedSGD(parameters, lr=1.0)
    loss = sum((p.float() * gradient for p, gradient in zip(parameters, gradients, strict=True)), start=torch.zeros(()))
    scaler.scale(loss.npu()).backward()
    scaler.step(optimizer)
    scaler.update()
    return [parameter.item() for parameter in parameters]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_scaler_divides_gradients_where_a_fused_optimizer_keeps_them(dtype: torch.dtype) -> None:
    scaler = torch.npu.amp.GradScaler(init_scale=8.0)
    assert fused_step(scaler, 0.25, 0.5, dtype=dtype) == [0.75, 0.5]
    assert fused_step(scaler, 0.25, float("inf"), dtype=dtype) == [1.0, 1.0]
    assert scaler.get_scale() == 4.0
    assert fused_step(torch.npu.amp.GradScaler(init_scale=8.0, dynamic=False), 0.25, dtype=dtype) == [0.75]


def test_an_overflow_of_one_optimizer_stops_those_after_it() -> None:
    scaler = torch.npu.amp.GradScaler(init_scale=8.0)
    values = []
    optimizers = []  # kept: the scaler knows an optimizer by its id, which a later object may get
    for gradient in (0.25, float("inf"), 0.25):
        parameter = nn.Parameter(torch.ones((), device="npu"))
        optimizers.append(torch.optim.SGD([parameter], lr=1.0))
        scaler.scale(parameter * gradient).backward()
        scaler.step(optimizers[-1])
        values.append(parameter.item())
    assert values == [0.75, 1.0, 1.0]


def test_a_step_without_gradients_is_a_step() -> None:
    scaler = torch.npu.amp.GradScaler(init_scale=8.0, growth_interval=1)
    scaler.scale(torch.ones((), device="npu"))
    scaler.step(torch.optim.SGD([nn.Parameter(torch.ones((), device="npu"))], lr=1.0))
    scaler.update()
    assert scaler.get_scale() == 16.0


def test_the_positions_of_the_scalers_arguments_are_the_vendors() -> None:
    scaler = torch.npu.amp.GradScaler(4.0, 2.0, 0.5, 10, False, True)
    assert scaler.is_enabled()
    state = scaler.state_dict()
    assert (state["scale"], state["growth_interval"], state["dynamic"]) == (4.0, 10, False)
    other = torch.npu.amp.GradScaler()
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert torch.npu.amp.GradScaler(enabled=False).state_dict() == {}
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})


@pytest.mark.parametrize("keywords", [{"growth_factor": 1.0}, {"backoff_factor": 1.0}])
def test_a_scaler_checks_its_factors(keywords: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="factor must be"):
        torch.npu.amp.GradScaler(**keywords)


def test_a_scaler_takes_losses_on_the_npu_only() -> None:
    with pytest.raises(ValueError, match="should be npu"):
        torch.npu.amp.GradScaler().scale(torch.ones(1))


def test_where_float16_saturates_the_overflow_flag_stops_a_step() -> None:
    with emulate("Ascend910A"):
        scaler = torch.npu.amp.GradScaler(init_scale=2.0**17)
        weight = nn.Parameter(torch.full((4,), 2.0, device="npu"))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler.scale(weight.half().float().sum()).backward()  # 2**17 is beyond float16: 65,504 here, and the flag is up
        assert torch.isfinite(weight.grad).all()
        scaler.step(optimizer)
        scaler.update()
        assert (weight.tolist(), scaler.get_scale()) == ([2.0] * 4, 2.0**16)


def test_the_scaler_for_shards_is_pytorchs_for_the_npu(tmp_path: Path) -> None:
    import torch_npu
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    torch.distributed.init_process_group("hccl", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        scaler = torch_npu._ShardedGradScaler(init_scale=8.0)
        assert isinstance(scaler, ShardedGradScaler)
        assert one_step(scaler, 0.25) == (0.75, 8.0)
        assert one_step(scaler, float("inf")) == (1.0, 4.0)
    finally:
        torch.distributed.destroy_process_group()


def test_random_states_of_all_devices_come_back() -> None:
    torch.npu.manual_seed_all(3)
    assert torch.npu.initial_seed() == 3
    states = torch.npu.get_rng_state_all()
    drawn = torch.rand(3, device="npu")
    torch.npu.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="npu"), drawn)
    torch.npu.set_rng_state(states[0], "npu:0")
    with torch.random.fork_rng(devices=[0, 1], device_type="npu"):
        torch.npu.seed()
        torch.rand(5, device="npu")
    assert torch.equal(torch.rand(3, device="npu"), drawn)


@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoints_come_back_where_they_were(weights_only: bool) -> None:
    from torch_npu.utils.serialization import load

    file = io.BytesIO()
    torch.save({"a": torch.ones(2, device="npu:1"), "b": torch.ones(2)}, file)
    file.seek(0)
    found = load(file, weights_only=weights_only)
    assert (str(found["a"].device), str(found["b"].device)) == ("npu:1", "cpu")
    file.seek(0)
    assert str(load(file, map_location="cpu", weights_only=weights_only)["a"].device) == "cpu"


def test_saving_beside_the_run_saves_what_there_was(tmp_path: Path) -> None:
    from torch_npu.utils import save_async

    network, file = nn.Linear(2, 2).npu(), tmp_path / "checkpoint.pt"
    before = network.weight.detach().cpu().clone()
    others = set(threading.enumerate())  # threads of other tests, which need never end
    save_async(network.state_dict(), file, model=network)
    with torch.no_grad():
        network.weight.zero_()
    for thread in set(threading.enumerate()) - others:
        thread.join()
    assert torch.equal(torch.load(file)["weight"].cpu(), before)
    with pytest.raises(RuntimeError, match="_use_new_zipfile_serialization"):
        save_async({}, file, _use_new_zipfile_serialization=False)


class Old:
    """Pickles as torch_npu before 2.1 pickled a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> Any:
        from torch_npu.utils.storage import _rebuild_npu_tensor

        tensor = self.tensor
        return _rebuild_npu_tensor, (tensor._typed_storage(), 0, (2, 3), (3, 1), True, None, True)


def test_a_tensor_of_an_old_checkpoint_comes_back_on_the_npu() -> None:
    values = torch.arange(6.0).reshape(2, 3)
    found = pickle.loads(pickle.dumps(Old(values)))
    assert (found.device.type, found.requires_grad, found.tolist()) == ("npu", True, values.tolist())
