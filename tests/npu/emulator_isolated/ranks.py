"""Collectives and DDP on hccl; started as `ranks.py NUM_RANKS PORT`. Each rank prints what it found as JSON.

`ranks.py 2 PORT lose` has the last rank leave before the backward pass.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from jumar.device import DevicePlan, activate


def collectives(rank: int, size: int, device: torch.device) -> dict[str, object]:
    x = torch.ones(2, device=device) * (rank + 1)
    found: dict[str, object] = {}
    y = x.clone()
    dist.all_reduce(y)
    found["all_reduce"] = y.tolist()
    work = dist.all_reduce(y := x.clone(), op=dist.ReduceOp.MAX, async_op=True)
    work.wait()
    found["async max"] = y.tolist()
    dist.broadcast(y := x.clone(), size - 1)
    found["broadcast"] = y.tolist()
    parts = [torch.zeros(2, device=device) for _ in range(size)]
    dist.all_gather(parts, x)
    found["all_gather"] = [part.tolist() for part in parts]
    joined = torch.zeros(2 * size, device=device)
    dist.all_gather_into_tensor(joined, x)
    found["all_gather_into_tensor"] = joined.tolist()
    own = torch.zeros(1, device=device)
    dist.reduce_scatter_tensor(own, torch.arange(float(size), device=device))
    found["reduce_scatter_tensor"] = own.tolist()
    dist.all_to_all(parts, [x + 10 * target for target in range(size)])
    found["all_to_all"] = [part.tolist() for part in parts]
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    found["objects"] = objects
    dist.barrier()
    found["device"] = str(y.device)
    return found


def more(rank: int, size: int, device: torch.device) -> dict[str, object]:
    """What sharded and model-parallel training is made of."""
    ones = torch.ones(2, device=device)
    found: dict[str, object] = {}
    together = [ones.clone() for _ in range(3)]
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        for tensor in together:
            dist.all_reduce(tensor)
    manager.wait()
    found["coalesced"] = [tensor.tolist() for tensor in together]
    everyone = list(range(size))
    found["functional"] = functional.reduce_scatter_tensor(
        torch.ones(2 * size, device=device), "sum", 0, everyone
    ).tolist()
    received = torch.zeros(1, device=device)
    right, left = (rank + 1) % size, (rank - 1) % size
    mine = torch.full((1,), float(rank), device=device)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, received, left)]):
        work.wait()
    found["from the left"] = received.item()
    exchanged = torch.zeros(size, device=device)
    dist.all_to_all_single(exchanged, torch.arange(float(size), device=device) + 10 * rank)
    found["all_to_all_single"] = exchanged.tolist()
    pair = dist.new_group([0, 1]) if size > 2 else dist.group.WORLD
    if rank < 2:
        dist.all_reduce(both := ones.clone(), group=pair)
        found["group of two"] = both.tolist()
    mesh = init_device_mesh("npu", (size,))
    rows = distribute_tensor(torch.arange(4.0 * size).reshape(2 * size, 2).npu(), mesh, [Shard(0)])
    columns = distribute_tensor(torch.ones(2, 3).npu(), mesh, [Replicate()])
    found["sharded product"] = (rows @ columns).full_tensor().sum().item()
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    halves = torch.ones(2, 2, dtype=torch.float16, device=device)
    found["product over all ranks"] = torch.ops.npu.npu_mm_all_reduce_base(halves, halves, name).tolist()
    try:
        dist.all_reduce(torch.ones(2))
    except RuntimeError as error:
        found["a CPU tensor"] = str(error)
    return found


def train(rank: int, size: int, device: torch.device, *, synchronised: bool = False) -> dict[str, object]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    if synchronised:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    single = copy.deepcopy(model)
    data = torch.randn(3, 4 * size, 4)
    parallel = DistributedDataParallel(model.to(device), device_ids=[rank], gradient_as_bucket_view=not synchronised)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for batch in data:
        optimizer.zero_grad()
        parallel(batch[rank * 4 : rank * 4 + 4].to(device)).square().mean().backward()
        optimizer.step()
    weights = model[0].weight.detach()
    everywhere = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everywhere, weights)
    found: dict[str, object] = {
        "equal on all ranks": all(torch.equal(everywhere[0], other) for other in everywhere),
        "gradient on": str(model[0].weight.grad.device),
    }
    if synchronised:
        found["far from one process"] = float((weights.cpu() - one_process(single, data)).abs().max())
    return found


def train_with_apex(rank: int, device: torch.device, *, combine_ddp: bool) -> torch.Tensor:
    """Train with apex's O2, gradients averaged by apex or by DistributedDataParallel; return a weight."""
    from apex import amp

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(
        model, optimizer, opt_level="O2", loss_scale=64.0, combine_ddp=combine_ddp, verbosity=0
    )
    network = model if combine_ddp else DistributedDataParallel(model, device_ids=[rank])
    for batch in torch.randn(3, 2, 4, 4):
        optimizer.zero_grad()
        with amp.scale_loss(network(batch[rank % 2].to(device)).square().mean(), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
    return model[0].weight.detach().float().cpu()


def apex(rank: int, device: torch.device) -> dict[str, object]:
    by_apex, by_ddp = (train_with_apex(rank, device, combine_ddp=way) for way in (True, False))
    return {"apart": float((by_apex - by_ddp).abs().max()), "weights": by_apex.flatten().tolist()}


def one_process(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    """Train the same model on whole batches on the CPU, with ordinary batch normalisation."""
    plain = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    plain.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for batch in data:
        optimizer.zero_grad()
        plain(batch).square().mean().backward()
        optimizer.step()
    return plain[0].weight.detach()


def lose_a_rank(rank: int, size: int, device: torch.device) -> dict[str, object]:
    parallel = DistributedDataParallel(nn.Linear(4, 2).to(device), device_ids=[rank])
    loss = parallel(torch.ones(3, 4, device=device)).sum()
    if rank == size - 1:
        os._exit(0)
    errors = []
    for call in (loss.backward, lambda: dist.all_reduce(torch.ones(1, device=device))):
        try:
            call()
        except RuntimeError as error:
            errors.append(type(error).__name__)
    return {"errors": errors}


def main(rank: int, size: int, port: str, lose: bool) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=size)
    device = torch.device("npu", rank)
    if lose:
        sys.stdout.write(json.dumps({"rank": rank, **lose_a_rank(rank, size, device)}) + "\n")
        sys.stdout.flush()
        os._exit(0)
    found = {
        "collectives": collectives(rank, size, device),
        "ddp": train(rank, size, device),
        "sync": train(rank, size, device, synchronised=True) if size > 1 else {},
        "more": more(rank, size, device) if size > 1 else {},
        "apex": apex(rank, device) if size > 1 else {},
        "backend": dist.get_backend(),
    }
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(json.dumps({"rank": rank, **found}) + "\n")


if __name__ == "__main__":
    mp.spawn(main, (int(sys.argv[1]), sys.argv[2], "lose" in sys.argv), nprocs=int(sys.argv[1]))
