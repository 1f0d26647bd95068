"""Judges names by their words: names of devices, names of kernels that only CUDA has."""

from __future__ import annotations

import re
from functools import lru_cache

DEVICE_WORDS = frozenset({"cpu", "mps", "xpu", "hpu", "npu", "meta", "gpu", "auto", "mlu", "tpu", "xla"})
"""Strings that stand beside 'cuda' where a device is chosen."""

_DEVICE_NAME = re.compile(
    r"device|(^|_)dev(s|_type|_name|_id)?$|^(dev|map_location|location|loc|gpu|accelerator|hardware|where)$|map_location",
    re.IGNORECASE,
)
_KERNEL_NAME = re.compile(
    r"impl|kernel|backend|lang|engine|plugin|extension|compiler|provider|toolkit|library|suffix|prefix|tag|key|title",
    re.IGNORECASE,
)
_CUDA_ONLY = re.compile(
    r"triton|flash_?attn|flash_?attention|xformers|cutlass|nvcc|cpp_extension|custom_?op|custom_kernel|cuda_?kernel"
    r"|(^|_)ext($|_)|extension|fused|cublas|cudnn|tensorrt|(^|_)trt($|_)|apex|amp_c|bitsandbytes|(^|_)bnb|(^|_)dali"
    r"|cupy|nvtx|^_c$|plugin|cuda_?graph|jit_kernel|nvfuser|paged_attn|tf32|nvrtc|device_capability|compute_cap|(^|_)sm_?[5-9]\d|(^|_)impl($|_)|marlin|exllama"
    r"|unsloth|liger|nvlink|nvidia|nvml|cuda_fp8|cuda_p2p|tilelang|transformer_engine",
    re.IGNORECASE,
)
_CUDA_CALL = re.compile(
    r"_cuda(_(forward|backward|kernel|fwd|bwd))?$|^cuda_(\w*_)?(forward|backward|kernel|ops?|impl)(_|$)",
    re.IGNORECASE,
)
_CUDA_CLASS = re.compile(
    r"[a-z0-9]C(?:uda|UDA)(?:Function|Op|Kernel|Func)?$|^C(?:uda|UDA)[A-Z]\w*(?:Function|Op|Kernel)$"
)
_CUDA_CAMEL_FLAG = re.compile(r"^_?(?:use|no|has|is|with|to|on|enable|want|try|using|set|move|force|disable)C")
_CUDA_FLAG = re.compile(
    r"^_?(use|no|has|is|with|to|on|enable|want|device|have|if|try|using|supports?|test|check|get|set|move|move_to|put_on"
    r"|copy_to|send_to|force|disable|seed|init|setup|configure)_cuda$",
    re.IGNORECASE,
)


def names_device(name: str) -> bool:
    """Tell whether an identifier, option or key reads as a device (`device`, `map_location`, `dev`)."""
    return _DEVICE_NAME.search(name) is not None


def names_kernel(name: str) -> bool:
    """Tell whether an identifier reads as the choice of an implementation, or as a label (`impl`, `backend`)."""
    return _KERNEL_NAME.search(name) is not None and not names_device(name)


@lru_cache(maxsize=8192)
def is_cuda_only(name: str) -> bool:
    """Tell whether an identifier reads as something that exists for CUDA only (`fused`, `flash_attn`)."""
    return _CUDA_ONLY.search(name) is not None


@lru_cache(maxsize=8192)
def calls_cuda_only(name: str) -> bool:
    """Tell whether a called function reads as a CUDA kernel (`bias_act_cuda`), not as a mover (`to_cuda`)."""
    return names_cuda_function(name) or (is_cuda_only(name) and not _CUDA_FLAG.search(name))


@lru_cache(maxsize=8192)
def names_cuda_function(name: str) -> bool:
    """Tell whether an identifier says that it is CUDA's version of a function or class (`nms_cuda`, `FocalCUDA`)."""
    if _CUDA_FLAG.search(name) or _CUDA_CAMEL_FLAG.search(name):
        return False
    return _CUDA_CALL.search(name) is not None or _CUDA_CLASS.search(name) is not None
