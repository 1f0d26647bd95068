"""PyTorch's own checks of every operator of language models: schema, fake tensors, tracing."""

from __future__ import annotations

import pytest
import torch

from jumar.device import DevicePlan, activate
from jumar.npu.ops.mechanism import implement as mechanism

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

MODULES = {
    "activation",
    "attention",
    "attention_inference",
    "attention_update",
    "caches",
    "grouped_matmul",
    "loss",
    "moe_backward",
    "moe_gating",
    "moe_routing",
    "moe_tokens",
    "norm",
    "optimizer_steps",
    "quant_matmul",
    "quantisation",
    "quantised_layers",
    "rope",
}
NOT_SAMPLED = {"npu_apply_adam", "npu_apply_adam_w", "npu_bert_apply_adam"}
"""These raise, as the vendor's do."""


def f(*shape, grad=False, half=False):
    found = torch.randn(shape)
    return (found.half() if half else found).npu().requires_grad_(grad)


def g(*shape):
    return f(*shape, grad=True)


def h(*shape):
    return f(*shape, half=True)


def i(*shape, below=3, dtype=torch.int32):
    return torch.randint(0, below, shape, dtype=dtype).npu()


def row_index():
    return torch.arange(8, dtype=torch.int32).view(2, 4).t().contiguous().npu()


def routing_map():
    return torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=torch.int8).npu()


ATTENTION = {"num_heads": 2, "input_layout": "BNSD"}
SAMPLES = {
    "fast_gelu": lambda: ((g(2, 4),), {}),
    "npu_fast_gelu": lambda: ((g(2, 4),), {}),
    "npu_fast_gelu_backward": lambda: ((f(2, 4), f(2, 4)), {}),
    "npu_silu": lambda: ((g(2, 4),), {}),
    "npu_silu_": lambda: ((f(2, 4),), {}),
    "npu_silu_backward": lambda: ((f(2, 4), f(2, 4), f(2, 4)), {}),
    "npu_mish": lambda: ((g(2, 4),), {}),
    "npu_mish_backward": lambda: ((f(2, 4), f(2, 4)), {}),
    "npu_gelu": lambda: ((g(2, 4),), {}),
    "npu_gelu_backward": lambda: ((f(2, 4), f(2, 4)), {"approximate": "tanh"}),
    "npu_gelu_mul": lambda: ((f(2, 4),), {}),
    "npu_geglu": lambda: ((g(2, 4),), {}),
    "npu_geglu_grad": lambda: ((f(2, 2), f(2, 4), f(2, 2)), {}),
    "npu_swiglu": lambda: ((g(2, 4),), {}),
    "npu_swiglu_backward": lambda: ((f(2, 2), f(2, 4)), {}),
    "npu_clipped_swiglu": lambda: ((f(2, 4),), {"group_index": i(2)}),
    "npu_rms_norm": lambda: ((g(2, 3, 4), g(4)), {}),
    "npu_rms_norm_backward": lambda: ((f(2, 4), f(2, 4), f(4), f(2, 1)), {}),
    "npu_gemma_rms_norm": lambda: ((f(2, 4), f(4)), {}),
    "npu_add_rms_norm": lambda: ((f(2, 4), f(2, 4), f(4)), {}),
    "npu_add_rms_norm_cast": lambda: ((h(2, 4), h(2, 4), h(4)), {}),
    "npu_add_rms_norm_v2": lambda: ((f(2, 4), f(2, 4), f(4)), {}),
    "npu_add_rms_norm_v2_functional": lambda: ((f(2, 4), f(2, 4), f(4)), {}),
    "npu_add_layer_norm": lambda: ((g(2, 4), g(2, 4), g(4), g(4)), {"additional_output": True}),
    "npu_add_layer_norm_backward": lambda: ((f(2, 4), f(2, 4), f(2, 4), f(2, 1), f(2, 1), f(4), None), {}),
    "npu_deep_norm": lambda: ((g(2, 4), g(2, 4), g(4), g(4)), {}),
    "npu_deep_norm_backward": lambda: ((f(2, 4), f(2, 4), f(2, 4), f(4), f(2, 1), f(2, 1)), {}),
    "npu_layer_norm_eval": lambda: ((f(2, 4), [4]), {}),
    "npu_group_norm_silu": lambda: ((f(2, 4, 3), f(4), f(4), 2), {}),
    "npu_group_norm_swish": lambda: ((g(2, 4, 3), 2, g(4), g(4)), {}),
    "npu_group_norm_swish_grad": lambda: (
        (f(2, 4, 3), f(2, 4, 3), 2, f(4), f(4), f(2, 2), f(2, 2).abs(), [True] * 3),
        {},
    ),
    "npu_rotary_mul": lambda: ((g(2, 3, 4), f(1, 3, 4), f(1, 3, 4)), {}),
    "npu_rotary_mul_backward": lambda: ((f(2, 4), f(2, 4), f(1, 4), f(1, 4)), {}),
    "npu_apply_rotary_pos_emb": lambda: ((f(1, 2, 2, 4), f(1, 2, 1, 4), f(1, 2, 1, 4), f(1, 2, 1, 4)), {}),
    "npu_interleave_rope": lambda: ((f(1, 2, 3, 4), f(1, 1, 3, 4), f(1, 1, 3, 4)), {}),
    "npu_mrope": lambda: ((i(3, 2), f(2, 8), f(2, 4), f(3, 4), 4), {"mrope_section": [1, 1, 0]}),
    "npu_scaled_masked_softmax": lambda: ((g(1, 2, 3, 3), i(1, 1, 3, 3, below=2).bool(), 0.5), {}),
    "npu_scaled_masked_softmax_backward": lambda: ((f(2, 3), f(2, 3), i(2, 3, below=2).bool(), 0.5, False), {}),
    "npu_attn_softmax_": lambda: ((f(2, 3),), {}),
    "npu_attn_softmax_backward_": lambda: ((f(2, 3), f(2, 4), f(3, 4)), {}),
    "npu_cross_entropy_loss": lambda: ((g(3, 4), i(3)), {}),
    "npu_cross_entropy_loss_backward": lambda: ((f(1), f(3, 4), i(3)), {}),
    "npu_fused_cross_entropy_loss_with_max_sum": lambda: (
        (f(3), f(3).exp(), f(3)),
        {"vocab_parallel_logits": f(3, 4)},
    ),
    "npu_fused_linear_cross_entropy_loss_with_max_sum_backward": lambda: (
        (f(3), h(3, 4), h(5, 4), i(1, dtype=torch.uint8), i(3)),
        {"softmax": f(3, 5)},
    ),
    "npu_fusion_attention": lambda: ((g(1, 2, 3, 4), g(1, 2, 3, 4), g(1, 2, 3, 4), 2, "BNSD"), {}),
    "npu_fusion_attention_v2": lambda: ((g(1, 3, 8), g(1, 3, 4), g(1, 3, 4), 2, "BSH"), {}),
    "npu_fusion_attention_grad": lambda: ((*(f(1, 2, 3, 4) for _ in range(4)), 2, "BNSD"), {"pse": f(1, 2, 3, 3)}),
    "npu_fusion_attention_grad_v2": lambda: ((*(f(3, 1, 8) for _ in range(4)), 2, "SBH"), {}),
    "npu_prompt_flash_attention": lambda: ((h(1, 2, 3, 4), h(1, 2, 3, 4), h(1, 2, 3, 4)), ATTENTION),
    "npu_incre_flash_attention": lambda: ((h(1, 2, 1, 4), h(1, 2, 3, 4), h(1, 2, 3, 4)), ATTENTION),
    "npu_fused_infer_attention_score": lambda: (
        (h(1, 2, 3, 4), h(1, 2, 3, 4), h(1, 2, 3, 4)),
        {**ATTENTION, "softmax_lse_flag": True},
    ),
    "npu_fused_infer_attention_score_v2": lambda: (
        (h(5, 2, 4), h(5, 2, 4), h(5, 2, 4)),
        {"num_query_heads": 2, "input_layout": "TND", "actual_seq_qlen": [2, 5], "return_softmax_lse": True},
    ),
    "npu_fused_infer_attention_score.out": lambda: (
        (h(1, 2, 3, 4), h(1, 2, 3, 4), h(1, 2, 3, 4)),
        {**ATTENTION, "softmax_lse_flag": True, "attention_out": h(1, 2, 3, 4), "softmax_lse": f(1, 2, 3, 1)},
    ),
    "npu_fused_infer_attention_score_v2.out": lambda: (
        (h(1, 2, 3, 4), h(1, 2, 3, 4), h(1, 2, 3, 4)),
        {
            "num_query_heads": 2,
            "input_layout": "BNSD",
            "return_softmax_lse": True,
            "attention_out": h(1, 2, 3, 4),
            "softmax_lse": f(1, 2, 3, 1),
        },
    ),
    "npu_apply_adam.out": lambda: (
        (0.9, 0.9, 0.1, 0.9, 0.9, 1e-8, f(3), False, False),
        {"var": f(3), "m": f(3), "v": f(3).abs()},
    ),
    "npu_apply_adam_w.out": lambda: (
        (0.9, 0.9, 0.1, 0.1, 0.9, 0.9, 1e-8, f(3), None, False, False),
        {"var": f(3), "m": f(3), "v": f(3).abs()},
    ),
    "npu_bert_apply_adam.out": lambda: (
        (0.1, 0.9, 0.9, 1e-8, f(3), -1.0, 0.0, 0.1),
        {"var": f(3), "m": f(3), "v": f(3).abs()},
    ),
    "npu_scatter_nd_update": lambda: ((f(3, 4), i(2, 1), f(2, 4)), {}),
    "npu_scatter_nd_update_": lambda: ((f(3, 4), i(2, 1), f(2, 4)), {}),
    "npu_scatter_pa_kv_cache": lambda: (
        (h(2, 1, 4), h(2, 1, 4), h(2, 4, 1, 4), h(2, 4, 1, 4), i(2)),
        {"cache_mode": "Norm"},
    ),
    "npu_scatter_pa_kv_cache_functional": lambda: (
        (h(2, 2, 16), h(2, 1, 16), h(2, 2, 4, 16), h(2, 1, 4, 16), i(2)),
        {"cache_mode": "PA_NZ"},
    ),
    "npu_moe_gating_top_k_softmax": lambda: ((f(4, 6), i(4, below=2).bool(), 2), {}),
    "npu_ring_attention_update": lambda: (
        (f(3, 1, 8), f(1, 2, 3, 8), f(1, 2, 3, 8).abs(), f(3, 1, 8), f(1, 2, 3, 8), f(1, 2, 3, 8).abs()),
        {},
    ),
    "npu_attention_update": lambda: (([f(3), f(3)], [f(3, 4), f(3, 4)], 1), {}),
    "npu_top_k_top_p": lambda: ((f(2, 6), torch.rand(2).npu(), i(2) + 1), {}),
    "npu_moe_gating_top_k_softmax_v2": lambda: ((f(4, 6),), {"k": 2, "output_softmax": True}),
    "npu_moe_init_routing_v2": lambda: (
        (f(4, 3), i(4, 2)),
        {"active_expert_range": [0, 3], "expert_num": 3, "expert_tokens_num_flag": True, "quant_mode": 1},
    ),
    "npu_moe_token_permute_grad_v2": lambda: (
        (f(8, 3), torch.randperm(8).int().npu(), 4, torch.float32, 2),
        {},
    ),
    "npu_moe_token_permute_grad": lambda: ((f(4, 3), f(8, 3), i(4, 2), torch.randperm(8).int().npu()), {}),
    "npu_moe_token_unpermute_grad": lambda: ((f(8, 3), f(4, 3), torch.randperm(8).int().npu(), f(4, 2)), {}),
    "npu_moe_token_unpermute_grad_v2": lambda: (
        (f(4, 3), torch.randperm(8).int().npu(), 8, torch.float32, f(4, 2)),
        {"permuted_tokens": f(8, 3)},
    ),
    "_npu_moe_token_unpermute": lambda: ((g(8, 3), torch.randperm(8).int().npu(), g(4, 2)), {}),
    "npu_grouped_matmul_add": lambda: ((f(8, 5), f(6, 4), f(6, 5), torch.tensor([2, 6]).npu()), {}),
    "npu_grouped_matmul_add_": lambda: ((f(8, 5), f(6, 4), f(6, 5), torch.tensor([2, 6]).npu()), {}),
    "npu_moe_gating_top_k": lambda: ((g(4, 6), 2), {"group_count": 2, "k_group": 1, "norm_type": 1}),
    "npu_moe_gating_top_k_backward": lambda: ((f(4, 6), f(4, 2), i(4, 2)), {}),
    "npu_moe_init_routing": lambda: ((f(4, 3), row_index(), i(4, 2), 3), {}),
    "npu_moe_compute_expert_tokens": lambda: ((i(5).sort().values, 4), {}),
    "npu_moe_finalize_routing": lambda: ((f(8, 3), f(4, 3), None, None, f(4, 2), i(8, below=8), i(4, 2)), {}),
    "npu_moe_re_routing": lambda: ((f(4, 3), torch.tensor([[1, 1], [2, 0]]).npu()), {}),
    "npu_moe_token_permute": lambda: ((g(4, 3), i(4, 2)), {}),
    "npu_moe_token_unpermute": lambda: ((g(8, 3), torch.randperm(8).int().npu(), g(4, 2)), {}),
    "npu_moe_token_permute_with_routing_map": lambda: (
        (g(4, 3), routing_map()),
        {"probs": g(4, 3), "num_out_tokens": 8},
    ),
    "npu_moe_token_unpermute_with_routing_map": lambda: (
        (g(8, 3), torch.randperm(8).int().npu(), [4, 3]),
        {"probs": g(4, 3), "routing_map": routing_map()},
    ),
    "npu_grouped_matmul": lambda: (
        ([f(5, 3)], [f(2, 3, 4)]),
        {"group_list": torch.tensor([2, 5]).npu(), "split_item": 3, "group_type": 0},
    ),
    "npu_grouped_matmul.List": lambda: (([f(5, 3)], [f(3, 4), f(3, 4)]), {"group_list": [2, 5], "split_item": 3}),
    "npu_ffn": lambda: ((h(3, 4), h(4, 5), h(5, 4), "gelu"), {}),
    "npu_mm_all_reduce_base": lambda: ((h(3, 4), h(4, 5), ""), {}),
    "npu_quant_matmul": lambda: (
        (i(3, 4, dtype=torch.int8), i(4, 5, dtype=torch.int8), f(5)),
        {"output_dtype": torch.float16},
    ),
    "npu_weight_quant_batchmatmul": lambda: ((h(3, 8), i(8, 8, dtype=torch.int8), h(8)), {}),
    "npu_quantize": lambda: ((f(3, 4), f(4).abs(), None, torch.qint8, 1), {}),
    "npu_dynamic_quant": lambda: ((h(3, 8),), {}),
    "npu_dynamic_quant_asymmetric": lambda: ((h(3, 8),), {}),
    "npu_anti_quant": lambda: ((i(3, 4, dtype=torch.int8), f(4)), {}),
    "npu_trans_quant_param": lambda: ((f(4), f(4)), {}),
    "npu_convert_weight_to_int4pack": lambda: ((i(2, 8),), {}),
    "npu_dequant_bias": lambda: ((i(3, 4), f(4), None, None), {}),
    "npu_rms_norm_quant": lambda: ((h(2, 4), h(4), h(4), h(1), i(1, dtype=torch.int8)), {}),
    "npu_add_rms_norm_quant": lambda: ((h(2, 4), h(2, 4), h(4), f(4), None), {}),
    "npu_add_rms_norm_dynamic_quant": lambda: ((h(2, 4), h(2, 4), h(4)), {}),
    "npu_swiglu_quant": lambda: ((h(2, 8),), {"quant_mode": 1}),
}


def home(name: str) -> str:
    function = mechanism.IMPLEMENTATIONS[name].function
    return getattr(function, "__module__", "").rpartition(".")[2]


OWN = {name for name in mechanism.IMPLEMENTATIONS if home(name) in MODULES} - NOT_SAMPLED


def operator(name: str):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.npu, base), overload or "default")


def test_every_operator_has_a_sample() -> None:
    derived = {name for name in SAMPLES if home(name) == "implement"}
    assert set(SAMPLES) - derived == OWN


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_schema_and_fake_tensors(name: str) -> None:
    args, kwargs = SAMPLES[name]()
    torch.library.opcheck(operator(name), args, kwargs, test_utils=("test_schema", "test_faketensor"))


TRACED = sorted(
    name
    for name in SAMPLES
    if mechanism.IMPLEMENTATIONS[name].differentiable
    # NOTE: attention tells the number of probabilities as an integer, which tracing does not know, nor does the vendor;
    # the routing map's number of tokens is data.
    and not name.startswith("npu_fusion_attention")
)


# NOTE: PyTorch's check of torch 2.14 and later copies the inputs, and hides this warning from print, not from pytest.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("name", TRACED)
def test_tracing_with_gradients(name: str) -> None:
    args, kwargs = SAMPLES[name]()
    torch.library.opcheck(operator(name), args, kwargs, test_utils=("test_aot_dispatch_dynamic",))
