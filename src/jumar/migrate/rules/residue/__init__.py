"""What is left of CUDA after conversion, and what stands for it.

One rule a kind of reason. Uses of the same kind that need the same answer are one finding a file; each use
that needs a decision of its own is one finding. Guards that make something optional lower its severity.
"""

from __future__ import annotations

from types import ModuleType

from jumar.migrate.rules.residue import (
    checkpoint_device,
    collective_option,
    compute_capability,
    cuda_extension,
    cuda_library_use,
    device_count_arithmetic,
    device_semantics,
    framework_device,
    graph_compiler,
    library_switch,
    limited_dtype,
    memory_format,
    pinned_memory,
    private_cuda_api,
    triton_kernel,
)

MODULES: tuple[ModuleType, ...] = (
    cuda_library_use,
    cuda_extension,
    triton_kernel,
    library_switch,
    framework_device,
    compute_capability,
    graph_compiler,
    memory_format,
    limited_dtype,
    checkpoint_device,
    device_semantics,
    device_count_arithmetic,
    collective_option,
    pinned_memory,
    private_cuda_api,
)
"""Modules with a `RULE` and a `check`, in the order they run."""
