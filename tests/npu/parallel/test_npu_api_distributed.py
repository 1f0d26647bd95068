"""`torch_npu.distributed` and `torch_npu.testing.common_distributed`, over two ranks of this machine."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never"))

RANK = """
import sys
import torch
import torch.distributed as dist
from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never"))
torch.set_num_threads(1)
from torch_npu.distributed import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven, reinit_process_group

rank, file = int(sys.argv[1]), sys.argv[2]
torch.npu.set_device(rank)
dist.init_process_group("hccl", init_method=f"file://{file}", rank=rank, world_size=2)
sizes = [1, 3]
own = torch.full((sizes[rank], 2), float(rank + 1), device="npu")
gathered = torch.zeros(4, 2, device="npu")
all_gather_into_tensor_uneven(gathered, own, sizes)
part = torch.zeros(sizes[rank], device="npu")
work = reduce_scatter_tensor_uneven(part, torch.arange(4.0, device="npu") + rank, sizes, async_op=True)
work.wait()
assert reinit_process_group() is dist.group.WORLD
print(gathered[:, 0].tolist(), part.tolist())
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_parts_of_different_sizes_are_gathered_and_scattered(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RANK]
    file = str(tmp_path / "group")
    ranks = [subprocess.Popen([*command, str(rank), file], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    shown = [rank.communicate(timeout=120)[0].strip() for rank in ranks]
    assert shown == ["[1.0, 2.0, 2.0, 2.0] [1.0]", "[1.0, 2.0, 2.0, 2.0] [3.0, 5.0, 7.0]"]


@pytest.fixture
def one_rank(tmp_path: Path) -> str:
    return str(tmp_path / "group")


def test_equal_parts_need_no_sizes(one_rank: str) -> None:
    from torch_npu.distributed import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven
    from torch_npu.testing.common_distributed import init_pg

    init_pg("hccl", 1, 0, f"file://{one_rank}")
    try:
        x, y = torch.arange(3.0, device="npu"), torch.zeros(3, device="npu")
        assert all_gather_into_tensor_uneven(y, x) is None
        assert torch.equal(x, y)
        reduce_scatter_tensor_uneven(y.zero_(), x)
        assert torch.equal(x, y)
        with pytest.warns(UserWarning, match="limited to those of type npu"):
            assert all_gather_into_tensor_uneven(y, x.cpu()) is None
    finally:
        dist.destroy_process_group()


def test_a_test_method_gets_a_group_for_its_time(one_rank: str) -> None:
    from torch_npu.testing.common_distributed import with_comms

    @with_comms
    def method(self: SimpleNamespace) -> tuple[str, bool]:
        return self.device_type, dist.is_initialized()

    case = SimpleNamespace(world_size=1, rank=0, file_name=one_rank)
    assert method(case) == ("npu", True)
    assert not dist.is_initialized()


def test_a_test_is_skipped_where_devices_are_missing() -> None:
    from torch_npu.testing.common_distributed import TEST_SKIPS, skipIfUnsupportMultiNPU

    assert TEST_SKIPS["multi-npu-2"] == (75, "Need at least 2 ASCEND devices")
    assert skipIfUnsupportMultiNPU(8)(lambda: "ran")() == "ran"
    with pytest.raises(unittest.SkipTest, match="Multi-NPU 9 condition not satisfied"):
        skipIfUnsupportMultiNPU(9)(lambda: "ran")()


def test_hccl_is_there_and_the_launcher_reads_its_options() -> None:
    from torch_npu.distributed import is_available, is_hccl_available
    from torch_npu.distributed.distributed_c10d import is_hccl_available as same
    from torch_npu.distributed.run import parse_args

    assert (is_available(), is_hccl_available(), same is is_hccl_available) == (True, True, True)
    options = parse_args(["--nproc_per_node=2", "--enable_tiered_parallel_tcpstore=true", "train.py", "--lr", "1"])
    assert (options.nproc_per_node, options.enable_tiered_parallel_tcpstore) == ("2", "true")
    assert (options.training_script, options.training_script_args) == ("train.py", ["--lr", "1"])


def test_a_module_is_sharded_as_pytorch_shards_it(one_rank: str) -> None:
    from torch_npu.distributed.fsdp import fully_shard
    from torch_npu.testing.common_distributed import init_pg

    init_pg("hccl", 1, 0, f"file://{one_rank}")
    try:
        torch.manual_seed(0)
        network = torch.nn.Linear(4, 4).npu()
        expected = network(torch.ones(2, 4, device="npu")).detach()
        sharded = fully_shard(network)
        loss = sharded(torch.ones(2, 4, device="npu"))
        assert torch.equal(loss.detach(), expected)
        loss.sum().backward()
        assert all(parameter.grad is not None for parameter in sharded.parameters())
    finally:
        dist.destroy_process_group()
