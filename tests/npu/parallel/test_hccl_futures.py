"""Futures of collectives on npu tensors, and the communication hooks of DistributedDataParallel that chain them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@pytest.fixture(autouse=True)
def _one_rank(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("hccl", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


COLLECTIVES: dict[str, Any] = {
    "all_reduce": lambda x: dist.all_reduce(x, async_op=True),
    "broadcast": lambda x: dist.broadcast(x, 0, async_op=True),
    "all_gather": lambda x: dist.all_gather([x], x.clone(), async_op=True),
    "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(x, x.clone(), async_op=True),
    "reduce_scatter_tensor": lambda x: dist.reduce_scatter_tensor(x, x.clone(), async_op=True),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_then_runs_sees_the_result(name):
    x = torch.arange(4.0, device="npu")
    future = COLLECTIVES[name](x).get_future().then(lambda done: done.value()).then(lambda done: done.value()[0] * 2)
    result = future.wait()
    assert (result.tolist(), result.device.type) == ([0.0, 2.0, 4.0, 6.0], "npu")


def test_a_future_of_the_program_holds_npu_tensors():
    future: Any = torch.futures.Future(devices=[torch.device("npu")])
    heard = []
    future.add_done_callback(lambda done: heard.append(done.value().tolist()))
    doubled = future.then(lambda done: {"twice": done.value() * 2})
    future.set_result(torch.ones(2, device="npu"))
    assert doubled.wait()["twice"].tolist() == [2.0, 2.0]
    assert heard == [[1.0, 1.0]]
    assert torch.futures.collect_all([future, doubled]).wait()[0].value().device.type == "npu"


def test_an_error_in_what_then_runs_is_raised_by_wait():
    work = dist.all_reduce(torch.ones(2, device="npu"), async_op=True)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        work.get_future().then(lambda done: 1 // 0).wait()


HOOKS: dict[str, Any] = {
    "allreduce": lambda: (None, default_hooks.allreduce_hook),
    "fp16": lambda: (None, default_hooks.fp16_compress_hook),
    "fp16 wrapper": lambda: (None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)),
    "power": lambda: (powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook),
    "local": lambda: (
        post_localSGD_hook.PostLocalSGDState(None, dist.group.WORLD, start_localSGD_iter=2),
        post_localSGD_hook.post_localSGD_hook,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HOOKS)
def test_a_communication_hook_reduces_the_gradients(name):
    torch.manual_seed(0)
    plain = nn.Linear(4, 4)
    model = DistributedDataParallel(nn.Linear(4, 4).npu())
    model.module.load_state_dict(plain.state_dict())
    model.register_comm_hook(*HOOKS[name]())
    for _ in range(3):
        x = torch.randn(5, 4)
        plain.zero_grad()
        model.zero_grad()
        plain(x).square().sum().backward()
        model(x.npu()).square().sum().backward()
        if name == "power":  # it keeps what a matrix of low rank cannot hold for the next step
            assert model.module.weight.grad.isfinite().all()
        else:
            torch.testing.assert_close(model.module.weight.grad.cpu(), plain.weight.grad, rtol=2e-3, atol=2e-3)


@pytest.mark.skipif(torch.distributed.is_nccl_available(), reason="a PyTorch that has NCCL takes the hook")
def test_the_bfloat16_hook_is_refused_by_pytorch_itself_without_nccl():
    model = DistributedDataParallel(nn.Linear(2, 2).npu())
    with pytest.raises(TypeError, match="BF16 all reduce communication hook required"):
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)


@pytest.mark.filterwarnings("ignore")
def test_gradients_are_reduced_without_a_hook():
    torch.manual_seed(0)
    plain = nn.Linear(4, 4)
    model = DistributedDataParallel(nn.Linear(4, 4).npu())
    model.module.load_state_dict(plain.state_dict())
    for _ in range(2):
        x = torch.randn(5, 4)
        plain(x).square().sum().backward()
        model(x.npu()).square().sum().backward()
    torch.testing.assert_close(model.module.weight.grad.cpu(), plain.weight.grad, rtol=1e-4, atol=1e-4)


REDUCTIONS: dict[str, Any] = {
    "all_reduce": lambda x: dist.all_reduce(x, dist.ReduceOp.AVG),
    "reduce": lambda x: dist.reduce(x, 0, dist.ReduceOp.AVG),
    "reduce_scatter_tensor": lambda x: dist.reduce_scatter_tensor(x, x.clone(), dist.ReduceOp.AVG),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", REDUCTIONS)
def test_an_average_is_taken_in_every_version(name):
    x = torch.arange(4.0, device="npu")
    REDUCTIONS[name](x)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
