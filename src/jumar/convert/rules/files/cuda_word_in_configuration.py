"""## What it does
Finds device and back-end words in YAML, JSON, TOML and INI files: `device: cuda`, `backend: nccl`,
`distributed_type: MULTI_GPU`, `accelerator: gpu`, flags such as `use_cuda`, and counts such as `gpus: 4`.
Only the word is replaced; comments, quotes, anchors, templates and layout stay.

## Why it matters
A converted program that reads `device: cuda` asks PyTorch for a CUDA device, and fails.

## Example
```yaml
dist_params:
  backend: nccl
```

## Use instead
```yaml
dist_params:
  backend: hccl
```

## Fix safety
Safe where the key says device or back end, and no file of the project says that the key keeps its words;
otherwise the value is left and reported. For the target `agnostic` device words are left, except
`accelerator: gpu`, which becomes `auto`.

## References
- accelerate `DistributedType`, Lightning `Trainer(accelerator=)`, torch_npu back end `hccl`
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM123",
    name="cuda-word-in-configuration",
    summary="A configuration names CUDA, GPUs or NCCL.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)
