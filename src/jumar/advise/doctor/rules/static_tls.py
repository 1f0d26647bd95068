"""JM844 static-tls.

## What it does
Looks into the error of importing torch or torch_npu for "static TLS block", and names the library.

## Why it matters
On aarch64 libgomp and a few others need a place that is full once many libraries are loaded. Loaded first, they get it.

## Example
```
ImportError: /lib/aarch64-linux-gnu/libgomp.so.1: cannot allocate memory in static TLS block
```

## Use instead
```
export LD_PRELOAD=/lib/aarch64-linux-gnu/libgomp.so.1:$LD_PRELOAD
```

## Fix safety
`jumar doctor --fix` can do it and writes how to undo it.

## References
The vendor's PyTorch guide, "cannot allocate memory in static TLS block"; glibc, ld.so(8), LD_PRELOAD.
"""

from __future__ import annotations

import re

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM844",
    name="static-tls",
    summary="A library could not be loaded: no room in the static TLS block.",
    severity=Severity.ERROR,
    doc=__doc__,
)

_LIBRARY = re.compile(r"(\S+\.so[\w.]*): cannot allocate memory in static TLS block")


def find(host: Host) -> Outcomes:
    """Read the errors of the imports."""
    for name, package in (("torch", host.python.torch), ("torch_npu", host.python.torch_npu)):
        match = _LIBRARY.search(package.error or "")
        if match is None:
            continue
        before = host.value("LD_PRELOAD")
        yield RULE.finding(
            f"{name} does not import: {match[1]} finds no room in the static TLS block.",
            evidence={"library": match[1], "variable": "LD_PRELOAD"},
            why="It is loaded after too many others. Loaded first, it gets its place.",
            action=f"export LD_PRELOAD={match[1]}{':' + before if before else ''}",
        )
        return
