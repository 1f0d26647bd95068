"""## What it does
Reports a name that the converted source uses and does not define, where the original did not use it or
did define it; and `torch_npu` or `torch.npu` used where `import torch_npu` has not run yet: the import
stands in a function, under `TYPE_CHECKING`, or after the first use.

## Why it matters
The program raises NameError or AttributeError when it comes to that line, which may be hours into a run.

## Example
```python
def setup():
    import torch_npu

stream = torch_npu.npu.current_stream()
```

## Use instead
```python
import torch_npu

stream = torch_npu.npu.current_stream()
```

## Fix safety
No edit is made.

## References
- https://github.com/PyCQA/pyflakes, which finds the undefined names
"""

from __future__ import annotations

from jumar.findings import Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM186",
    name="undefined-name-after-conversion",
    summary="The conversion uses a name that is not defined there.",
    severity=Severity.ERROR,
    doc=__doc__,
)
