"""## What it does
Reports Dockerfiles, compose files and Kubernetes manifests that build on CUDA images
(`FROM nvidia/cuda:...`, `pytorch/pytorch:...-cuda...`), install CUDA, or ask for GPUs (`runtime: nvidia`,
`nvidia.com/gpu`, `capabilities: [gpu]`), with the Ascend counterpart.

## Why it matters
Such an image holds no CANN, and a container without the NPU's device nodes and driver sees no NPU.

## Example
```dockerfile
FROM pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel
```

## Use instead
```dockerfile
FROM quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11
RUN pip install torch==2.9.0 torch_npu==2.9.0
```

## Fix safety
No fix: the image depends on the SoC, the driver of the host and the version of CANN.

## References
- quay.io/ascend/cann; Ascend Docker Runtime (`ASCEND_VISIBLE_DEVICES`); Ascend device plugin for Kubernetes
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM124",
    name="cuda-container",
    summary="A container is built from a CUDA image, or asks for NVIDIA's runtime.",
    severity=Severity.WARNING,
    doc=__doc__,
)
