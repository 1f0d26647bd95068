"""What the migration guide's FAQ tells about running models: it happens on the emulated NPU too, and so do the cures.

Entries about installing, drivers, logs and firewalls are left out. So is what later releases of torch_npu mended: one
device a thread ("ExchangeDevice", "INTERNAL ASSERT"; the setting `single_device` brings that back, see
`test_single_device.py`) and subtraction that takes the type of its first operand ("MemCopySync"). That those scripts
run now is tested instead.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar import emulate
from jumar.device import DevicePlan, activate
from jumar.npu.formats.ledger import ledger

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor
npu: Any = torch.npu


@pytest.fixture
def first_device():
    """Leave the thread on the device it was on."""
    before = npu.current_device()
    yield
    npu.set_device(before)


def test_a_thread_may_go_from_one_device_to_another(first_device):
    npu.set_device("npu:0")
    one = torch.ones(2).npu()
    npu.set_device("npu:1")
    other = torch.ones(2).npu()
    assert [torch.device("npu", 0), torch.device("npu", 1)] == [one.device, other.device]
    with pytest.raises(RuntimeError, match=r"npu:[01] and npu:[01]"):
        one + other


def test_a_device_other_than_0_is_used_without_setting_it():
    assert torch.ones(2, device="npu:1").sum().item() == 2
    assert npu.current_device() == 0


def test_every_thread_has_a_current_device_of_its_own(first_device):
    npu.set_device("npu:1")
    found = []
    thread = threading.Thread(target=lambda: found.append(npu.current_device()))
    thread.start()
    thread.join()
    assert (found, npu.current_device()) == ([0], 1)


@pytest.mark.parametrize("device_first", [True, False])
def test_the_device_may_be_set_before_and_after_a_backward_on_the_cpu(device_first, first_device):
    def on_cpu() -> None:
        inputs = torch.randn(20, 10).detach().requires_grad_()
        output = torch.sum(inputs)
        output.backward(torch.ones_like(output))

    if device_first:
        npu.set_device("npu:1")
        on_cpu()
    else:
        on_cpu()
        npu.set_device("npu:1")
    inputs = torch.randn(20, 10).detach().requires_grad_().npu()
    output = torch.sum(inputs)
    output.backward(torch.ones_like(output))
    assert output.device == torch.device("npu:1")


def test_differences_of_mixed_types_are_promoted_alike_and_can_be_stacked():
    xs, boxes = torch.rand(224, 8).npu(), torch.rand(224, 8, 4).npu().half()
    left, right = xs - boxes[..., 0], boxes[..., 2] - xs
    assert left.dtype == right.dtype == torch.float32
    assert torch.stack((left, right), -1).shape == (224, 8, 2)


def test_a_batch_that_does_not_fit_is_out_of_memory_and_a_smaller_one_runs():
    with emulate("Ascend910B1", memory_bytes=256 * 2**20, numerics="exact", unsupported="fallback"):
        conv = nn.Conv2d(3, 64, 3).npu()
        with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory"):
            conv(torch.randn(64, 3, 128, 128).npu())
        assert conv(torch.randn(4, 3, 128, 128).npu()).shape == (4, 64, 126, 126)


def test_an_operator_without_kernel_is_named_with_the_backend_and_what_to_do():
    x = torch.rand(3)
    with emulate("Ascend910A", unsupported="error"):
        with pytest.raises(NotImplementedError, match=r"Could not run 'aten::lgamma' .* 'npu' backend"):
            torch.lgamma(x.npu())
        torch.testing.assert_close(torch.lgamma(x.npu().cpu()).npu().cpu(), torch.lgamma(x))


def test_int64_targets_of_binary_cross_entropy_are_refused_and_floating_ones_run():
    logits, targets = torch.randn(4).npu(), torch.tensor([0, 1, 1, 0])
    with pytest.raises(RuntimeError):
        functional.binary_cross_entropy_with_logits(logits, targets.npu())
    loss = functional.binary_cross_entropy_with_logits(logits, targets.float().npu())
    assert loss.device.type == "npu"


def test_synchronisation_is_the_npus_not_cudas():
    stream = npu.current_stream()
    stream.synchronize()
    assert stream.query()
    with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):
        torch.cuda.current_stream().synchronize()


def compiles(change: Any, *, sizes: tuple[int, ...]) -> list[int]:
    """Return how many operators are compiled by each call of `change`."""
    found = []
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        for size in sizes:
            before = ledger.counts().num_compiles
            change(size)
            found.append(ledger.counts().num_compiles - before)
    return found


def test_assignment_through_indices_is_compiled_for_every_new_shape():
    values = torch.zeros(300).npu()
    indices = {size: torch.arange(size).npu() for size in (131, 132, 133)}

    def assign(size: int) -> None:
        values[indices[size]] = 1.0

    first, again, second, third, back = compiles(assign, sizes=(131, 131, 132, 133, 132))
    assert first >= 1
    assert (again, second, third, back) == (0, 1, 1, 0)


def test_assignment_by_a_mask_of_fixed_shape_is_compiled_once():
    values = torch.zeros(300).npu()
    masks = {size: (torch.arange(300) < size).npu() for size in (131, 132, 133)}

    def assign(size: int) -> None:
        torch.where(masks[size], torch.ones_like(values), values)

    first, *others = compiles(assign, sizes=(131, 132, 133))
    assert first >= 1
    assert others == [0, 0]


class Losses(nn.Module):
    """Returns a dictionary, as detectors return their losses."""

    def __init__(self, as_tensor: bool) -> None:
        super().__init__()
        self.as_tensor = as_tensor

    def forward(self, x: Tensor) -> dict[str, Any]:
        loss = x.sum()
        return {"loss": loss if self.as_tensor else loss.item()}


def test_a_backward_hook_of_a_module_that_returns_no_tensor_fails_with_stop_iteration():
    calls: list[str] = []
    for as_tensor in (True, False):
        module = Losses(as_tensor).npu()
        module.register_backward_hook(lambda *_: calls.append("called"))
        leaf = torch.ones(2).npu().requires_grad_()
        if as_tensor:
            with pytest.warns(FutureWarning, match="non-full backward hooks"):
                loss = module(leaf)["loss"]
            loss.backward()
        else:
            with pytest.raises(StopIteration):
                module(leaf)
    assert calls == ["called"]


def test_a_checkpoint_of_a_wrapped_model_loads_without_its_prefix(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).npu()
    wrapped = nn.ModuleDict({"module": model})
    torch.save({"state_dict": wrapped.state_dict()}, tmp_path / "checkpoint.pth")
    checkpoint = torch.load(tmp_path / "checkpoint.pth", map_location="npu:0")
    fresh = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).npu()
    with pytest.raises(RuntimeError, match="Missing key"):
        fresh.load_state_dict(checkpoint["state_dict"])
    fresh.load_state_dict({name[len("module.") :]: value for name, value in checkpoint["state_dict"].items()})
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), fresh.state_dict().values(), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_single_operator_is_compared_with_the_cpu(dtype):
    x = torch.randn(10, 20).mul(10).to(dtype)
    assert torch.equal(torch.max(x), torch.max(x.npu()).cpu())
    for ours, cpus in zip(torch.max(x.npu(), 1), torch.max(x, 1), strict=True):
        assert torch.equal(ours.cpu(), cpus)


def test_a_module_is_compared_with_the_cpu_hooks_giving_its_gradients():
    torch.manual_seed(0)
    conv, seen = nn.Conv2d(16, 32, 8), []
    conv.weight.register_hook(lambda gradient: seen.append(gradient.clone()))
    x = torch.randn(2, 16, 8, 8)
    conv(x).sum().backward()
    on_npu = nn.Conv2d(16, 32, 8)
    on_npu.load_state_dict(conv.state_dict())
    on_npu.npu()
    on_npu.weight.register_hook(lambda gradient: seen.append(gradient.clone()))
    result = on_npu(x.npu())
    result.sum().backward()
    torch.testing.assert_close(result.cpu(), conv(x))
    assert [gradient.device.type for gradient in seen] == ["cpu", "npu"]
    torch.testing.assert_close(seen[1].cpu(), seen[0])
