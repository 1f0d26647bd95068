"""`transfer_to_npu`. Run in a process of its own (see test_emulator_isolated.py): it cannot be undone."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

with pytest.warns(RuntimeWarning, match="torch.jit.script"):
    from torch_npu.contrib import transfer_to_npu  # noqa: F401 (the import is what is tested, and needs the device)


def test_cuda_names_mean_the_npu():
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    x = torch.ones(2, device=device)
    assert (str(device), str(x.device), x.is_cuda, isinstance(x.device, torch.device)) == (
        "cuda:0",
        "npu:0",
        True,
        True,
    )
    assert {t.device.type for t in (x.cuda(), torch.ones(1).cuda(), torch.ones(1).to("cuda"), x.new_zeros(1))} == {
        "npu"
    }
    assert torch.ones(1).to(device=device).device == torch.ones(1).cuda(device).device == x.device
    assert nn.Linear(2, 2).cuda().weight.device.type == nn.Linear(2, 2).to("cuda").weight.device.type == "npu"
    assert nn.Linear(2, 2, device=device).weight.device == x.device
    torch.cuda.set_device(device)
    torch.cuda.synchronize("cuda:0")
    torch.cuda.manual_seed_all(1)
    assert torch.cuda.memory_allocated("cuda") == torch.npu.memory_allocated()
    assert torch.cuda.is_available.__module__ == torch.npu.is_available.__module__


def test_a_device_compares_by_its_name_as_with_the_vendors():
    assert torch.ones(1, device="cuda:0").device != torch.device("cuda:0")


def test_a_file_named_after_cuda_keeps_its_name(tmp_path):
    torch.save(torch.ones(2), tmp_path / "cuda.pt")
    assert torch.load(str(tmp_path / "cuda.pt"), map_location="cuda:0").device == torch.device("npu:0")


@pytest.mark.parametrize(("name", "expected"), [("cuda", "npu"), ("npu", "npu"), ("meta", "meta"), ("cpu", "cpu")])
def test_a_default_device_is_for_everything_that_is_made(name, expected):
    with torch.device(name):
        made = torch.tensor(1), torch.rand(2), nn.Linear(2, 2).weight
    assert {tensor.device.type for tensor in made} == {expected}


def test_a_default_device_may_be_set():
    torch.set_default_device("cuda")
    try:
        assert torch.tensor(1).device.type == "npu"
    finally:
        torch.set_default_device(None)


def test_generators_and_events_are_still_classes():
    generators = torch.Generator("cuda"), torch.Generator(device=torch.device("cuda:0"))
    assert {generator.device.type for generator in generators} == {"npu"}
    assert all(isinstance(generator, torch.Generator) for generator in (*generators, torch.default_generator))
    assert torch.Generator().device.type == "cpu"
    a, b = (torch.rand(3, device="cuda", generator=generators[0].manual_seed(4)) for _ in range(2))
    assert torch.equal(a, b)
    assert isinstance(torch.Event("cuda"), torch.Event)


def test_names_imported_from_submodules_are_the_npus():
    from torch.cuda.amp import GradScaler, autocast
    from torch.cuda.memory import max_memory_allocated
    from torch.cuda.random import manual_seed

    assert (GradScaler, autocast) == (torch.npu.amp.GradScaler, torch.npu.amp.autocast)
    assert max_memory_allocated("npu") == torch.npu.max_memory_allocated()
    manual_seed(3)
    assert torch.npu.initial_seed() == 3
    assert torch.cuda.CUDAGraph is torch.npu.NPUGraph


def test_mixed_precision_under_its_cuda_names():
    model = nn.Linear(2, 2).cuda()
    for scaler in (torch.cuda.amp.GradScaler(), torch.amp.GradScaler("cuda"), torch.GradScaler(device="cuda")):
        model.zero_grad()
        with torch.autocast("cuda"), torch.cuda.amp.autocast(), torch.amp.autocast(device_type="cuda"):
            y = model(torch.ones(1, 2, device="cuda"))
        scaler.scale(y.sum()).backward()
        assert scaler.is_enabled()
        assert (y.dtype, model.weight.grad.device.type) == (torch.float16, "npu")


def test_the_profiler_is_the_npus(tmp_path):
    import torch_npu

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    with torch.profiler.profile(
        activities=activities, on_trace_ready=handler, experimental_config=object()
    ) as profiler:
        torch.ones(2, device="cuda").add(1)
    assert isinstance(profiler, torch_npu.profiler.profile)
    assert list(tmp_path.rglob("kernel_details.csv"))


def test_scripting_is_off():
    def function(x: torch.Tensor) -> torch.Tensor:
        return x

    assert torch.jit.script(function) is function


def test_nccl_is_hccl(tmp_path: Path):
    assert torch.distributed.is_nccl_available()
    for name in ("nccl", "cpu:gloo,cuda:nccl"):
        torch.distributed.init_process_group(
            backend=name, init_method=f"file://{tmp_path / name.replace(':', '')}", rank=0, world_size=1
        )
        try:
            group = torch.distributed.new_group([0], backend="nccl")
            x = torch.ones(2, device="cuda")
            torch.distributed.all_reduce(x, group=group)
            torch.distributed.all_reduce(x)
            mesh = torch.distributed.init_device_mesh("cuda", (1,))
            found = x.tolist(), mesh.device_type, torch.distributed.get_backend(group)
            assert found == ([1.0, 1.0], "npu", "hccl")
        finally:
            torch.distributed.destroy_process_group()


def test_nothing_warns_when_it_is_imported_again():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from torch_npu.contrib import transfer_to_npu  # noqa: F401
