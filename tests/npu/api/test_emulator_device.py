"""Plans, activation, `torch.npu`, streams, memory, random numbers, pinned memory, `import torch_npu`."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
import types

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, dataloader

from jumar.base.errors import DeviceError
from jumar.device import ActiveDevice, DevicePlan, activate, emulate
from jumar.device.bridge import _call_plugin
from jumar.device.plan import PLUGIN_VARIABLE
from jumar.npu.api.alias import VERSION

active_device = activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def test_another_kind_of_device_needs_a_process_of_its_own():
    with pytest.raises(DeviceError, match=r"already has npu \(emulated\), .* a plan for cuda-stand-in"):
        activate(DevicePlan(kind="cuda-stand-in"))


def test_activation_says_what_is_up_and_happens_once():
    assert active_device == ActiveDevice(
        device_type="npu", description="npu (emulated)", soc="Ascend910B1", torch_npu_version=VERSION
    )
    assert activate(DevicePlan(soc="Ascend910A")) is active_device


def test_a_plan_survives_the_environment():
    plan = DevicePlan(kind="cuda-stand-in", soc="Ascend310P3", real="never", num_devices=2)
    assert DevicePlan.from_environment(plan.to_environment()) == plan
    assert DevicePlan.from_environment({}) is None


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"unknown": 1}', '{"kind": "tpu"}', '{"num_devices": 0}', '{"real": "x"}']
)
def test_a_broken_plan_in_the_environment_is_a_device_error(text):
    with pytest.raises(DeviceError):
        DevicePlan.from_environment({"JUMAR_DEVICE_PLAN": text})


def test_the_cpu_needs_nothing_and_missing_cuda_is_an_error():
    assert activate(DevicePlan(kind="cpu")).device_type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="finds no CUDA device"):
            activate(DevicePlan(kind="cuda"))


def test_emulate_as_a_block_and_as_a_decorator():
    @emulate("Ascend910A", num_devices=2)
    def inside() -> tuple[str, int]:
        torch.npu.set_option({"ACL_PRECISION_MODE": "must_keep_origin_dtype"})
        return torch.npu.get_device_name(), torch.npu.device_count()

    assert inside() == ("Ascend910A", 2)
    with emulate("Ascend910B3") as active:
        assert (active.soc, torch.npu.get_device_name()) == ("Ascend910B3", "Ascend910B3")
    assert (torch.npu.get_device_name(), torch.npu.device_count()) == ("Ascend910B1", 8)
    assert torch.npu.get_option("ACL_PRECISION_MODE") is None


def test_a_plugin_named_in_the_environment_is_called(monkeypatch):
    calls = []
    module = types.ModuleType("jumar_test_plugin")
    module.start = lambda: calls.append("called")
    monkeypatch.setitem(sys.modules, "jumar_test_plugin", module)
    monkeypatch.setenv(PLUGIN_VARIABLE, "jumar_test_plugin:start")
    _call_plugin()
    assert calls == ["called"]
    monkeypatch.setenv(PLUGIN_VARIABLE, "no-colon")
    with pytest.raises(DeviceError, match="must be module:function"):
        _call_plugin()


def test_device_calls():
    assert (torch.npu.is_available(), torch.npu.device_count(), torch.npu.current_device()) == (True, 8, 0)
    assert torch.get_device_module("npu") is torch.npu
    assert torch.npu.is_bf16_supported()
    torch.npu.init()
    assert torch.npu.is_initialized()
    torch.npu.synchronize()
    torch.npu.set_device("npu:0")
    with torch.npu.device(0), torch.npu.device_of(torch.ones(1, device="npu")), torch.npu.device(None):
        assert torch.npu.current_device() == 0
    with pytest.raises(RuntimeError, match="Invalid NPU device id 8"):
        torch.npu.set_device(8)
    with pytest.raises(ValueError, match="Expected a npu device"):
        torch.npu.set_device("cpu")
    properties = torch.npu.get_device_properties(0)
    assert (properties.name, properties.total_memory) == ("Ascend910B1", torch.npu.mem_get_info()[1])
    assert torch.npu.get_device_capability() is None
    with emulate("Ascend910B1"):
        torch.npu.set_compile_mode(jit_compile=False)
        assert torch.npu.is_jit_compile_false()
    with pytest.raises(TypeError):
        torch.npu.set_option("no dict")
    with pytest.raises(AttributeError, match="no attribute 'no_such_call' on the emulated NPU"):
        _ = torch.npu.no_such_call


def test_accelerator_calls():
    assert torch.accelerator.current_accelerator().type == "npu"
    assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (8, 0)
    torch.accelerator.synchronize()
    torch.accelerator.set_device_index(0)
    assert torch.accelerator.current_stream() == torch.npu.current_stream()


@pytest.mark.skipif(not hasattr(torch.accelerator, "memory_allocated"), reason="torch.accelerator has it from 2.9 on")
def test_the_accelerators_memory_is_the_npus():
    assert torch.accelerator.memory_allocated() == torch.npu.memory_allocated()


def test_streams_and_events():
    stream = torch.npu.Stream()
    assert torch.npu.current_stream() == torch.npu.default_stream() != stream
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        event = stream.record_event()
    with stream:
        assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == torch.npu.default_stream()
    stream.wait_event(event)
    stream.wait_stream(torch.npu.current_stream())
    stream.synchronize()
    torch.ones(1, device="npu").record_stream(stream)
    assert (stream.query(), event.query()) == (True, True)


def test_timing_events():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    torch.randn(200, 200, device="npu") @ torch.randn(200, 200, device="npu")
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 10_000
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.npu.Event().elapsed_time(end)


def test_memory_is_counted_by_storage():
    gc.collect()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    x = torch.empty(1000, device="npu")
    view = x[10:20]
    assert torch.npu.memory_allocated() - before == 4096
    y = x + x
    del y
    assert torch.npu.max_memory_allocated() - before == 8192
    del x
    assert torch.npu.memory_allocated() - before == 4096
    del view
    assert torch.npu.memory_allocated() == before
    stats = torch.npu.memory_stats()
    assert stats["allocated_bytes.all.current"] == before
    assert stats["allocated_bytes.all.peak"] >= before + 8192
    assert "PyTorch NPU memory summary, device ID 0" in torch.npu.memory_summary()
    torch.npu.empty_cache()


def test_memory_kept_by_autograd_is_counted():
    gc.collect()
    before = torch.npu.memory_allocated()
    x = torch.ones(1000, device="npu", requires_grad=True)
    y = x.exp().sin()
    kept = torch.npu.memory_allocated() - before
    assert kept == 3 * 4096
    del y
    assert torch.npu.memory_allocated() - before == 4096


def test_random_numbers_are_the_cpus():
    torch.manual_seed(5)
    expected = (torch.randn(3), torch.rand(2), torch.randperm(5), torch.bernoulli(torch.full((4,), 0.5)))
    torch.manual_seed(5)
    device = {"device": "npu"}
    actual = (
        torch.randn(3, **device),
        torch.rand(2, **device),
        torch.randperm(5, **device),
        torch.bernoulli(torch.full((4,), 0.5, **device)),
    )
    for left, right in zip(expected, actual, strict=True):
        assert torch.equal(left, right.cpu())


def test_generators_and_states():
    generator = torch.Generator(device="npu")
    assert generator.device == torch.device("npu:0")
    generator.manual_seed(7)
    first = torch.randn(4, device="npu", generator=generator)
    state = generator.get_state()
    second = torch.empty(4, device="npu").normal_(generator=generator)
    generator.set_state(state)
    assert torch.equal(second, torch.randn(4, device="npu", generator=generator))
    assert torch.equal(first.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(7)))
    torch.npu.manual_seed_all(11)
    assert torch.npu.initial_seed() == 11
    states = torch.npu.get_rng_state_all()
    drawn = torch.rand(3, device="npu")
    torch.npu.set_rng_state_all(states)
    assert torch.equal(drawn, torch.rand(3, device="npu"))
    assert torch.equal(torch.npu.default_generators[0].get_state(), torch.npu.get_rng_state())
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        torch.rand(5, device="npu")


def test_pinned_memory():
    x = torch.ones(3)
    pinned = x.pin_memory()
    assert (x.is_pinned(), pinned.is_pinned(), pinned[1:].is_pinned(), pinned.pin_memory() is pinned) == (
        False,
        True,
        True,
        True,
    )
    assert torch.equal(pinned.to("npu", non_blocking=True).cpu(), x)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.npu().pin_memory()


@pytest.mark.parametrize(
    ("workers", "context"), [(0, None), (1, "fork"), pytest.param(1, "spawn", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(
    "accelerator" not in inspect.getsource(dataloader), reason="the DataLoader of torch 2.6 pins for CUDA only"
)
def test_data_loaders_pin_their_batches(workers, context):
    data = TensorDataset(torch.arange(12.0).view(6, 2), torch.arange(6))
    loader = DataLoader(data, batch_size=4, num_workers=workers, pin_memory=True, multiprocessing_context=context)
    batches = list(loader)
    assert [batch[0].is_pinned() for batch in batches] == [True, True]
    assert sum(batch[1].npu(non_blocking=True).sum().item() for batch in batches) == 15


def test_typed_constructors():
    x = torch.npu.FloatTensor([1, 2])
    assert (x.dtype, x.device.type, isinstance(x, torch.npu.FloatTensor)) == (torch.float32, "npu", True)
    assert not isinstance(x, torch.npu.HalfTensor)
    assert torch.npu.LongTensor(2, 3).shape == (2, 3)


def test_import_torch_npu_finds_the_emulator():
    import torch_npu
    import torch_npu.npu.utils
    from torch_npu.npu.amp import GradScaler, autocast

    assert torch_npu.npu is torch.npu
    assert torch_npu.__version__ == VERSION
    assert (GradScaler, autocast) == (torch.npu.amp.GradScaler, torch.npu.amp.autocast)
    assert torch_npu.npu.utils is torch.npu.utils
    with pytest.raises(AttributeError, match="on the emulated NPU"):
        _ = torch_npu.no_such_name
    with pytest.raises(ImportError):
        import torch_npu.no_such_module


def test_a_plan_for_an_unknown_soc_is_refused():
    with pytest.raises(DeviceError, match='"Ascend911" must be an Ascend SoC'):
        DevicePlan(soc="Ascend911")


@pytest.mark.slow
@pytest.mark.parametrize(
    "missing", ["torch.library.get_kernel", "torch.utils.backend_registration._setup_privateuseone_for_python_backend"]
)
def test_a_torch_without_the_hooks_needs_a_compiler_and_says_so(missing, tmp_path):
    code = f"""
import torch, torch.utils.backend_registration
del {missing}
from jumar.device import DevicePlan, activate
from jumar.base.errors import DeviceError
try:
    activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
except DeviceError as error:
    assert "install g++ or set CXX" in str(error) and "torch 2.13" in str(error), error
else:
    raise SystemExit("no error")
"""
    environment = {**os.environ, "CXX": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, timeout=280
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "get_device_capability"), reason="torch.accelerator has it from torch 2.10 on"
)
def test_the_accelerators_capability_names_the_dtypes():
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.float16, torch.int64, torch.bool} <= supported
    assert torch.qint8 not in supported


def test_typed_constructors_take_a_device():
    made = torch.npu.HalfTensor([1.0, 2.0], device="npu:0")
    assert (made.dtype, str(made.device), made.tolist()) == (torch.float16, "npu:0", [1.0, 2.0])
    assert torch.npu.IntTensor(device="npu").shape == (0,)
