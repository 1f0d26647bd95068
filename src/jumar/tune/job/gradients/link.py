"""`python -m jumar.tune.job.gradients.link FOLDER BYTES`, one of several processes: times of all-reduce by Gloo.

Rank 0 leaves (bytes, seconds) in the folder. The link of a recording is measured with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from jumar.tune.job.gradients.collective import all_reduce_times, sizes_up_to
from jumar.tune.job.gradients.messages import Told


def main(folder: str, total_bytes: str) -> None:
    """Measure in every process that the launcher started."""
    dist.init_process_group("gloo")
    samples = all_reduce_times(sizes_up_to(int(total_bytes)), torch.zeros(1), None, lambda: None)
    if dist.get_rank() == 0:
        Told(Path(folder), is_first=True).answer({"samples": samples})
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:3])
