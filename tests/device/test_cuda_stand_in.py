"""What a CUDA script sees when CPU kernels stand in for CUDA.

The stand-in changes PyTorch for the rest of a process, so every case runs in one child process that has it.
"""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from jumar.base.errors import DeviceError
from jumar.device import DevicePlan, activate, cuda_stand_in


def bring_up() -> None:
    torch.set_num_threads(1)
    activate(DevicePlan(kind="cuda-stand-in", num_devices=2))


@pytest.fixture(scope="module")
def stand_in() -> Iterator[Callable[..., Any]]:
    """Runs a function of this module in the process that has the stand-in."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), bring_up) as pool:
        yield lambda function, *args: pool.submit(function, *args).result(timeout=120)


def raised(function: Callable[[], Any]) -> str:
    try:
        return f"no error, but {function()!r}"
    except Exception as error:  # noqa: BLE001 - the type is part of what is returned
        return f"{type(error).__name__}: {error}"


def devices() -> list[str]:
    x = torch.ones(2)
    made = [
        torch.zeros(2, device="cuda"),
        torch.zeros(2, device=torch.device("cuda", 0)),
        torch.zeros(2, device=0),
        torch.tensor([1.0], device="cuda:0"),
        torch.arange(3, device="cuda"),
        x.cuda(),
        x.cuda(0),
        x.to("cuda"),
        x.to("cuda:0", torch.float64),
        x.to(0),
        x.to(device=torch.device("cuda")),
        x.cuda().new_zeros(2),
        x.new_zeros(2, device="cuda"),
        torch.empty_like(x, device="cuda"),
        torch.randn(2, device="cuda"),
        torch.cuda.FloatTensor(2, 3),
        torch.cuda.FloatTensor([1.0, 2.0]),
        x.type("torch.cuda.HalfTensor"),
        x.type(torch.cuda.FloatTensor),
        nn.Linear(2, 2).cuda().weight,
        nn.Linear(2, 2).to("cuda").weight,
        nn.Linear(2, 2, device="cuda").weight,
        nn.Parameter(x.cuda()),
    ]
    with torch.device("cuda"):
        made.append(torch.ones(2))
    return [str(tensor.device) for tensor in made]


def test_every_way_of_naming_a_cuda_device_gives_a_tensor_on_cuda(stand_in):
    assert {"cuda:0"} == set(stand_in(devices))


def answers() -> dict[str, Any]:
    x = torch.ones(2).cuda()
    return {
        "device": x.device == torch.device("cuda", 0),
        "device type": x.device.type,
        "is_cuda": (x.is_cuda, torch.ones(2).is_cuda),
        "is_cpu": x.is_cpu,
        "type": (x.type(), x.half().type()),
        "isinstance": (isinstance(x, torch.cuda.FloatTensor), isinstance(x, torch.cuda.HalfTensor)),
        "cpu tensor": isinstance(torch.ones(2), torch.cuda.FloatTensor),
        "repr": repr(x),
        "get_device": x.get_device(),
        "same object": x.cuda() is x and x.to("cuda:0") is x,
        "parameter": next(nn.Linear(2, 2).cuda().parameters()).device.type,
        "back": str(x.cpu().device),
        "default device": str(torch.get_default_device()),
    }


def test_a_tensor_on_cuda_answers_as_on_a_cuda_machine(stand_in):
    assert stand_in(answers) == {
        "device": True,
        "device type": "cuda",
        "is_cuda": (True, False),
        "is_cpu": False,
        "type": ("torch.cuda.FloatTensor", "torch.cuda.HalfTensor"),
        "isinstance": (True, False),
        "cpu tensor": False,
        "repr": "tensor([1., 1.], device='cuda:0')",
        "get_device": 0,
        "same object": True,
        "parameter": "cuda",
        "back": "cpu",
        "default device": "cpu",
    }


def queries() -> dict[str, Any]:
    torch.cuda.manual_seed_all(3)
    first = torch.rand(2, device="cuda").tolist()
    torch.cuda.manual_seed(3)
    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        start.record()
        x = torch.ones(1024, device="cuda")
        end.record()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    x.record_stream(torch.cuda.current_stream())
    with torch.cuda.nvtx.range("step"):
        torch.cuda.nvtx.range_push("inner")
        torch.cuda.nvtx.range_pop()
    with torch.cuda.device("cuda:1"):
        inside = torch.cuda.current_device()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.empty_cache()
    return {
        "available": torch.cuda.is_available(),
        "count": torch.cuda.device_count(),
        "name": torch.cuda.get_device_name(0),
        "capability": torch.cuda.get_device_capability(torch.device("cuda")),
        "properties": torch.cuda.get_device_properties("cuda:0").major,
        "bf16": torch.cuda.is_bf16_supported(),
        "current": (torch.cuda.current_device(), inside, torch.cuda.current_device()),
        "seeds": first == torch.rand(2, device="cuda").tolist(),
        "stream": isinstance(torch.cuda.current_stream(), torch.cuda.Stream),
        "elapsed": start.elapsed_time(end) >= 0,
        "memory": torch.cuda.max_memory_allocated() >= x.nbytes <= torch.cuda.memory_allocated("cuda:0"),
        "module": torch.get_device_module("cuda") is torch.cuda,
        "accelerator": str(torch.accelerator.current_accelerator()),
        "version": torch.version.cuda is not None,
    }


def test_torch_cuda_answers_as_on_a_cuda_machine_and_says_that_it_is_a_stand_in(stand_in):
    assert stand_in(queries) == {
        "available": True,
        "count": 2,
        "name": "CPU kernels standing in for CUDA (Jumar)",
        "capability": (8, 0),
        "properties": 8,
        "bf16": True,
        "current": (0, 1, 0),
        "seeds": True,
        "stream": True,
        "elapsed": True,
        "memory": True,
        "module": True,
        "accelerator": "cuda",
        "version": True,
    }


def refusals() -> dict[str, str]:
    from torch.utils.cpp_extension import CUDAExtension, load, load_inline

    def capture() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass

    return {
        "graph": raised(torch.cuda.CUDAGraph),
        "capture": raised(capture),
        "cudart": raised(lambda: torch.cuda.cudart().cudaProfilerStart()),
        "load": raised(lambda: load(name="fused_bias", sources=["fused.cpp", "fused.cu"])),
        "load_inline": raised(lambda: load_inline("fused_bias", [""], cuda_sources=[""])),
        "CUDAExtension": raised(lambda: CUDAExtension("fused_bias", ["fused.cu"])),
        "unknown": raised(torch.cuda.temperature),
    }


@pytest.mark.parametrize(
    ("case", "name", "action"),
    [
        ("graph", "torch.cuda.CUDAGraph", "run the captured code directly"),
        ("capture", "torch.cuda.CUDAGraph", "run the captured code directly"),
        ("cudart", "torch.cuda.cudart", "take the call out"),
        ("load", "'fused_bias'", "pure PyTorch path"),
        ("load_inline", "'fused_bias'", "pure PyTorch path"),
        ("CUDAExtension", "'fused_bias'", "pure PyTorch path"),
        ("unknown", "torch.cuda.temperature", "take the call out"),
    ],
)
def test_what_needs_a_real_gpu_is_refused_by_name_with_what_to_do(stand_in, case, name, action):
    message = stand_in(refusals)[case]
    assert message.startswith("NotImplementedError: ")
    assert name in message
    assert action in message


def launch_triton_kernel(folder: str) -> str:
    sys.path.insert(0, folder)
    try:
        from triton.runtime.jit import JITFunction

        return raised(lambda: JITFunction("softmax_kernel").run(1, grid=(1,)))
    finally:
        sys.path.remove(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
            del sys.modules[name]


def test_a_triton_kernel_can_be_defined_but_not_launched(stand_in, tmp_path):
    package = tmp_path / "triton" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "jit.py").write_text(
        "class JITFunction:\n"
        "    def __init__(self, name): self.__name__ = name\n"
        "    def run(self, *args, **kwargs): return 'launched'\n"
    )
    message = stand_in(launch_triton_kernel, str(tmp_path))
    assert message.startswith("NotImplementedError: the Triton kernel 'softmax_kernel' needs a real CUDA device")


def annotated_with_what_is_refused() -> tuple[bool, bool, str]:
    """Libraries name `torch.cuda.CUDAGraph | None` in annotations, and derive classes, when they are imported."""

    def graph_of(key: int) -> torch.cuda.CUDAGraph | None:
        return None

    class Named(torch.cuda.CUDAGraph):
        """A class of a library."""

    unions = (torch.cuda.CUDAGraph | int, str | torch.cuda.CUDAGraph)
    return graph_of(1) is None, all(unions), raised(Named)


def test_what_is_refused_can_be_named_in_annotations_and_derived_from(stand_in):
    is_none, are_unions, message = stand_in(annotated_with_what_is_refused)
    assert is_none
    assert are_unions
    assert message.startswith("NotImplementedError: torch.cuda.CUDAGraph needs a real CUDA device")


def reset_dynamo() -> bool:
    import torch._dynamo

    torch._dynamo.reset()
    return torch._dynamo.is_compiling()


@pytest.mark.slow
def test_the_compiler_can_be_reset(stand_in):
    assert not stand_in(reset_dynamo)


def misplaced() -> str:
    return raised(lambda: torch.ones(2, device="cuda") + torch.ones(2))


def test_mixing_cpu_and_cuda_tensors_raises_as_on_a_cuda_machine(stand_in):
    assert stand_in(misplaced).startswith("RuntimeError: Expected all tensors to be on the same device")


def saved_tags() -> tuple[bytes, list[str]]:
    model = nn.Linear(3, 2).cuda()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    found = []
    to_one: Callable[..., Any] = lambda storage, tag: storage.cuda(1)  # noqa: E731 - how scripts write it
    for location in (None, "cuda:0", "cuda:1", torch.device("cuda"), {"cuda:0": "cpu"}, "cpu", to_one):
        state = torch.load(io.BytesIO(file.getvalue()), map_location=location)
        found.append(str(state["weight"].device))
    return file.getvalue(), found


def test_checkpoints_load_where_map_location_says_and_elsewhere_as_cuda_checkpoints(stand_in):
    saved, loaded_on = stand_in(saved_tags)
    assert loaded_on == ["cuda:0", "cuda:0", "cuda:1", "cuda:0", "cpu", "cpu", "cuda:1"]
    seen: ClassVar[list[str]] = []
    state = torch.load(io.BytesIO(saved), map_location=lambda storage, tag: (seen.append(tag), storage)[1])
    assert {"cuda:0"} == set(seen)
    assert tuple(state["weight"].shape) == (2, 3)


def two_devices() -> dict[str, Any]:
    zero, one = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1", requires_grad=True)
    (one.to("cuda:0") + zero).sum().backward()
    with torch.cuda.device(1):
        inside = [str(torch.ones(2, device=name).device) for name in ("cuda", "cuda:0", "cuda:1")]
    return {
        "devices": [str(zero.device), str(one.device), one.get_device(), str(one.grad.device)],
        "moved": [str(one.to("cuda:0").device), str(zero.cuda(1).device), str(one.cpu().device)],
        "inside": inside,
        "mixed": raised(lambda: zero + one),
    }


def test_several_devices_are_told_apart(stand_in):
    found = stand_in(two_devices)
    assert found["mixed"].startswith("RuntimeError: Expected all tensors to be on the same device")
    assert found["devices"] == ["cuda:0", "cuda:1", 1, "cuda:1"]
    assert found["moved"] == ["cuda:0", "cuda:1", "cpu"]
    assert found["inside"] == ["cuda:1", "cuda:0", "cuda:1"]


def data_parallel(num_devices: int) -> list[Any]:
    torch.manual_seed(3)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).cuda(), torch.randn(4, 3).cuda()
    plain = model(x)
    plain.sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    output = nn.DataParallel(model, device_ids=list(range(num_devices)))(x)
    output.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    same = [torch.allclose(a, b, atol=1e-6) and a.device == b.device for a, b in zip(gradients, expected, strict=True)]
    return [str(output.device), torch.allclose(output, plain, atol=1e-6), all(same)]


@pytest.mark.parametrize("num_devices", [1, 2])
def test_data_parallel_gives_what_one_device_gives(stand_in, num_devices):
    assert stand_in(data_parallel, num_devices) == ["cuda:0", True, True]


def visible_devices() -> list[int]:
    found = []
    for value in ("", "-1", "0", "0,1", "0,1,2,3"):
        os.environ["CUDA_VISIBLE_DEVICES"] = value
        found.append(torch.cuda.device_count())
    del os.environ["CUDA_VISIBLE_DEVICES"]
    return found


def test_cuda_visible_devices_hides_devices_but_never_all(stand_in):
    assert stand_in(visible_devices) == [2, 2, 1, 2, 2]


def copies() -> list[Any]:
    model = nn.Linear(3, 2).cuda()
    twin = copy.deepcopy(model)
    x = torch.arange(3.0).cuda()
    again = pickle.loads(pickle.dumps(x))
    return [twin.weight.device.type, torch.equal(twin.weight, model.weight), again.device.type, again.tolist()]


def test_deep_copies_and_pickles_stay_on_cuda(stand_in):
    assert stand_in(copies) == ["cuda", True, "cuda", [0.0, 1.0, 2.0]]


class Doubled(torch.autograd.Function):
    seen: ClassVar[list[str]] = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        Doubled.seen.append(str(gradient.device))
        return gradient * torch.full((1,), 2.0, device="cuda")


def backward_sees() -> list[str]:
    Doubled.seen.clear()
    x = torch.ones(2, device="cuda", requires_grad=True)
    x.register_hook(lambda gradient: Doubled.seen.append(str((gradient + torch.zeros(2, device="cuda")).device)))
    Doubled.apply(x).sum().backward()
    return [*Doubled.seen, str(x.grad.device), str(x.grad.tolist())]


def test_hooks_and_autograd_functions_see_cuda_in_the_backward_pass(stand_in):
    assert stand_in(backward_sees) == ["cuda:0", "cuda:0", "cuda:0", "[2.0, 2.0]"]


def thread_sees() -> list[str]:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(str(torch.ones(2, device="cuda").device)))
    thread.start()
    thread.join()
    return found


def test_other_threads_have_the_stand_in_too(stand_in):
    assert stand_in(thread_sees) == ["cuda:0"]


def generator() -> list[Any]:
    drawn = [
        torch.rand(3, device="cuda", generator=torch.Generator(device="cuda").manual_seed(5)).tolist() for _ in range(2)
    ]
    made = torch.Generator("cuda")
    return [drawn[0] == drawn[1], str(made.device), isinstance(torch.default_generator, torch.Generator)]


def test_a_generator_for_cuda_gives_the_same_numbers_for_the_same_seed(stand_in):
    assert stand_in(generator) == [True, "cuda:0", True]


CAST_CASES = ("mm", "conv2d", "linear", "softmax", "layer_norm", "cross_entropy", "add", "sum", "pow", "cat")


def cast_dtypes(dtype: torch.dtype) -> dict[str, str]:
    f = nn.functional
    a, half = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda", dtype=dtype)
    image = torch.ones(1, 3, 4, 4, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        found = {
            "mm": a @ a,
            "conv2d": f.conv2d(image, torch.ones(2, 3, 3, 3, device="cuda")),
            "linear": f.linear(a, a),
            "softmax": f.softmax(half, -1),
            "layer_norm": f.layer_norm(half, (4,)),
            "cross_entropy": f.cross_entropy(half, torch.zeros(4, dtype=torch.long, device="cuda")),
            "add": half + half,
            "sum": half.sum(),
            "pow": half.pow(2),
            "cat": torch.cat([a, half]),
        }
        found["enabled"] = torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        found["dtype"] = torch.get_autocast_dtype("cuda")
    found["after"] = torch.is_autocast_enabled("cuda")
    return {name: str(value.dtype) if isinstance(value, torch.Tensor) else str(value) for name, value in found.items()}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_casts_as_the_lists_of_cuda_say(stand_in, dtype):
    low, single = str(dtype), "torch.float32"
    assert stand_in(cast_dtypes, dtype) == {
        "mm": low,
        "conv2d": low,
        "linear": low,
        "softmax": single,
        "layer_norm": single,
        "cross_entropy": single,
        "add": low,
        "sum": single,
        "pow": single,
        "cat": single,
        "enabled": "True",
        "dtype": low,
        "after": "False",
    }


def train(device: str, fused: bool) -> list[float]:
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Dropout(), nn.Flatten(), nn.Linear(8 * 36, 10)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused, foreach=not fused)
    inputs, labels = torch.randn(4, 3, 8, 8).to(device), torch.randint(0, 10, (4,)).to(device)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("fused", [True, False])
def test_losses_in_fp32_equal_those_of_the_cpu_bit_for_bit(stand_in, fused):
    assert stand_in(train, "cpu", fused) == stand_in(train, "cuda", fused)


def scaled_training() -> list[Any]:
    torch.manual_seed(7)
    model = nn.Linear(8, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0**14)
    x, scales, steps = torch.randn(4, 8, device="cuda"), [], []
    for step in range(3):
        before = model.weight.detach().clone()
        with torch.cuda.amp.autocast():
            loss = model(x * (float("inf") if step == 1 else 1.0)).float().pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        steps.append(not torch.equal(before, model.weight))
    return [scales, steps]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_loss_scaler_skips_a_step_with_infinities_and_halves_the_scale(stand_in):
    assert stand_in(scaled_training) == [[16384.0, 8192.0, 8192.0], [True, False, True]]


def compiled() -> list[Any]:
    model = nn.Linear(2, 2)
    decorated = torch.compile(mode="max-autotune")(len)
    return [torch.compile(model) is model, decorated is len]


def test_compile_gives_the_function_back(stand_in):
    assert stand_in(compiled) == [True, True]


def test_this_process_has_no_stand_in():
    assert not cuda_stand_in.is_installed()
    read = getattr(torch.Tensor.device, "fget", None)  # the emulator's own property once it has several devices
    assert read is None or not read.__module__.startswith("jumar.device")


def test_it_is_refused_where_cuda_is_available(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a real GPU")
    with pytest.raises(DeviceError, match="a real GPU"):
        cuda_stand_in.install()


def apex_with_cuda_kernels() -> tuple[list[float], str, list[float]]:
    from apex import amp, normalization, optimizers

    runs = []
    for make in (torch.optim.AdamW, optimizers.FusedAdam):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), normalization.FusedLayerNorm(8), nn.Linear(8, 1)).cuda()
        optimizer = make(model.parameters(), lr=0.01, weight_decay=0.01)
        model, optimizer = amp.initialize(model, optimizer, opt_level="O2", loss_scale=128.0, verbosity=0)
        losses = []
        for _ in range(3):
            loss = model(torch.ones(2, 4, device="cuda")).square().sum()
            optimizer.zero_grad()
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
            losses.append(loss.item())
        runs.append(losses)
    return runs[0], raised(lambda: optimizers.FusedLAMB([])), runs[1]


def test_apex_trains_with_what_has_a_counterpart_in_pytorch(stand_in):
    plain, refused, fused = stand_in(apex_with_cuda_kernels)
    assert plain == fused
    assert plain[0] > plain[-1]
    assert "requires cuda extensions" in refused


def looks_of_functions() -> dict[str, tuple[str, str, str | None, str]]:
    import inspect

    found = {}
    for name in torch.cuda.__all__:
        function = getattr(torch.cuda, name)
        if isinstance(function, type) or not callable(function) or name in ("CUDAGraph", "MemPool"):
            continue
        wrapped = getattr(function, "__wrapped__", None) if name in ("use_mem_pool", "graph_pool_handle") else None
        try:
            signature = str(inspect.signature(function))
        except ValueError:  # a function of C++
            signature = ""
        found[name] = (
            getattr(function, "__name__", ""),
            function.__module__,
            getattr(wrapped, "__qualname__", None),
            signature,
        )
    return found


def test_functions_that_stand_in_look_like_pytorchs(stand_in):
    here, there = looks_of_functions(), stand_in(looks_of_functions)
    assert here["use_mem_pool"][2] == "use_mem_pool"
    assert {name: there[name][:2] for name in here} == {name: here[name][:2] for name in here}
    assert there["use_mem_pool"] == here["use_mem_pool"]
    signed = [name for name in here if here[name][3]]
    assert {name: there[name][3] for name in signed} == {name: here[name][3] for name in signed}


class Wrapper(torch.Tensor):
    """A tensor that names the device of the one that it wraps, as PyTorch's own wrappers do."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def accelerators() -> list[str]:
    chosen = torch.distributed.distributed_c10d.BackendConfig(torch.distributed.Backend("undefined"))
    wrapped = Wrapper(torch.ones(2, device="cuda:0"))
    return [str(torch._C._get_accelerator()), str(chosen), str(wrapped.device)]


def test_below_torch_accelerator_and_in_wrappers_the_accelerator_is_cuda_too(stand_in):
    name, chosen, wrapped = stand_in(accelerators)
    assert (name, wrapped) == ("cuda", "cuda:0")
    assert "npu:hccl" in chosen
    assert "nccl" not in chosen
