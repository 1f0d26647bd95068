"""## What it does
Finds environment variables of CUDA, NCCL and PyTorch's CUDA allocator in shell scripts, Makefiles,
Dockerfiles, notebooks and configurations: assignments, `export`, `env`, `mpirun -x`, `unset` and
`$NAME`. Where torch_npu, CANN or HCCL has a counterpart with the same values, the variable is renamed
and its value brought into the counterpart's form; every other one is reported with what to do instead.

## Why it matters
`CUDA_VISIBLE_DEVICES` has no effect on NPUs, so every process takes device 0. Its counterpart
`ASCEND_RT_VISIBLE_DEVICES` takes ascending numbers only: with `3,1` no device is found, silently. HCCL
reads other names, and partly other units, than NCCL.

## Example
```bash
CUDA_VISIBLE_DEVICES=3,1 python train.py
```

## Use instead
```bash
ASCEND_RT_VISIBLE_DEVICES=1,3 python train.py
```

## Fix safety
Safe for literal values that mean the same; a changed order of devices is said in the finding. Unsafe for
values that are not known before the script runs (`$GPUS`), and for limits of the network that depend on
the cluster. A variable is renamed everywhere in a file or nowhere. For the target `agnostic` the
counterpart is set beside the original, so that one script serves both machines.

## References
- CANN environment variables, HCCL environment variables (hiascend.com, CANN 9.0)
- Ascend/pytorch `docs/zh/api/environment_variable/`; `jumar/convert/model/data/npu_environment.json`
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM120",
    name="cuda-variable-in-script",
    summary="A script, Dockerfile or configuration sets or reads an environment variable of CUDA or NCCL.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)
