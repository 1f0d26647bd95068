"""Similar interfaces give equal results, forward and backward: the formula before, the converted snippet after."""

from __future__ import annotations

import importlib

import pytest
from similar_cases import assert_equal_results

INPUTS = """
import torch
from flash_attn import {function}
q = torch.randn(2, 5, 3, 4, requires_grad=True)
k = torch.randn(2, {length}, 3, 4, requires_grad=True)
v = torch.randn(2, {length}, 3, 4, requires_grad=True)
causal = True
scale = 0.3
"""
GRADIENTS = """
(out * torch.linspace(0, 1, out.numel()).view(out.shape)).sum().backward()
dq, dk, dv = q.grad, k.grad, v.grad
flat = out.view(out.size(0), out.size(1), -1)
"""


@pytest.mark.parametrize("length", [5, 9])
@pytest.mark.parametrize(
    "call",
    [
        "flash_attn_func(q, k, v)",
        "flash_attn_func(q, k, v, causal=True)",
        "flash_attn_func(q, k, v, 0.0, scale, causal)",
        "flash_attn_func(q=q, k=k, v=v, softmax_scale=scale, causal=causal and scale > 0)",
        "flash_attn_func(q, k, v, dropout_p=0.0, causal=False, window_size=(-1, -1), deterministic=True)",
        "flash_attn_func(q * 2, (k), v if causal else k, softmax_scale=None)",
        "flash_attn_kvpacked_func(q, torch.stack([k, v], dim=2))",
    ],
)
def test_flash_attention_becomes_scaled_dot_product_attention(call: str, length: int) -> None:
    source = INPUTS.format(function=call.partition("(")[0], length=length) + f"out = {call}" + GRADIENTS
    assert_equal_results(source, "out", "dq", "dk", "dv", "flat")


@pytest.mark.parametrize(
    "call",
    [
        "flash_attn_qkvpacked_func(qkv)",
        "flash_attn_qkvpacked_func(qkv, 0.0, softmax_scale=scale, causal=True)",
        "flash_attn_qkvpacked_func(torch.stack([q, k, v], 2), causal=causal)",
        "flash_attn_kvpacked_func(q, kv, causal=causal)",
    ],
)
def test_packed_attention_is_unbound(call: str) -> None:
    packed = "qkv, kv = torch.stack([q, k, v], dim=2), torch.stack([k, v], dim=2)\n"
    source = INPUTS.format(function=call.partition("(")[0], length=5) + packed + f"out = {call}" + GRADIENTS
    assert_equal_results(source, "out", "dq", "dk", "dv")


@pytest.mark.parametrize("shape", ["2, 5, 3, 4", "6, 5, 4"])
@pytest.mark.parametrize(
    "call",
    [
        "xops.memory_efficient_attention(q, k, v)",
        "xops.memory_efficient_attention(q, k, v, attn_bias=None, p=0.0, scale=0.4, op=None)",
        "xops.memory_efficient_attention(q, k, v, attn_bias=xops.LowerTriangularMask())",
        "xops.memory_efficient_attention(q, k, v, bias, 0.0, 0.4)",
    ],
)
def test_memory_efficient_attention_with_and_without_heads(call: str, shape: str) -> None:
    heads = "" if shape.count(",") == 2 else ", 3"
    source = f"""
import torch
import xformers.ops as xops
q, k, v = (torch.randn({shape}, requires_grad=True) for _ in range(3))
bias = torch.randn({shape[0]}{heads}, 5, 5)
out = {call}{GRADIENTS}
"""
    assert_equal_results(source, "out", "dq", "dk", "dv", "flat")


@pytest.mark.parametrize(
    "layer",
    ["FusedLayerNorm(8)", "FusedLayerNorm(8, eps=0.1, memory_efficient=True)", "FusedLayerNorm(8, 0.1, False)",
     "FusedRMSNorm(8)", "FusedRMSNorm(8, eps=0.1)", "FusedRMSNorm(8, elementwise_affine=False)", "Own(8)"],
)  # fmt: skip
def test_fused_norms_become_pytorchs(layer: str) -> None:
    own = "class Own(FusedLayerNorm): ..." if "Own" in layer else ""
    source = f"""
import torch
from apex.normalization import {"FusedRMSNorm" if "RMS" in layer else "FusedLayerNorm"}
{own}
x = (torch.randn(4, 8) / 1000).requires_grad_()
layer = {layer}
out = layer(x)
out.pow(3).sum().backward()
dx, state = x.grad, dict(layer.state_dict())
dw = [p.grad for p in layer.parameters()]
"""
    assert_equal_results(source, "out", "dx", "state", "dw")


@pytest.mark.parametrize(
    "optimizer",
    [
        "FusedAdam(model.parameters())",
        "FusedAdam(model.parameters(), lr=0.05, weight_decay=0.3, set_grad_none=True)",
        "FusedAdam(model.parameters(), 0.05, adam_w_mode=False, weight_decay=0.3)",
        "FusedAdam(params=model.parameters(), lr=0.05, betas=(0.5, 0.9), eps=1e-3, bias_correction=True)",
        "FusedSGD(model.parameters(), lr=0.05)",
        "FusedSGD(model.parameters(), 0.05, 0.9, 0.1, 0.2)",
        "FusedSGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, set_grad_none=True)",
    ],
)
def test_fused_optimizers_take_the_same_steps(optimizer: str) -> None:
    source = f"""
import torch
from apex.optimizers import {optimizer.partition("(")[0]}
model = torch.nn.Linear(5, 3)
x = torch.randn(7, 5)
optimizer = {optimizer}
for _ in range(6):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
weights = [p.detach() for p in model.parameters()]
"""
    assert_equal_results(source, "weights")


def test_a_model_without_data_parallel_gives_the_same_on_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a machine without accelerators; another test may have brought one up in this process.
    module = importlib.import_module("torch.nn.parallel.data_parallel")
    monkeypatch.setattr(module, "_get_available_device_type", lambda: None)
    source = """
import torch
model = torch.nn.Linear(5, 3)
model = torch.nn.DataParallel(model)
wrapped = torch.nn.DataParallel(torch.nn.Linear(3, 2), device_ids=None)
x = torch.randn(7, 5)
out = wrapped(model(x))
out.sum().backward()
dw = [p.grad for p in (*model.parameters(), *wrapped.parameters())]
# cuda
"""
    assert_equal_results(source, "out", "dw")
