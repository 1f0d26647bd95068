"""JM827 python-version.

## What it does
Compares the Python with those that torch_npu of the installed torch is built for. It reports where torch_npu is missing
or does not import; one that imports is fine.

## Why it matters
There is no wheel for other Pythons: pip says that no version fits, or builds from source and fails.

## Example
```
$ python3.12 -m pip install torch-npu==2.6.0
ERROR: No matching distribution found
```

## Use instead
```
python3.11 -m venv .venv
```

## Fix safety
No edit is made.

## References
COMPATIBILITY.md of github.com/Ascend/pytorch, table of PyTorch and Python.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.pairs import first_two, pythons_of, table_date
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM827",
    name="python-version",
    summary="torch_npu is not built for this Python.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Compare Python and torch with the table."""
    torch, package = host.python.torch, host.python.torch_npu
    is_wanted = host.has_npu_software and torch.usable
    if not is_wanted or package.usable:
        return
    if torch.release is None or not host.python.version:
        yield not_checked(RULE, "the versions of torch and Python cannot be read.")
        return
    known = pythons_of(torch.release)
    name = ".".join(map(str, torch.release))
    if not known:
        yield not_checked(RULE, f"the vendor's table of {table_date()} does not name torch {name}.")
        return
    if first_two(host.python.version) in known:
        return
    yield RULE.finding(
        f"torch_npu for torch {name} is built for Python {', '.join(known)}; this is {host.python.version}.",
        evidence={"python": host.python.version, "pythons": list(known)},
        why="pip finds no wheel for another Python.",
        action=f"Make an environment with Python {known[-1]}, or install a torch whose torch_npu has this Python.",
    )
