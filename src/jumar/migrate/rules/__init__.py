"""The conversion rules: `RULES` for the registry, `CHECKS` in the order they run.

The order is precedence: a place that an earlier check claimed (converted, or left on purpose) is not
touched by a later one. The last two see everything before them.
"""

from __future__ import annotations

from jumar.migrate.rules import (
    cuda_amp,
    cuda_device_guard,
    cuda_device_string,
    cuda_environment,
    cuda_left_over,
    cuda_profiler,
    cudnn_flag,
    data_parallel,
    import_torch_npu,
    is_cuda,
    load_without_map_location,
    nccl_backend,
    tensor_cuda_method,
    third_party_cuda,
    torch_cuda_api,
    torch_cuda_import,
    unparsable_source,
)
from jumar.migrate.rules.context import Check, Context
from jumar.rules import Rule

__all__ = ["CHECKS", "RULES", "Check", "Context"]

CHECKS: tuple[Check, ...] = (
    torch_cuda_import.check,
    third_party_cuda.check,
    cuda_environment.check,
    cuda_device_guard.check,
    cuda_amp.check,
    torch_cuda_api.check,
    cuda_profiler.check,
    nccl_backend.check,
    tensor_cuda_method.check,
    is_cuda.check,
    cuda_device_string.check,
    cudnn_flag.check,
    load_without_map_location.check,
    data_parallel.check,
    import_torch_npu.check,
    cuda_left_over.check,
)

RULES: tuple[Rule, ...] = (
    torch_cuda_api.RULE,
    cuda_device_string.RULE,
    tensor_cuda_method.RULE,
    is_cuda.RULE,
    nccl_backend.RULE,
    cuda_amp.RULE,
    import_torch_npu.RULE,
    cuda_device_guard.RULE,
    cuda_environment.RULE,
    cudnn_flag.RULE,
    third_party_cuda.RULE,
    load_without_map_location.RULE,
    data_parallel.RULE,
    cuda_left_over.RULE,
    unparsable_source.RULE,
    torch_cuda_import.RULE,
    cuda_profiler.RULE,
)
