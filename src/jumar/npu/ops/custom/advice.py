"""What to use instead of operators of language models that are not implemented."""

from __future__ import annotations

from jumar.npu.ops.mechanism.implement import instead
from jumar.npu.ops.mechanism.schemas import schemas

instead(
    "use npu_fusion_attention, which gives seed and offset as integers",
    "npu_fusion_attention_v3",
    "npu_fusion_attention_v3.out",
    "npu_fusion_attention_grad_v3",
    "npu_fusion_attention_grad_v3.out",
)
instead(
    "route with npu_moe_init_routing_v2, exchange with torch.distributed.all_to_all_single, and add up with "
    "npu_moe_finalize_routing",
    *(name for name in schemas() if name.startswith(("npu_moe_distribute_", "npu_alltoallv_", "npu_gmm_alltoallv"))),
)
instead(
    "call the matrix product and the torch.distributed collective one after the other",
    "npu_all_gather_base_mm",
    "npu_all_gather_quant_mm",
    "npu_all_to_all_matmul",
    "npu_all_to_all_quant_matmul",
    "npu_matmul_all_to_all",
    "npu_mm_reduce_scatter_base",
    "npu_quant_mm_reduce_scatter",
    "npu_quant_matmul_all_to_all",
)
instead(
    "the microscaling formats belong to Ascend 950; on other chips use npu_dynamic_quant",
    *(name for name in schemas() if "mx_quant" in name),
)
instead(
    "compose npu_rms_norm, npu_rotary_mul, matrix products and npu_scatter_pa_kv_cache",
    *(name for name in schemas() if name.startswith(("npu_mla_prolog", "npu_kv_rmsnorm_rope", "npu_qkv_rms_norm"))),
)
instead(
    "use npu_fusion_attention with a mask of the chosen keys",
    *(name for name in schemas() if name.startswith(("npu_nsa_", "npu_sparse_flash_", "npu_block_sparse_"))),
)
instead(
    "leave the workspace out: the emulator needs none",
    *(name for name in schemas() if name.endswith(("_get_max_workspace", "_infer_output"))),
)
