"""Kernels that a library or a script compiles itself: the emulated NPU compiles none and says so in a sentence."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from jumar.base.lazy import after_import

Refuse = Callable[[str], NoReturn]
"""Raises for the extension or kernel that it is told, `the CUDA extension 'ops'`."""

_TORCH_ADAM = 'torch.optim.AdamW: "torch_adam": true in the optimizer\'s parameters of the configuration'
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention with a mask"
_PLAIN = "the model's own modules: pass replace_with_kernel_inject=False"
_INSTEAD = {
    "AsyncIOBuilder": "offloading to the CPU's memory",
    "CPUAdagradBuilder": "torch.optim.Adagrad",
    "CPUAdamBuilder": _TORCH_ADAM,
    "CPULionBuilder": "torch.optim.AdamW",
    "CPUMuonBuilder": "torch.optim.Muon",
    "DeepCompileBuilder": "torch.compile",
    "EvoformerAttnBuilder": _ATTENTION,
    "FPQuantizerBuilder": "bfloat16 weights",
    "FusedAdamBuilder": "torch.optim.AdamW or torch_npu.optim.NpuFusedAdamW",
    "FusedLambBuilder": "torch_npu.optim.NpuFusedLamb",
    "FusedLionBuilder": "torch.optim.AdamW",
    "GDSBuilder": "offloading to the CPU's memory",
    "InferenceBuilder": _PLAIN,
    "InferenceCoreBuilder": _PLAIN,
    "InferenceCutlassBuilder": _PLAIN,
    "PinMemoryBuilder": "torch.Tensor.pin_memory",
    "QuantizerBuilder": "bfloat16 weights",
    "RaggedOpsBuilder": _PLAIN,
    "RaggedUtilsBuilder": _PLAIN,
    "RandomLTDBuilder": "torch indexing",
    "SparseAttnBuilder": _ATTENTION,
    "SpatialInferenceBuilder": _PLAIN,
    "StochasticTransformerBuilder": "torch.nn.TransformerEncoderLayer",
    "TransformerBuilder": "torch.nn.TransformerEncoderLayer",
}
"""Builder of DeepSpeed -> what to use where its kernel does not exist. Kept by hand."""


def install() -> None:
    """Change what compiles kernels when it is imported."""
    after_import({
        "torch.utils.cpp_extension": functools.partial(refuse_cuda_sources, refuse=_refuse),
        "deepspeed.accelerator.npu_accelerator": _change_builders,
    })  # fmt: skip


def refuse_cuda_sources(module: ModuleType, refuse: Refuse) -> None:
    """Change `torch.utils.cpp_extension`: CUDA sources are refused, C++ extensions for the CPU still build."""
    cpp: Any = module
    load, load_inline = cpp.load, cpp.load_inline

    @functools.wraps(load)
    def load_without_cuda(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
        files = [sources] if isinstance(sources, str) else list(sources)
        if kwargs.get("with_cuda") or any(str(file).endswith((".cu", ".cuh")) for file in files):
            refuse(f"the CUDA extension {name!r}")
        return load(name, sources, *args, **kwargs)

    @functools.wraps(load_inline)
    def load_inline_without_cuda(name: str, *args: Any, **kwargs: Any) -> Any:
        cuda_sources = args[1] if len(args) > 1 else kwargs.get("cuda_sources")
        if cuda_sources or kwargs.get("with_cuda"):
            refuse(f"the CUDA extension {name!r}")
        return load_inline(name, *args, **kwargs)

    @functools.wraps(cpp.CUDAExtension)
    def cuda_extension(name: str, *_args: Any, **_kwargs: Any) -> NoReturn:
        refuse(f"the CUDA extension {name!r}")

    cpp.load, cpp.load_inline, cpp.CUDAExtension = load_without_cuda, load_inline_without_cuda, cuda_extension


def _refuse(what: str) -> NoReturn:
    # NOTE: OSError is what PyTorch raises on a machine without the CUDA toolkit; scripts catch it.
    raise OSError(
        f"{what} is made of CUDA sources, which no NPU machine can build: take the script's PyTorch path, or port the "
        "kernel to Ascend C."
    )


def _change_builders(module: ModuleType) -> None:
    """Change DeepSpeed's NPU accelerator: its kernels in Python work without CANN, the others say what to use."""
    accelerator: Any = module.__dict__["NPU_Accelerator"]
    original = accelerator.get_op_builder

    @functools.wraps(original)
    def get_op_builder(self: Any, class_name: str) -> Any:
        found = original(self, class_name)
        base: Any = sys.modules["deepspeed.ops.op_builder.npu.builder"].__dict__["NPUOpBuilder"]
        base.__init__ = _without_cann(base)
        if found.__name__ == "NotImplementedBuilder":
            return _refusing(class_name, found, "has no NPU kernel")
        if "load" in vars(found):
            return found
        return _refusing(class_name, found, "is compiled with CANN when first used, which the emulated NPU has not")

    accelerator.get_op_builder = get_op_builder


def _without_cann(base: Any) -> Callable[..., None]:
    def __init__(self: Any, name: str) -> None:
        super(base, self).__init__(name)

    return __init__


def _refusing(class_name: str, builder: Any, reason: str) -> Any:
    """Return a builder whose kernel is refused when it is loaded."""
    instead = _INSTEAD.get(class_name, "operators of PyTorch")

    def load(_self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"DeepSpeed's {class_name} {reason}: use {instead}.")

    def is_compatible(_self: Any, *_args: Any, **_kwargs: Any) -> bool:
        return False

    return type(class_name, (builder,), {"load": load, "is_compatible": is_compatible})
