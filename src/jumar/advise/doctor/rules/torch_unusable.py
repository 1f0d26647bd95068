"""JM801 torch-unusable.

## What it does
Imports torch in a fresh interpreter and compares its version with the range that Jumar states.

## Why it matters
Without torch nothing runs. Versions outside the range were never tried: the emulated NPU rests on an experimental
hook of PyTorch and is verified on 2.13 only; other versions of the range may work and are not verified.

## Example
```
$ python -c "import torch"
ImportError: libgomp.so.1: cannot open shared object file
```

## Use instead
Install the torch that your torch_npu names (the same version), or torch 2.13 for the emulator alone.

## Fix safety
No edit is made: replacing torch can break the torch_npu beside it.

## References
`requires-python` and the dependency bounds of Jumar; COMPATIBILITY of github.com/Ascend/pytorch.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

OLDEST, TOO_NEW, VERIFIED = (2, 6), (2, 14), (2, 13)

RULE = Rule(
    code="JM801",
    name="torch-unusable",
    summary="PyTorch is missing, does not import, or is of a version that was never tried.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge whether torch imports and whether its version is in the range."""
    torch = host.python.torch
    if torch.error is not None:
        yield RULE.finding(
            f"torch {torch.version} does not import: {torch.error}.".replace("torch  ", "torch "),
            evidence={"error": torch.error},
            action="Install it again for this Python, and read the missing library's name in the message.",
        )
        return
    if not torch.installed:
        yield RULE.finding("torch is not installed.", action="Install the version that your torch_npu names.")
        return
    version = torch.release
    if version is None or version == VERIFIED:
        return
    if not OLDEST <= version < TOO_NEW:
        yield RULE.finding(
            f"torch {torch.version} is outside the range 2.6 to 2.13 that Jumar is made for.",
            severity=Severity.WARNING,
            evidence={"version": torch.version},
            action="Install a torch of that range in an environment of its own.",
        )
        return
    if host.python.torch_npu.usable:
        return
    yield RULE.finding(
        f"The emulated NPU is verified on torch 2.13; this machine has {torch.version}.",
        severity=Severity.INFO,
        evidence={"version": torch.version},
        action="Do nothing while it works. Try torch 2.13 when the emulator misbehaves.",
    )
