"""JM845 wheel-platform.

## What it does
Where torch or torch_npu is missing or does not import, compares the C library (glibc 2.28, no musl), the processor
(x86-64, aarch64) and the kind of Python (no free-threaded or debug build) with those that wheels are built for.

## Why it matters
pip then says that no version fits, or the import ends with "version `GLIBC_2.28' not found".

## Example
```
$ ldd --version
ldd (GNU libc) 2.17
```

## Use instead
A container with a newer system, such as the vendor's images with openEuler 22.03 or Ubuntu 22.04.

## Fix safety
No edit is made.

## References
PEP 600 (manylinux_2_28); release notes of PyTorch 2.6; wheels of torch-npu on PyPI.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM845",
    name="wheel-platform",
    summary="There are no wheels of torch or torch_npu for this system.",
    severity=Severity.WARNING,
    doc=__doc__,
)

LEAST_GLIBC = (2, 28)
FROM_TORCH = (2, 6)
ARCHITECTURES = ("x86_64", "amd64", "aarch64", "arm64")


def find(host: Host) -> Outcomes:
    """Judge the system, where a package is missing or broken."""
    torch, package = host.python.torch, host.python.torch_npu
    if torch.usable and (package.usable or not host.has_npu_software):
        return []
    software = host.software
    if not software.architecture and not software.libc[0]:
        return [not_checked(RULE, "processor and C library are unknown here.")] if host.has_npu_software else []
    return [*_library(host), *_processor(software.architecture), *_python(software.abi_flags)]


def _library(host: Host) -> list[Finding]:
    name, version = host.software.libc
    parts = version.split(".")
    if name != "glibc" and name:
        return [
            _finding(
                f"The C library is {name}; wheels are built for glibc.", {"libc": name}, "Use a system with glibc."
            )
        ]
    numbers = tuple(int(part) for part in parts[:2] if part.isdigit())
    release = host.python.torch.release
    if len(numbers) < 2 or numbers >= LEAST_GLIBC or (release is not None and release < FROM_TORCH):
        return []
    message = f"glibc is {version}; wheels of torch 2.6 and newer need 2.28."
    return [_finding(message, {"glibc": version}, "Use a container with a newer system, or torch 2.5 or older.")]


def _processor(name: str) -> list[Finding]:
    if not name or name.lower() in ARCHITECTURES:
        return []
    message = f"The processor is {name}; wheels are built for x86-64 and aarch64."
    return [_finding(message, {"architecture": name}, "Use such a machine, or build from source.")]


def _python(flags: str) -> list[Finding]:
    if "t" not in flags and "d" not in flags:
        return []
    kind = "free-threaded" if "t" in flags else "debug"
    return [_finding(f"This Python is a {kind} build.", {"abi_flags": flags}, "Use an ordinary build of Python.")]


def _finding(message: str, evidence: dict[str, str], action: str) -> Finding:
    return RULE.finding(message, evidence=dict(evidence), why="pip finds no wheel, or it does not load.", action=action)
