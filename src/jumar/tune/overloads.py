"""PyTorch's operators by name."""

from __future__ import annotations

import torch

from jumar.tune.errors import TuneError


def overload(name: str) -> torch._ops.OpOverload:
    """Return the operator called `aten::add.Tensor`. Raises TuneError when this PyTorch has none."""
    namespace, _, rest = name.rpartition("::")
    base, _, variant = rest.partition(".")
    found = getattr(getattr(torch.ops, namespace or "aten"), base, None)
    operator = getattr(found, variant or "default", None) if found is not None else None
    if operator is None:
        raise TuneError(f"{name} is not an operator of PyTorch {torch.__version__}; record again with this version.")
    assert isinstance(operator, torch._ops.OpOverload)
    return operator
