"""JM451 unfused-activation.

## What it does
Finds GELU, SiLU and SwiGLU that are written out (a root or an exponential function between products) and adds up their
time in the forward pass.

## Why it matters
Each part reads and writes the whole tensor, and autograd keeps most of the tensors between for the backward pass.

## Example
```python
y = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))
z = x * torch.sigmoid(x)
```

## Use instead
```python
y = torch.nn.functional.gelu(x, approximate="tanh")
z = torch.nn.functional.silu(x)
```
For `silu(gate) * up` an NPU has `torch_npu.npu_swiglu`; on a GPU `torch.compile` makes one kernel of it.

## Fix safety
The same calculation in another order: results differ in the last digits.

## References
PyTorch's `functional.gelu`, `functional.silu`; `npu_swiglu` of the vendor.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.timing.chains import Fusion, find_fusions, steps_of
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM451",
    name="unfused-activation",
    summary="An activation function is calculated in parts.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
_OTHERS = frozenset({"linear", "matmul", "mm", "bmm", "convolution", "conv2d", "softmax", "mean", "sum", "cat"})
FUSIONS = (
    Fusion(
        what="GELU (tanh)",
        patterns=[steps_of("pow|mul", "mul", "add", "mul", "tanh", "add", "mul")],
        unless=_OTHERS,
        near=2,
        use='Use `torch.nn.functional.gelu(x, approximate="tanh")`.',
    ),
    Fusion(
        what="GELU",
        patterns=[steps_of("div|mul", "erf", "add", "mul")],
        unless=_OTHERS,
        near=2,
        use="Use `torch.nn.functional.gelu(x)`.",
    ),
    Fusion(
        what="SiLU",
        patterns=[steps_of("sigmoid", "mul"), steps_of("neg", "exp", "add", "div|reciprocal")],
        unless=_OTHERS,
        near=0,
        use="Use `torch.nn.functional.silu(x)`.",
    ),
    Fusion(
        what="SwiGLU",
        patterns=[steps_of("silu", "linear|chunk|split|mul", "mul"), steps_of("silu", "mul")],
        unless=frozenset({"convolution", "conv2d", "softmax", "mean", "sum"}),
        near=1,
        use="Use one projection and `torch_npu.npu_swiglu` on an NPU; elsewhere `torch.compile` fuses it.",
    ),
)


def find(profile: Profile) -> Outcomes:
    """Yield a finding for each kind of activation in parts that fills a share of the steps."""
    return find_fusions(profile, RULE, FUSIONS, "one fused operator reads it once.")
