"""An Ascend NPU for machines that have none: real PyTorch tensors on `npu`, computed by CPU kernels."""

from __future__ import annotations
