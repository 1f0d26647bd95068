"""## What it does
Finds options in the command lines of scripts that name CUDA or NCCL: `--device cuda`,
`--device=cuda:1`, `--dist-backend nccl`, `--nproc_per_node=gpu`, hydra's `trainer.device=cuda`; and
options that count or choose GPUs (`--gpus 4`), which are only reported.

## Why it matters
A converted program refuses `--device cuda` where its choices became `npu`, or fails when it asks
PyTorch for a CUDA device.

## Example
```bash
python train.py --device cuda --dist-backend nccl
```

## Use instead
```bash
python train.py --device npu --dist-backend hccl
```

## Fix safety
Safe where the option's name says device or back end, and no file of the project says that the option
keeps its words; otherwise the argument is left and reported. For the target `agnostic` only
`--nproc_per_node=gpu` changes (to `auto`): leave the option out where the program picks the device itself.

## References
- `torch/distributed/run.py` of PyTorch 2.13 (`determine_local_world_size`)
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM121",
    name="cuda-argument",
    summary="A command passes a CUDA device or NCCL to a program.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)
