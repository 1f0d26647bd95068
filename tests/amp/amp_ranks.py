"""Training with combine_ddp and with DistributedDataParallel on gloo: `amp_ranks.py NUM_RANKS PORT`.

Rank 0 prints, as JSON, for each case how far the two ways and the ranks are apart.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from jumar import amp


class Network(nn.Module):
    """Two ways through a network, of which a batch takes one, and a layer that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.norm, self.unused = nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, left: bool) -> torch.Tensor:
        way: nn.Module = self.left if left else self.right
        out: torch.Tensor = way(self.norm(self.first(x)).relu())
        return out


def train(rank: int, size: int, *, ddp: bool, part: str, options: dict[str, Any]) -> tuple[list[torch.Tensor], bool]:
    """Return the trained weights and whether the unused layer is as it was."""
    torch.manual_seed(0 if ddp or part != "seeds" else rank)
    model = Network()
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    combine = {} if ddp else {"combine_ddp": True}
    model, optimizer = amp.initialize(model, optimizer, verbosity=0, **options, **combine)
    before = model.unused.weight.detach().clone()
    network: Any = DistributedDataParallel(model, find_unused_parameters=True) if ddp else model
    generator = torch.Generator().manual_seed(3)
    for step in range(4):
        passes = 3 if part in {"accumulate", "delay"} else 1
        optimizer.zero_grad()
        for number in range(passes):
            data = torch.randn(size, 4, 8, generator=generator)[rank]
            left = step % 2 == 0 if part != "unused" else (rank == 0 or step % 2 == 0)
            late = part == "delay" and number < passes - 1
            waits = network.no_sync() if ddp and late else contextlib.nullcontext()
            with waits:
                loss = network(data, left).float().square().mean()
                if part == "overflow" and step == 1 and rank == size - 1:
                    loss = loss * 1e30
                with amp.scale_loss(loss, optimizer, delay_unscale=late) as scaled:
                    scaled.backward()
        optimizer.step()
    return [p.detach().float() for p in model.parameters()], torch.equal(before, model.unused.weight)


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "O0": ("", {"opt_level": "O0"}),
    "O1": ("", {"opt_level": "O1"}),
    "O2": ("", {"opt_level": "O2"}),
    "O2 combined": ("", {"opt_level": "O2", "combine_grad": True}),
    "O1 combined, one message": ("", {"opt_level": "O1", "combine_grad": True, "ddp_replica_count": 1}),
    "unused": ("unused", {"opt_level": "O1"}),
    "unused, combined": ("unused", {"opt_level": "O2", "combine_grad": True}),
    "accumulate": ("accumulate", {"opt_level": "O1"}),
    "accumulate, O2 combined": ("accumulate", {"opt_level": "O2", "combine_grad": True}),
    "delay": ("delay", {"opt_level": "O0", "combine_grad": True}),
    "overflow": ("overflow", {"opt_level": "O2", "half_type": torch.float16}),
    "seeds": ("seeds", {"opt_level": "O0"}),
}


def work(rank: int, size: int, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    found = {}
    for name, (part, options) in CASES.items():
        by_ddp, _ = train(rank, size, ddp=True, part=part, options=options)
        skips = len(amp.skipped_steps())
        weights, unused_stays = train(rank, size, ddp=False, part=part, options=options)
        flat = torch.cat([weight.flatten() for weight in weights])
        everywhere = [torch.empty_like(flat) for _ in range(size)]
        dist.all_gather(everywhere, flat)
        found[name] = {
            "apart": max(float((a - b).abs().max()) for a, b in zip(weights, by_ddp, strict=True)),
            "equal on all ranks": all(torch.equal(everywhere[0], other) for other in everywhere),
            "unused stays": unused_stays,
            "skips": [skips, len(amp.skipped_steps())],
            "origins": [str(skipped) for skipped in amp.skipped_steps()],
        }
        amp.initialize(nn.Linear(1, 1), opt_level="O0", verbosity=0)  # ends the casts of O1
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, found)
    if rank == 0:
        sys.stdout.write(json.dumps(gathered))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(int(sys.argv[1]), int(sys.argv[2])), nprocs=int(sys.argv[1]))
