"""## What it does
Looks up every name of `torch.npu`, `torch_npu`, `torch.accelerator`, `torch.amp` and the other modules of
PyTorch that the conversion wrote, in the packaged tables of torch_npu and PyTorch: the name must exist, and
a call must not pass it arguments that its signature does not take.

## Why it matters
The usual way in which converters break code is a name made by replacing a word: `torch.npu.nccl`,
`torch.npu.OutOfMemoryError`. The error shows when the line runs, in the worst case inside an `except`.

## Example
```python
except torch.npu.OutOfMemoryError:
torch.accelerator.synchronize(device=0)
```

## Use instead
```python
except torch.OutOfMemoryError:
torch.accelerator.synchronize(0)
```

## Fix safety
No edit is made.

## References
- torch_npu 2.13 public API (`jumar/device/data/torch_npu_public_api.json`)
- PyTorch 2.13 (`jumar/migrate/data/torch_names.json`)
"""

from __future__ import annotations

from jumar.findings import Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM187",
    name="unknown-npu-name",
    summary="The conversion wrote a name that the chosen release does not have, or arguments it does not take.",
    severity=Severity.ERROR,
    doc=__doc__,
)
