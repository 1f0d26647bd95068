"""Impl: attention by the NPU's fused kernel, in the place of products and a softmax one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jumar.tune.engines.base import Site
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, Task
from jumar.tune.providers.base import Provider

if TYPE_CHECKING:
    import torch

ATTENTION = "aten::scaled_dot_product_attention"
_DTYPES = frozenset({"float16", "bfloat16"})
"""What `npu_fusion_attention` takes on every chip (its page in the vendor's API reference)."""
_CAUSAL = 5
"""Place of `is_causal` among the positional arguments."""
_HEAD_BLOCK, _GREATEST_HEAD = 16, 512
"""Sizes of a head are multiples of the one and at most the other."""
_CAUSAL_MASK = 2048
"""Rows and columns of the mask that `sparse_mode` 2 reads."""


class NpuAttention(Provider):
    """`torch_npu.npu_fusion_attention` (layout BNSD) for `scaled_dot_product_attention` without dropout."""

    name = "npu_fusion_attention"
    kind = "Impl"
    devices = frozenset({"npu"})

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer it where the kernel computes what the operator does: four dimensions, one number of heads."""
        return [self.policy()] if task.operator == ATTENTION and _fits(task) else []

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Call the kernel with the operator's arguments. Raises what the kernel raises for shapes it refuses."""
        import torch

        from jumar.tune.providers.borders import restored

        stride = function(*example).stride()
        node = site.graph.nodes[0]
        is_causal, scale = bool(node.arguments[_CAUSAL]), node.keywords.get("scale")
        fixed = _causal_mask(example[0].device) if is_causal else None
        for constant in site.constants.values():  # a buffer of the model: `_fits` lets only the mask be one
            fixed = constant.logical_not()

        def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.ops.npu.npu_fusion_attention(
                query,
                key,
                value,
                query.shape[1],
                "BNSD",
                atten_mask=mask[0].logical_not() if mask else fixed,  # the kernel leaves out what is True
                scale=1 / math.sqrt(query.shape[-1]) if scale is None else scale,
                sparse_mode=2 if is_causal else 0,
            )[0]
            return restored(result, stride)

        return call


def _fits(task: Task) -> bool:
    inputs = {name: spec for name, spec in task.tensors.items() if name != "attn_mask"}
    query, key = inputs["query"], inputs["key"]
    mask, arguments = task.tensors.get("attn_mask"), task.arguments
    sizes = {spec.shape[-1] for spec in inputs.values()}
    return (
        all(len(spec.shape) == 4 and spec.dtype in _DTYPES and not spec.constant for spec in inputs.values())
        and len(sizes) == 1
        and all(size % _HEAD_BLOCK == 0 and 0 < size <= _GREATEST_HEAD for size in sizes)
        and query.shape[:2] == key.shape[:2]
        and not arguments.get("dropout_p")
        and (mask is None or (mask.dtype == "bool" and mask.shape[-2:] == (query.shape[2], key.shape[2])))
        and (not arguments.get("is_causal") or query.shape[2] == key.shape[2])
    )


def _causal_mask(device: torch.device) -> torch.Tensor:
    import torch

    return torch.ones(_CAUSAL_MASK, _CAUSAL_MASK, dtype=torch.bool).triu(1).to(device)
