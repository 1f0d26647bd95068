"""JM803 torch-npu-version-pair.

## What it does
Compares the versions of torch and torch_npu: the first two numbers must be the same.

## Why it matters
torch_npu registers its kernels with PyTorch's C++ library, whose interface changes with every minor
version. An unequal pair fails at import, or later and stranger.

## Example
```
torch 2.10.0 with torch_npu 2.9.0.post6
```

## Use instead
```
pip install torch-npu==2.10.0.post4
```

## Fix safety
No edit is made.

## References
Version table of COMPATIBILITY, github.com/Ascend/pytorch: torch_npu carries the version of its torch.
"""

from __future__ import annotations

from jumar.doctor.check import Check, NotChecked, Outcome
from jumar.doctor.host import Host
from jumar.doctor.versions import release
from jumar.findings import Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM803",
    name="torch-npu-version-pair",
    summary="torch and torch_npu are not of the same version.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def look(host: Host) -> Outcome:
    """Compare the pair."""
    torch, npu = host.python.torch.version, host.python.torch_npu.version
    if not host.python.torch_npu.installed:
        return NotChecked("torch_npu is not installed, so there is no pair.")
    ours, theirs = release(torch), release(npu)
    if ours is None or theirs is None:
        return NotChecked(f"the versions cannot be read (torch {torch!r}, torch_npu {npu!r}).")
    if ours == theirs:
        return []
    return [
        RULE.finding(
            f"torch is {torch} and torch_npu is {npu}; the two must have the same first two numbers.",
            evidence={"torch": torch, "torch_npu": npu},
            why="torch_npu is compiled against one minor version of PyTorch.",
            action=f"Install torch=={theirs[0]}.{theirs[1]}.* or the torch_npu of torch {ours[0]}.{ours[1]}.",
        )
    ]


CHECK = Check(rule=RULE, look=look)
