"""JM803 torch-npu-version-pair.

## What it does
Compares the versions of torch and torch_npu: the first two numbers must be the same.

## Why it matters
torch_npu registers its kernels with PyTorch's C++ library, whose interface changes with every minor
version. An unequal pair fails at import, or later with an unclear error.

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

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM803",
    name="torch-npu-version-pair",
    summary="torch and torch_npu are not of the same version.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Compare the pair."""
    torch, npu = host.python.torch, host.python.torch_npu
    if not npu.installed:
        yield not_checked(RULE, "torch_npu is not installed, so there is no pair.")
        return
    if torch.release is None or npu.release is None:
        reason = f"the versions cannot be read (torch {torch.version!r}, torch_npu {npu.version!r})."
        yield not_checked(RULE, reason)
        return
    if torch.release == npu.release:
        return
    of_torch, of_npu = (".".join(map(str, release)) for release in (torch.release, npu.release))
    yield RULE.finding(
        f"torch is {torch.version} and torch_npu is {npu.version}; the two must have the same first two numbers.",
        evidence={"torch": torch.version, "torch_npu": npu.version},
        why="torch_npu is compiled against one minor version of PyTorch.",
        action=f"Install torch=={of_npu}.* or the torch_npu of torch {of_torch}.",
    )
