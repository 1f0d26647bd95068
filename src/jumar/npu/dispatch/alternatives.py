"""What to use in place of an operator that has no kernel on an NPU."""

from __future__ import annotations

from collections.abc import Mapping

from jumar.operators import functional_name

_LINALG = "Move the matrix to the host for it: torch.linalg there takes x.cpu(), and .npu() brings the result back."
_BESSEL = "Compute it on the host: x.cpu() first, and .npu() after."
_ADAM = "Use fused=False (foreach operators run on the NPU), torch.optim.AdamW(fused=True) or torch_npu.optim."
_QUANTIZED = "Quantise with the torch_npu operators: npu_quantize, npu_quant_matmul, npu_anti_quant."
_EXTREME = "Use torch.maximum or torch.minimum where there is no NaN, torch.where with torch.isnan where there is."

ALTERNATIVES: Mapping[str, str] = {
    "_fused_adam": _ADAM,
    "_fused_adagrad": "Use fused=False: the foreach operators of torch.optim.Adagrad run on the NPU.",
    "_transformer_encoder_layer_fwd": "Train mode, or torch.backends.mha.set_fastpath_enabled(False), takes the layer "
    "apart into operators that run on the NPU.",
    "_native_multi_head_attention": "Use scaled_dot_product_attention, or torch.backends.mha.set_fastpath_enabled"
    "(False).",
    "_ctc_loss": "Pass the lengths as lists or CPU tensors: that form has a kernel.",
    "_masked_softmax": "Use masked_fill(mask, float('-inf')).softmax(dim).",
    "_int_mm": "Use torch_npu.npu_quant_matmul.",
    "_weight_int8pack_mm": "Use torch_npu.npu_weight_quant_batchmatmul.",
    "_weight_int4pack_mm": "Use torch_npu.npu_weight_quant_batchmatmul.",
    "cauchy": "Draw on the host: torch.empty(...).cauchy_().npu().",
    "geometric": "Draw on the host: torch.empty(...).geometric_(p).npu().",
    "log_normal": "Use torch.randn(..., device='npu').exp() with mean and deviation.",
    "poisson": "Draw on the host: torch.poisson(rates.cpu()).npu().",
    "binomial": "Draw on the host: torch.binomial(count.cpu(), p.cpu()).npu().",
    "_standard_gamma": "Draw on the host.",
    "_sample_dirichlet": "Draw on the host.",
    "copysign": "Use x.abs() * torch.sign(y), or torch.where(y < 0, -x.abs(), x.abs()).",
    "fmax": _EXTREME,
    "fmin": _EXTREME,
    "heaviside": "Use torch.where(x == 0, values, (x > 0).to(values.dtype)).",
    "huber_loss": "Use smooth_l1_loss(input, target, beta=delta) * delta, which is the same.",
    "hypot": "Use (x * x + y * y).sqrt().",
    "index_reduce": "Use scatter_reduce, or index_add for a sum.",
    "isin": "Use (x.unsqueeze(-1) == values).any(-1).",
    "logcumsumexp": "Use x.exp().cumsum(dim).log() with the maximum taken out.",
    "mode": "Count with torch.unique(return_counts=True).",
    "nextafter": "Compute it on the host.",
    "nonzero_static": "Use nonzero().",
    "polygamma": _BESSEL,
    "digamma": _BESSEL,
    "lgamma": _BESSEL,
    "mvlgamma": _BESSEL,
    "igamma": _BESSEL,
    "igammac": _BESSEL,
    "i0": _BESSEL,
    "scatter": "Use scatter_reduce(dim, index, src, 'sum' or 'prod').",
    "special_entr": "Use torch.where(x > 0, -x * x.log(), 0.0).",
    "special_xlog1py": "Use x * torch.log1p(y), with 0 where x is 0.",
    "unique_dim_consecutive": "Use unique_consecutive without dim.",
    "fake_quantize_per_tensor_affine_cachemask": _QUANTIZED,
    "fake_quantize_per_channel_affine_cachemask": _QUANTIZED,
    "quantize_per_tensor": _QUANTIZED,
    "quantize_per_channel": _QUANTIZED,
}
"""By operator name, without overload and in-place underscore."""

_PREFIXES = (
    ("linalg_", _LINALG),
    ("_linalg_", _LINALG),
    ("cholesky", _LINALG),
    ("_cholesky", _LINALG),
    ("geqrf", _LINALG),
    ("ormqr", _LINALG),
    ("lu_", _LINALG),
    ("special_", _BESSEL),
    ("quantized_", _QUANTIZED),
)

_GENERAL = "Run it on the host (x.cpu(), and .npu() for what follows), or allow that with unsupported='warn'."


def alternative(operator: str) -> str:
    """Return a sentence that says what to use instead of `aten::fmax.out`."""
    base = functional_name(operator)
    known = ALTERNATIVES.get(base)
    return known or next((advice for prefix, advice in _PREFIXES if base.startswith(prefix)), _GENERAL)
