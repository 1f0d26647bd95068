"""## What it does
Finds CUDA builds and CUDA-only packages in requirements files, `pyproject.toml`, `setup.cfg`, conda
environments and `pip install` commands: `torch==2.1.0+cu118`, `--index-url .../whl/cu118`,
`nvidia-*-cu12`, `pytorch-cuda`, apex, flash-attn, bitsandbytes, xformers, cupy, DALI, TensorRT. The CUDA
tag and index of PyTorch's own packages are removed and `torch_npu` is added where torch is pinned;
everything else is reported with its counterpart.

## Why it matters
A CUDA build of torch does not load torch_npu, CUDA-only packages fail to install or to import, and
torch_npu fits one release of torch only.

## Example
```text
torch==2.1.0+cu118
```

## Use instead
```text
torch==2.1.0
torch_npu==2.1.0.*
```

## Fix safety
Safe: removing a CUDA tag, changing PyTorch's index to `/whl/cpu`, adding torch_npu beside an exactly pinned
torch that torch_npu was released for. Unsafe: adding torch_npu beside a range. Lines with hashes are left.
For the target `agnostic` nothing is changed.

## References
- torch_npu releases (Ascend/pytorch); PEP 440; download.pytorch.org/whl
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM125",
    name="cuda-requirement",
    summary="A CUDA build or a CUDA-only package is required.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)
