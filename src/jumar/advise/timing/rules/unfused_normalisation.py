"""JM450 unfused-normalisation.

## What it does
Finds RMSNorm and LayerNorm that are written out (a square, a mean, a root, products) and adds up their time in the
forward pass.

## Why it matters
Each part reads and writes the whole tensor. One fused operator reads it once, and keeps the statistics for the backward
pass in the place of the tensors between.

## Example
```python
variance = x.pow(2).mean(-1, keepdim=True)
x = weight * (x * torch.rsqrt(variance + eps))
```

## Use instead
```python
x = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
```
On an NPU, `torch_npu.npu_rms_norm(x, weight, epsilon=eps)[0]`; `jumar convert` knows the models that have one.

## Fix safety
The same calculation in another order: results differ in the last digits.

## References
PyTorch's `nn.RMSNorm`, `nn.LayerNorm`; the vendor's list of affinity operators.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.timing.chains import Fusion, find_fusions, steps_of
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM450",
    name="unfused-normalisation",
    summary="RMSNorm or LayerNorm is calculated in parts.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
_OTHERS = frozenset({"linear", "matmul", "mm", "bmm", "convolution", "conv2d", "softmax", "sum"})
FUSIONS = (
    Fusion(
        what="LayerNorm",
        patterns=[
            steps_of("mean", "sub", "pow|mul|square", "mean", "sqrt|rsqrt", "div|mul"),
            steps_of("mean", "var|std|var_mean", "sub", "sqrt|rsqrt", "div|mul"),
            steps_of("mean", "sub", "var", "sqrt|rsqrt", "div|mul"),
            steps_of("mean", "std", "sub", "div"),
        ],
        unless=_OTHERS,
        use="Use `nn.LayerNorm` or `torch.nn.functional.layer_norm`.",
    ),
    Fusion(
        what="RMSNorm",
        patterns=[steps_of("pow|square|mul", "mean", "rsqrt", "mul"), steps_of("pow|square", "mean", "sqrt", "div")],
        unless=_OTHERS | {"sub"},
        use="Use `torch.nn.functional.rms_norm`; on an NPU `torch_npu.npu_rms_norm`.",
    ),
)


def find(profile: Profile) -> Outcomes:
    """Yield a finding for each kind of normalisation in parts that fills a share of the steps."""
    return find_fusions(profile, RULE, FUSIONS, "one fused operator reads it once.")
