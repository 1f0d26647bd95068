"""`apex` without the vendor's build: mixed precision by levels, the optimizers' names, `parallel`, `fp16_utils`.

Ascend's apex is NVIDIA's with a patch; its interface and behaviour are the ones here (`patch/npu.patch` of
gitcode.com/Ascend/apex, nvidia.github.io/apex/amp.html). What needs CUDA kernels says so when it is used.
"""

from __future__ import annotations

from jumar.npu.api.apex import amp, fp16_utils, normalization, optimizers, parallel

__all__ = ["amp", "fp16_utils", "normalization", "optimizers", "parallel"]
