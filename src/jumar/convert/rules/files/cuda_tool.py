"""## What it does
Finds `nvidia-smi`, `nvcc`, `nsys`, `ncu`, `module load cuda`, `docker run --gpus`, `LD_LIBRARY_PATH` with
CUDA's folders, and SLURM's requests for GPUs (`#SBATCH --gres=gpu:8`, `srun --gpus-per-node`), and names
what takes their place.

## Why it matters
The tools do not exist on an NPU machine, and a job that asks for GPUs is not placed on one.

## Example
```bash
nvidia-smi
```

## Use instead
```bash
npu-smi info
```

## Fix safety
Only calls of `nvidia-smi` whose output goes to the terminal are converted (safe): the output has another
form, so one that is piped or captured is left. Everything else is reported: schedulers name NPUs as the
site chose to.

## References
- npu-smi reference (hiascend.com); msprof of CANN; SLURM `--gres`
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM122",
    name="cuda-tool",
    summary="A script calls a tool of NVIDIA, or asks a scheduler for GPUs.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)
