"""What the stand-in answers when a script asks which GPU this is.

The name says plainly that it is none. The numbers are those of an A100: scripts use them to choose
between float16, bfloat16 and TF32, and all three work on the stand-in.
"""

from __future__ import annotations

from dataclasses import dataclass

DEVICE_NAME = "CPU kernels standing in for CUDA (Jumar)"
CAPABILITY = (8, 0)
ARCHITECTURES = ["sm_80"]
CUDA_VERSION = "12.0"
NCCL_VERSION = (2, 18, 0)
TOTAL_MEMORY_BYTES = 40 * 2**30
NUM_MULTIPROCESSORS = 108
WARP_SIZE = 32


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What `torch.cuda.get_device_properties` answers; the fields have PyTorch's names."""

    name: str = DEVICE_NAME
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    total_memory: int = TOTAL_MEMORY_BYTES
    multi_processor_count: int = NUM_MULTIPROCESSORS
    warp_size: int = WARP_SIZE
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 48 * 2**10
    L2_cache_size: int = 40 * 2**20
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    gcnArchName: str = DEVICE_NAME
    uuid: str = "00000000-0000-0000-0000-000000000000"
