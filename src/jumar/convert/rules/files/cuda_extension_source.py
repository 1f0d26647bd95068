"""## What it does
Reports C++ and CUDA sources with kernels or operator bindings (`PYBIND11_MODULE`, `TORCH_LIBRARY`,
`TORCH_LIBRARY_IMPL`), one finding a file, with the operators it binds, the kernels it defines, and
torch_npu's own operator where there is one of that purpose.

## Why it matters
CUDA kernels do not compile for NPUs. Python code that calls these operators needs another
implementation before it runs.

## Example
```cpp
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "forward (CUDA)"); }
```

## Use instead
```text
the operator of torch_npu, a PyTorch implementation, or a kernel in Ascend C
```

## Fix safety
No fix: kernels are rewritten by hand.

## References
- Ascend C; Ascend/op-plugin; `torch_npu.utils.cpp_extension.NpuExtension`
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM126",
    name="cuda-extension-source",
    summary="A source file holds CUDA kernels, or binds operators that do.",
    severity=Severity.WARNING,
    doc=__doc__,
)
