"""JM801 torch-unusable.

## What it does
Imports torch in a fresh interpreter and compares its version with the range that Jumar states.

## Why it matters
Without torch nothing runs. Outside the range nothing is known: the emulated NPU rests on an experimental
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

from jumar.doctor.check import Check, Outcome
from jumar.doctor.host import Host
from jumar.doctor.versions import release
from jumar.findings import Severity
from jumar.rules import Rule

OLDEST, TOO_NEW, VERIFIED = (2, 6), (2, 14), (2, 13)

RULE = Rule(
    code="JM801",
    name="torch-unusable",
    summary="PyTorch is missing, does not import, or is of a version that was never tried.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def look(host: Host) -> Outcome:
    """Judge whether torch imports and whether its version is in the range."""
    torch = host.python.torch
    if torch.error is not None:
        return [
            RULE.finding(
                f"torch {torch.version} does not import: {torch.error}.".replace("torch  ", "torch "),
                evidence={"error": torch.error},
                action="Install it again for this Python, and read the missing library's name in the message.",
            )
        ]
    if not torch.installed:
        return [RULE.finding("torch is not installed.", action="Install the version that your torch_npu names.")]
    version = release(torch.version)
    if version is None or OLDEST <= version < TOO_NEW:
        if version is None or version == VERIFIED or host.python.torch_npu.usable:
            return []
        return [
            RULE.finding(
                f"The emulated NPU is verified on torch 2.13; here is {torch.version}.",
                severity=Severity.INFO,
                evidence={"version": torch.version},
                action="Nothing, while it works; try torch 2.13 when the emulator misbehaves.",
            )
        ]
    return [
        RULE.finding(
            f"torch {torch.version} is outside the range 2.6 to 2.13 that Jumar is made for.",
            severity=Severity.WARNING,
            evidence={"version": torch.version},
            action="Install a torch of that range in an environment of its own.",
        )
    ]


CHECK = Check(rule=RULE, look=look)
