"""The conversion rules: `RULES` for the registry, `CHECKS` in the order they run.

The order is precedence: a place that an earlier check claimed (converted, or left on purpose) is not
touched by a later one. The last two see everything before them. Groups of rules are packages of this
one, each with its own `MODULES`.
"""

from __future__ import annotations

from types import ModuleType

from jumar.migrate.rules import (
    affinity,
    cuda_amp,
    cuda_by_name,
    cuda_device_guard,
    cuda_device_string,
    cuda_environment,
    cuda_left_over,
    cuda_out_of_memory_text,
    cuda_profiler,
    cudnn_flag,
    data_parallel,
    distributed,
    files,
    import_torch_npu,
    is_cuda,
    load_without_map_location,
    manual,
    nccl_backend,
    proof,
    residue,
    similar,
    tensor_cuda_method,
    third_party_cuda,
    torch_cuda_api,
    torch_cuda_import,
    tree,
    unparsable_source,
    unused_ignore,
    user,
)
from jumar.migrate.rules.context import Check, Context
from jumar.rules import Rule

__all__ = ["CHECKS", "MODULES", "RULES", "Check", "Context"]

MODULES: tuple[ModuleType, ...] = (
    *user.MODULES,
    *distributed.MODULES,
    *similar.MODULES,
    torch_cuda_import,
    third_party_cuda,
    *affinity.MODULES,
    *manual.MODULES,
    cuda_environment,
    cuda_out_of_memory_text,
    cuda_by_name,
    cuda_device_guard,
    cuda_amp,
    torch_cuda_api,
    cuda_profiler,
    nccl_backend,
    tensor_cuda_method,
    is_cuda,
    cuda_device_string,
    cudnn_flag,
    load_without_map_location,
    data_parallel,
    *residue.MODULES,
    import_torch_npu,
    cuda_left_over,
)
"""Modules with a `RULE`, a `check` and perhaps a `TRIGGER` (see `jumar.migrate.triggers`), in the order they run."""

CHECKS: tuple[tuple[Rule, Check], ...] = tuple((module.RULE, module.check) for module in MODULES)

RULES: tuple[Rule, ...] = (
    *(rule for rule, _ in CHECKS),
    unparsable_source.RULE,
    unused_ignore.RULE,
    *files.RULES,
    *proof.RULES,
    *tree.RULES,
)
