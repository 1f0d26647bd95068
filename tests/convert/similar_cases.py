"""Stand-ins with the formulas of CUDA libraries, and ways to run a snippet before and after `-sim`."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import dedent
from typing import Any

import torch
from torch import Tensor, nn

from jumar.base.findings import Finding
from jumar.convert import ConvertOptions, Success, convert_source

IMPORT = "import torch_npu  # noqa: F401\n"


def similar(source: str, **options: Any) -> Success:
    """The outcome with similar interfaces allowed; a second conversion must change nothing."""
    settings = ConvertOptions(similar=True, **options)
    found = convert_source(dedent(source), "a.py", settings)
    assert isinstance(found, Success), found
    again = convert_source(found.after, "a.py", settings)
    assert again.after == found.after
    return found


def replaced(source: str, **options: Any) -> str:
    return similar(source, **options).after.decode().replace(IMPORT, "")


def of_code(source: str, code: str, **options: Any) -> list[Finding]:
    return [finding for finding in similar(source, **options).findings if finding.code == code]


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None, hidden: Tensor | None) -> Tensor:
    """softmax(q k^T scale) v for (batch, sequence, heads, dim); `hidden` marks what is masked out."""
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.einsum("bhij,bjhd->bihd", torch.softmax(scores, -1), v).contiguous()


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: tuple[int, int] = (-1, -1), deterministic: bool = False,
) -> Tensor:  # fmt: skip
    """The published definition: a causal mask is aligned to the bottom right corner."""
    assert dropout_p == 0.0
    assert window_size == (-1, -1)
    rows, columns = q.shape[1], k.shape[1]
    hidden = torch.ones(rows, columns).triu(columns - rows + 1).bool() if causal else None
    return attention(q, k, v, softmax_scale, hidden)


def flash_attn_qkvpacked_func(qkv: Tensor, *args: Any, **options: Any) -> Tensor:
    q, k, v = qkv.unbind(2)
    return flash_attn_func(q, k, v, *args, **options)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *args: Any, **options: Any) -> Tensor:
    k, v = kv.unbind(2)
    return flash_attn_func(q, k, v, *args, **options)


class LowerTriangularMask:
    """xformers' mask: aligned to the top left corner."""


def memory_efficient_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Any = None, p: float = 0.0, scale: float | None = None,
    *, op: Any = None,
) -> Tensor:  # fmt: skip
    """The published definition, for (batch, sequence, heads, dim) or (batch, sequence, dim)."""
    assert p == 0.0
    if query.ndim == 3:
        bias = attn_bias.unsqueeze(1) if isinstance(attn_bias, Tensor) else attn_bias
        query, key, value = query.unsqueeze(2), key.unsqueeze(2), value.unsqueeze(2)
        return memory_efficient_attention(query, key, value, bias, p, scale).squeeze(2)
    if isinstance(attn_bias, LowerTriangularMask):
        hidden = torch.ones(query.shape[1], key.shape[1]).triu(1).bool()
        return attention(query, key, value, scale, hidden)
    scores = torch.einsum("bihd,bjhd->bhij", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    weights = torch.softmax(scores if attn_bias is None else scores + attn_bias, -1)
    return torch.einsum("bhij,bjhd->bihd", weights, value).contiguous()


class FusedLayerNorm(nn.Module):
    """apex's layer norm by its formula."""

    def __init__(self, shape: int, eps: float = 1e-5, elementwise_affine: bool = True, memory_efficient: bool = False):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(shape)) if elementwise_affine else None
        self.bias = nn.Parameter(torch.zeros(shape)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        normal = centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps)
        return normal if self.weight is None or self.bias is None else normal * self.weight + self.bias


class FusedRMSNorm(nn.Module):
    """apex's RMS norm by its formula, with its eps of 1e-5."""

    def __init__(self, shape: int, eps: float = 1e-5, elementwise_affine: bool = True, memory_efficient: bool = False):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(shape)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        normal = x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return normal if self.weight is None else normal * self.weight


class FusedAdam(torch.optim.Optimizer):
    """apex's Adam by its formula: decay of weights after the division (adam_w_mode), or in the gradient."""

    def __init__(
        self, params: Any, lr: float = 1e-3, bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, adam_w_mode: bool = True,
        weight_decay: float = 0.0, amsgrad: bool = False, set_grad_none: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.adam_w_mode = adam_w_mode

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # closures are not used here
        for group in self.param_groups:
            (one, two), decay = group["betas"], group["weight_decay"]
            for p in group["params"]:
                state = self.state[p]
                gradient = p.grad if self.adam_w_mode else p.grad + decay * p
                state["step"] = state.get("step", 0) + 1
                state["m"] = one * state.get("m", 0) + (1 - one) * gradient
                state["v"] = two * state.get("v", 0) + (1 - two) * gradient**2
                m, v = state["m"] / (1 - one ** state["step"]), state["v"] / (1 - two ** state["step"])
                update = m / (v.sqrt() + group["eps"])
                p.sub_(group["lr"] * (update + decay * p if self.adam_w_mode else update))


class FusedSGD(torch.optim.Optimizer):
    """apex's SGD by its formula."""

    def __init__(
        self, params: Any, lr: float, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, wd_after_momentum: bool = False, materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:  # fmt: skip
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "nesterov": nesterov})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # closures are not used here
        for group in self.param_groups:
            for p in group["params"]:
                gradient, state, momentum = p.grad + group["weight_decay"] * p, self.state[p], group["momentum"]
                first = "m" not in state
                state["m"] = gradient if first else momentum * state["m"] + (1 - group["dampening"]) * gradient
                p.sub_(group["lr"] * (gradient + momentum * state["m"] if group["nesterov"] else state["m"]))


def _modules() -> dict[str, types.ModuleType]:
    contents: dict[str, list[Callable[..., Any]]] = {
        "flash_attn": [flash_attn_func, flash_attn_qkvpacked_func, flash_attn_kvpacked_func],
        "xformers": [],
        "xformers.ops": [memory_efficient_attention, LowerTriangularMask],
        "apex": [],
        "apex.normalization": [FusedLayerNorm, FusedRMSNorm],
        "apex.optimizers": [FusedAdam, FusedSGD],
    }
    made = {name: types.ModuleType(name) for name in contents}
    for name, items in contents.items():
        vars(made[name]).update({item.__name__: item for item in items})
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, made[name])
    return made


@contextmanager
def _present(modules: dict[str, types.ModuleType]) -> Iterator[None]:
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def run(source: str, *, stand_ins: bool) -> dict[str, Any]:
    """Run a snippet from a fixed seed and return its names; without stand-ins its libraries are missing."""
    names: dict[str, Any] = {"__name__": "snippet"}
    torch.manual_seed(0)
    with _present(_modules() if stand_ins else {}):
        exec(compile(dedent(source), "snippet.py", "exec"), names)
    return names


def assert_equal_results(source: str, *names: str) -> None:
    """Assert that a snippet gives these names the same values before and after, and that it lost its libraries."""
    before = run(source, stand_ins=True)
    after = run(replaced(source), stand_ins=False)
    for name in names:
        torch.testing.assert_close(after[name], before[name], rtol=1e-5, atol=1e-6)
