"""Triton kernels on the emulated NPU equal PyTorch's formulas; the expectations are computed on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import jumar
from jumar.device import DevicePlan, activate
from jumar.npu.core.events import listen
from jumar.recording import Recording

triton: Any = pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be run")
tl: Any = pytest.importorskip("triton.language")
activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"])})
@triton.jit
def softmax_kernel(x_ptr, out_ptr, row, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row + columns, mask=columns < n, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + tl.program_id(0) * row + columns, x / tl.sum(x, axis=0), mask=columns < n)


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + tl.program_id(0) * n + columns, mask=mask, other=0.0)
    centred = tl.where(mask, x - tl.sum(x, axis=0) / n, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    y = centred * scale * tl.load(weight_ptr + columns, mask=mask) + tl.load(bias_ptr + columns, mask=mask)
    tl.store(out_ptr + tl.program_id(0) * n + columns, y, mask=mask)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    kept = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(kept, doubled(tl.load(x_ptr + offsets, mask=mask)), 0.0), mask=mask)


@triton.autotune(configs=[triton.Config({"TILE": 16}), triton.Config({"TILE": 32}, num_warps=8)], key=["k"])
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, k, TILE):
        inner = start + tl.arange(0, TILE)
        a_mask, b_mask = (rows < m)[:, None] & (inner < k)[None, :], (inner < k)[:, None] & (columns < n)[None, :]
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_mask, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total, mask=mask)


@triton.jit
def halves_kernel(x_ptr, y_ptr, out_ptr, compared_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x, y = tl.load(x_ptr + offsets), tl.load(y_ptr + offsets)
    product = tl.dot(x, y).to(tl.bfloat16)
    tl.store(out_ptr + offsets, tl.where(x < y, product * x - y, tl.fma(x, y, x).to(tl.int32).to(tl.bfloat16)))
    tl.store(compared_ptr + offsets, x < y)


@triton.jit
def atomic_kernel(x_ptr, out_ptr, N: tl.constexpr):
    tl.atomic_add(out_ptr + tl.arange(0, N), tl.load(x_ptr + tl.arange(0, N)))


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


def pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(shape), torch.randn(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_vector_addition_equals_that_of_the_cpu(dtype: torch.dtype) -> None:
    x, y = (tensor.mul(8).to(dtype) for tensor in pair(1000))
    out = added(x.npu(), y.npu())
    assert out.device.type == "npu"
    torch.testing.assert_close(out.cpu(), x + y, rtol=0, atol=0)


def test_bfloat16_is_computed_in_float32_and_rounded() -> None:
    x, y = (tensor.bfloat16() for tensor in pair(16, 16))
    out, compared = torch.empty(16, 16, dtype=torch.bfloat16, device="npu"), torch.empty(16, 16, device="npu")
    halves_kernel[(1,)](x.npu(), y.npu(), out, compared, N=16)
    product = (x.float() @ y.float()).bfloat16()
    fused = torch.addcmul(x.float(), x.float(), y.float()).bfloat16().int().bfloat16()
    torch.testing.assert_close(compared.cpu(), (x < y).float(), rtol=0, atol=0)
    torch.testing.assert_close(out.cpu(), torch.where(x < y, product * x - y, fused))


def test_an_atomic_operation_on_bfloat16_is_refused() -> None:
    x = torch.ones(16, dtype=torch.bfloat16, device="npu")
    # NOTE: Triton 3.2 to 3.6 refuses it itself, in the second words.
    with pytest.raises(Exception, match=r"no atomic operations on bfloat16|does not support bf16"):
        atomic_kernel[(1,)](x, x.clone(), N=16)


def test_a_kernel_writes_a_view_where_the_view_lies_and_nowhere_else() -> None:
    x, y = pair(64)
    whole = torch.zeros(256, device="npu")
    add_kernel[(1,)](x.npu(), y.npu(), whole[100:164], 64, BLOCK=64)
    expected = torch.zeros(256)
    expected[100:164] = x + y
    torch.testing.assert_close(whole.cpu(), expected, rtol=0, atol=0)


def test_softmax_with_a_heuristic_equals_that_of_the_cpu() -> None:
    x, _ = pair(8, 100)
    given, out = x.npu(), torch.empty(8, 100, device="npu")
    softmax_kernel[(8,)](given, out, given.stride(0), 100)
    torch.testing.assert_close(out.cpu(), torch.softmax(x, 1))


def test_layer_norm_equals_that_of_the_cpu() -> None:
    x, y = pair(8, 100)
    weight, bias = y[0], y[1]
    out = torch.empty(8, 100, device="npu")
    layer_norm_kernel[(8,)](x.npu(), weight.npu(), bias.npu(), out, 100, 1e-5, BLOCK=128)
    torch.testing.assert_close(out.cpu(), torch.nn.functional.layer_norm(x, (100,), weight, bias, 1e-5))


def test_dropout_draws_by_its_seed_and_calls_a_function_that_is_a_kernel() -> None:
    x, _ = pair(1000)
    outs = [torch.empty(1000, device="npu") for _ in range(3)]
    for out, seed in zip(outs, (7, 7, 8), strict=True):
        dropout_kernel[(4,)](x.npu(), out, 1000, 0.5, seed, BLOCK=256)
    first, again, other = (out.cpu() for out in outs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 400 < int((first == 0).sum()) < 600
    torch.testing.assert_close(first[first != 0], 2 * x[first != 0], rtol=0, atol=0)


@pytest.mark.slow
def test_an_autotuned_product_equals_that_of_the_cpu_and_takes_the_first_configuration() -> None:
    a, b = pair(40, 40)
    c = torch.empty(40, 40, device="npu")
    matmul_kernel[lambda meta: (triton.cdiv(40, meta["TILE"]),) * 2](a.npu(), b.npu(), c, 40, 40, 40)
    torch.testing.assert_close(c.cpu(), a @ b)
    assert matmul_kernel.best_config.kwargs == {"TILE": 16}


def test_a_launch_is_one_operator_for_listeners() -> None:
    x, y = (tensor.npu() for tensor in pair(300))
    seen: list[Any] = []
    with listen(seen.append):
        out = added(x, y)
    launch = next(event for event in seen if event.operator == "triton::add_kernel")
    tensors, scalars = launch.args
    assert [tensor.data_ptr() for tensor in tensors] == [x.data_ptr(), y.data_ptr(), out.data_ptr()]
    assert scalars == "n=300, BLOCK=256"


def test_a_recording_holds_a_launch_with_what_it_read_and_wrote(tmp_path: Any) -> None:
    layer = torch.nn.Linear(4, 4).npu()
    with jumar.record(tmp_path / "recording", values="stats"):
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        hidden = layer(torch.ones(2, 4, device="npu"))
        (hidden + added(hidden.detach(), hidden.detach())).sum().backward()
        optimizer.step()
    recording = Recording.open(tmp_path / "recording")
    rows = [row for row in recording.rows(0) if row.name == "triton::add_kernel"]
    assert len(rows) == 1
    assert not any("Triton" in text for end in recording.ends.values() for text in end.not_covered)
    assert sum(tensor.shape == (2, 4) for tensor in rows[0].outputs) == 3


def test_gradients_are_those_that_the_function_around_a_kernel_says() -> None:
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return added(x, y)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return grad, 2 * grad

    x, y = (tensor.npu().requires_grad_() for tensor in pair(16))
    Sum.apply(x, y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.sum().item(), y.grad.sum().item()) == (16, 32)


def test_a_tensor_of_the_host_is_refused_as_triton_refuses_it() -> None:
    x, y = pair(16)
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed from Triton"):
        add_kernel[(1,)](x.npu(), y, torch.empty(16, device="npu"), 16, BLOCK=16)


def test_an_operator_of_a_launch_refuses_to_run_elsewhere() -> None:
    x, y = (tensor.npu() for tensor in pair(16))
    added(x, y)
    with pytest.raises(NotImplementedError, match="runs where its script launches it"):
        torch.ops.triton.add_kernel([x, y], "")


def test_the_driver_tells_the_chip_by_the_names_of_triton_ascend() -> None:
    driver = triton.runtime.driver.active
    properties = driver.utils.get_device_properties(torch.npu.current_device())
    assert (properties["num_aicore"], properties["num_vectorcore"]) == (24, 48)
    target = driver.get_current_target()
    assert (target.backend, target.arch) == ("npu", "Ascend910B1")
    assert driver.get_active_torch_device() == torch.device("npu", 0)


def test_triton_can_time_a_function_on_the_device() -> None:
    x, y = (tensor.npu() for tensor in pair(16))
    assert triton.testing.do_bench(lambda: x + y, warmup=1, rep=1) >= 0
