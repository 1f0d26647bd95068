"""Several logical devices. Run in a process of its own (see test_emulator_isolated.py): it cannot be undone."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback", num_devices=4))


def test_tensors_keep_their_index_through_operators_views_and_factories():
    a = torch.ones(4, device="npu:1")
    derived = [
        a,
        a + 1,
        a.view(2, 2),
        a[0],
        a.double(),
        torch.zeros_like(a),
        a.new_zeros(2),
        torch.cat([a, a]),
        a.clone(),
    ]
    assert {str(t.device) for t in derived} == {"npu:1"}
    assert (a.get_device(), a.is_npu, a.untyped_storage().device) == (1, True, torch.device("npu:1"))
    assert repr(torch.zeros(1, device="npu:2")) == "tensor([0.], device='npu:2')"
    assert str(torch.ones(2, device="npu").device) == str(torch.ones(2, device="npu:0").device) == "npu:0"
    assert torch.ones(2).device.type == "cpu"


@pytest.mark.parametrize("name", ["npu:1", "meta", "cpu"])
def test_a_default_device_is_for_everything_that_is_made(name):
    torch.ones(1, device="npu:1")
    with torch.device(name):
        made = torch.tensor(1), torch.rand(2), nn.Linear(2, 2).weight
    assert {str(tensor.device) for tensor in made} == {name}


def test_tensors_of_two_devices_do_not_mix():
    a, b = torch.ones(2, 2, device="npu:0"), torch.ones(2, 2, device="npu:1")
    with pytest.raises(RuntimeError, match="found at least two devices, npu:0 and npu:1!"):
        a + b
    with pytest.raises(RuntimeError, match="got mat2 is on npu:1, different from other tensors on npu:0"):
        a @ b
    with pytest.raises(RuntimeError, match="Invalid NPU device id 4"):
        torch.ones(2, device="npu:4")


def test_moving_copies_and_staying_does_not():
    a = torch.ones(2, device="npu:0")
    b = a.to("npu:1")
    b.add_(1)
    assert (a.tolist(), str(b.device), b.to("npu:1") is b, b.npu(1) is b) == ([1, 1], "npu:1", True, True)
    assert str(b.to("npu:0").device) == "npu:0"
    assert str(b.to("npu:2", torch.float16).device) == "npu:2"
    assert str(b.to(torch.float16).device) == "npu:1"
    assert str(torch.ones(1).to(b).device) == "npu:1"
    assert a.copy_(b).tolist() == [2, 2]
    assert b.cpu().device.type == "cpu"


def test_the_current_device_is_what_npu_means():
    with torch.npu.device(2):
        assert torch.npu.current_device() == torch.accelerator.current_device_index() == 2
        made = [torch.ones(1, device="npu"), torch.ones(1).npu(), torch.ones(1).to("npu"), torch.randn(3, device="npu")]
        assert {str(t.device) for t in made} == {"npu:2"}
        assert str(torch.ones(1, device="npu:0").device) == "npu:0"
        assert str(torch.npu.current_stream().device) == "npu:2"
    assert torch.npu.current_device() == 0


def test_training_on_one_and_across_two_devices():
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.Flatten(), nn.Linear(12, 3)).to("npu:1")
    optimizer = torch.optim.Adam(model.parameters())
    loss = nn.functional.cross_entropy(
        model(torch.randn(2, 2, 5, device="npu:1")), torch.tensor([0, 2], device="npu:1")
    )
    loss.backward()
    optimizer.step()
    assert {str(p.grad.device) for p in model.parameters()} == {"npu:1"}
    first, second = nn.Linear(2, 3).to("npu:0"), nn.Linear(3, 1).to("npu:3")
    second(first(torch.ones(1, 2, device="npu:0")).to("npu:3")).cpu().sum().backward()
    assert (str(first.weight.grad.device), str(second.weight.grad.device)) == ("npu:0", "npu:3")


def test_memory_is_counted_on_its_device():
    before = torch.npu.memory_allocated(3)
    x = torch.ones(100, device="npu:3")
    assert torch.npu.memory_allocated("npu:3") - before == 512
    del x
    assert torch.npu.memory_allocated(3) == before


def test_checkpoints_and_copies_remember_the_index():
    x = torch.ones(2, device="npu:1")
    buffer = io.BytesIO()
    torch.save(x, buffer)
    found = []
    for where in (None, "npu:2", {"npu:1": "npu:0"}, "cpu"):
        buffer.seek(0)
        found.append(str(torch.load(buffer, map_location=where).device))
    assert found == ["npu:1", "npu:2", "npu:0", "cpu"]
    assert str(copy.deepcopy(x).device) == "npu:1"


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.embedding.weight = self.head.weight

    def forward(self, x):
        return self.head(self.embedding(x))


def test_tied_weights_move_once_and_train_with_clipped_gradients():
    model = Tied().to("npu:1")
    assert model.embedding.weight is model.head.weight
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    model(torch.tensor([1, 2], device="npu:1")).sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1e-3, foreach=True)
    optimizer.step()
    devices = {str(norm.device), *(str(value.device) for value in optimizer.state[model.head.weight].values())}
    assert devices - {"cpu"} == {"npu:1"}  # AdamW keeps its step counter on the CPU
    assert model.head.weight.grad.norm().item() <= 1.001e-3


def test_a_lazy_module_moves_before_its_parameters_have_shapes():
    module = nn.LazyLinear(3).to("npu:1")
    assert isinstance(module.weight, nn.UninitializedParameter)
    assert str(module(torch.ones(2, 5, device="npu:1")).device) == "npu:1"


def test_a_copy_to_the_host_that_may_still_be_under_way_is_pinned_whatever_its_dtype():
    x = torch.arange(3.0, device="npu:1")
    copies = [x.to("cpu", dtype, non_blocking=True) for dtype in (torch.float32, torch.float16)]
    assert [(copy.is_pinned(), copy.dtype) for copy in copies] == [(True, torch.float32), (True, torch.float16)]


@pytest.mark.parametrize("convert", [torch.as_tensor, torch.asarray])
@pytest.mark.parametrize("where", ["npu:0", "npu:1"])
def test_a_tensor_that_is_where_it_is_wanted_is_not_copied(convert, where):
    convert = getattr(torch, convert.__name__)  # the one of a process with several devices
    here, other = torch.ones(3, device=where), "npu:1" if where == "npu:0" else "npu:0"
    assert convert(here, device=where).data_ptr() == here.data_ptr()
    moved = convert(here, device=other)
    assert (str(moved.device), moved.data_ptr() == here.data_ptr()) == (other, False)


@pytest.mark.filterwarnings("error")
def test_a_compiled_function_of_tensors_of_the_host_takes_floats_that_vary():
    """What TorchDynamo writes for them calls `torch.as_tensor`, which is ours here."""
    torch.ones(1, device="npu:1")
    scaled = torch.compile(lambda x, factor: x * factor, backend="eager", dynamic=True)
    for length, factor in ((2, 0.5), (3, 0.5), (4, 2.5)):
        assert scaled(torch.ones(length), factor).tolist() == [factor] * length
