"""The switches that decide how operators are run: compiled for their shapes or not, in private formats or not.

Defaults are those of torch_npu: chips from Ascend910B1 on call ready-made kernels on dense formats, the
first generation compiles each operator for its shapes and keeps tensors in private formats.
"""

from __future__ import annotations

from jumar.npu.core.state import STATE
from jumar.soc.profiles import SOCS, SocProfile

JIT_COMPILE = "jitCompile"
INTERNAL_FORMAT = "ALLOW_INTERNAL_FORMAT"
MATMUL_ND = "MM_BMM_ND_ENABLE"


def compiles_by_default(profile: SocProfile) -> bool:
    """Return whether `jit_compile` is on where it is not set."""
    return not profile.is_aclnn_default


def allows_by_default(profile: SocProfile) -> bool:
    """Return whether private formats are allowed where it is not set: not on A2, A3 and 950 chips."""
    order, first, last = profile.torch_npu_order, SOCS["Ascend910B1"], SOCS["Ascend310B1"]
    return not (
        first.torch_npu_order <= order < last.torch_npu_order or order >= SOCS["Ascend910_9391"].torch_npu_order
    )


def is_online() -> bool:
    """Return whether operators are compiled for each new shape (`set_compile_mode(jit_compile=True)`)."""
    profile, chosen = STATE.profile, STATE.options.get(JIT_COMPILE)
    if profile.is_aclnn_only:
        return False
    return compiles_by_default(profile) if chosen is None else chosen == "enable"


def allows_internal() -> bool:
    """Return whether operators may make tensors in private formats (`torch.npu.config.allow_internal_format`)."""
    profile, chosen = STATE.profile, STATE.options.get(INTERNAL_FORMAT)
    if profile.is_aclnn_only:
        return False
    return allows_by_default(profile) if chosen is None else chosen in ("enable", "True")


def keeps_matmul_dense() -> bool:
    """Return whether matrix products take and give dense matrices where they can (`set_mm_bmm_format_nd`)."""
    return bool(STATE.options.get(MATMUL_ND, "enable") != "disable")


def is_recorded() -> bool:
    """Return whether the ledger is on without being followed: where the switches give it something to write."""
    return is_online() or allows_internal() or not STATE.profile.is_aclnn_default
