"""Process groups of a CUDA script that names its device, on CPU kernels that stand in for CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jumar.device import DevicePlan

SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("nccl", init_method="file://{file}", rank=0, world_size=1, device_id=torch.device("cuda", 0))
x = torch.ones(3, device="cuda")
dist.all_reduce(x)
dist.all_reduce(x, group=dist.new_group([0]))
print(x.device, x.tolist(), dist.get_backend())
dist.destroy_process_group()
"""


def test_a_group_is_bound_to_the_device_that_it_is_given(tmp_path: Path) -> None:
    environment = os.environ | DevicePlan(kind="cuda-stand-in").to_environment()
    code = SCRIPT.format(file=tmp_path / "store")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    # NOTE: Gloo of some versions writes a line of its own.
    assert done.stdout.strip().splitlines()[-1:] == ["cuda:0 [1.0, 1.0, 1.0] nccl"], done.stderr[-800:]
