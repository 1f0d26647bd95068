"""For names of torch_npu that are not emulated, the nearest name that works. Kept by hand."""

from __future__ import annotations

_BY_NAME = {
    "torch_npu.HiFloat8Tensor": "torch.float8_e5m2 tensors of PyTorch",
    "torch_npu.distributed.pipelining.pipeline": "torch.distributed.pipelining.pipeline on the CPU",
    "torch_npu.distributed.rpc.options.NPUTensorPipeRpcBackendOptions": (
        "torch.distributed.rpc.TensorPipeRpcBackendOptions with tensors moved to the CPU"
    ),
    "torch_npu.multiprocessing.reductions.rebuild_npu_tensor": "tensor.cpu() before it goes to another process",
    "torch_npu.npu.NPUGraph.debug_dump": "jumar record, which writes every operator of a run",
    "torch_npu.npu.graphs.NPUGraph.debug_dump": "jumar record, which writes every operator of a run",
    "torch_npu.npu.NPUPluggableAllocator": "torch.npu.MemPool, or PYTORCH_NPU_ALLOC_CONF",
    "torch_npu.npu.change_current_allocator": "torch.npu.MemPool, or PYTORCH_NPU_ALLOC_CONF",
    "torch_npu.npu.memory.NPUPluggableAllocator": "torch.npu.MemPool, or PYTORCH_NPU_ALLOC_CONF",
    "torch_npu.npu.memory.change_current_allocator": "torch.npu.MemPool, or PYTORCH_NPU_ALLOC_CONF",
    "torch_npu.npu.npurt": "tensor.pin_memory(), for memory that the device can read",
    "torch_npu.npu.restart_device": "a new process",
    "torch_npu.npu.stop_device": "torch.npu.synchronize()",
    "torch_npu.utils.cpp_extension.NpuExtension": "torch.utils.cpp_extension.CppExtension, or torch.library in Python",
}

_BY_PREFIX = {
    "torch_npu.HiFloat8Tensor.": "torch.float8_e5m2 tensors of PyTorch",
    "torch_npu.distributed.rpc.": "torch.distributed.rpc with tensors moved to the CPU",
    "torch_npu.npu.npugraph_ex.": 'torch.compile(backend="aot_eager")',
    "torch_npu.npu.obfuscation_": "plain tensors",
    "torch_npu.npu.utils.obfuscation_": "plain tensors",
}


def nearest_by_hand(name: str) -> str | None:
    """Return what to use in place of `name`, or None when none is listed here."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    return next((nearest for prefix, nearest in _BY_PREFIX.items() if name.startswith(prefix)), None)
