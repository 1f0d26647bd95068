"""Arguments that an NPU's kernel takes and the CPU's refuses: indices and labels of int32, the norm 0 of `renorm`.

In all numerics: without this, the call would raise.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from jumar.npu.core.overloads import arguments_of
from jumar.npu.core.plans import Call, Plan
from jumar.npu.dispatch import policy
from jumar.operators import functional_name

Tensor = torch.Tensor

_PLACES = frozenset({"index", "indices", "target", "targets"})
"""Names of arguments that hold positions or class numbers."""

_WANTS_INT64 = re.compile(r"\b(int64|Long|long)\b")


def index_layer(plan: Plan, call: Call) -> Call:
    """Give positions and labels of int32 as int64 where the CPU's kernel refuses int32; others keep their call."""
    arguments = enumerate(arguments_of(plan.name))
    places = [i for i, item in arguments if item.name in _PLACES and str(item.type) == "Tensor"]
    if not places or plan.form == "view" or policy.runs_on_host(plan.name):
        return call

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(keys, *args, **kwargs)
        except (RuntimeError, IndexError) as error:
            narrow = [i for i in places if i < len(args) and args[i].dtype is torch.int32]
            if not narrow or not _WANTS_INT64.search(str(error)):
                raise
        # NOTE: a kernel checks the dtype before it writes, so the second call finds all as the first did.
        given = [value.long() if i in narrow else value for i, value in enumerate(args)]
        return call(keys, *given, **kwargs)

    return run


_EPSILON = 1e-7
"""What the kernel adds to a norm that it divides by."""


def renorm_layer(plan: Plan, call: Call) -> Call:
    """Have `renorm` take the norm 0, which counts the elements that are not 0; others keep their call.

    aclnnRenorm takes it, PyTorch's kernels want a norm above 0. Formula: the vendor's test of `renorm`.
    """
    if functional_name(plan.name) != "renorm" or policy.runs_on_host(plan.name):
        return call

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        x, norm, dim, limit = args
        if norm != 0:
            return call(keys, *args, **kwargs)
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        others = [i for i in range(x.dim()) if i != dim % x.dim()]
        num = (wide != 0).sum(others, keepdim=True).to(wide.dtype)
        scaled = (wide * torch.where(num > limit, limit / (num + _EPSILON), torch.ones_like(num))).to(x.dtype)
        if plan.form == "inplace":
            return x.copy_(scaled)
        return scaled if plan.form == "fresh" else kwargs["out"].resize_(scaled.shape).copy_(scaled)

    return run
