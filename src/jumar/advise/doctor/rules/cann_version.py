"""JM826 cann-version.

## What it does
Compares torch_npu with the CANN that it was released with, by the vendor's table. A pair that only the table of
compatibility names is told as information.

## Why it matters
torch_npu calls functions of CANN by name. In an older CANN some are missing: the import or the first operator ends with
"undefined symbol" or "aclnn... not in libopapi.so".

## Example
```
torch_npu 2.8.0.post2 with CANN 8.2.RC1       # made for CANN 8.5.0
```

## Use instead
```
pip install torch-npu==2.6.0          # or install CANN 8.5.0
```

## Fix safety
No edit is made.

## References
COMPATIBILITY.md of github.com/Ascend/pytorch; release notes of Ascend Extension for PyTorch 7.2.0, "compatibility".
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.pairs import Pair, first_two, order, pair_of, table_date
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM826",
    name="cann-version",
    summary="torch_npu and CANN are not of one release.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Compare the pair with the table."""
    package, cann = host.python.torch_npu, host.software.cann
    if not package.installed:
        return
    if not cann:
        yield not_checked(RULE, "no file of CANN tells its release here; look into its version.info.")
        return
    pair = pair_of(package.version)
    if pair is None:
        reason = f"the vendor's table of {table_date()} does not name torch_npu {package.version or 'of this version'}."
        yield not_checked(RULE, reason)
        return
    wanted, file = " or ".join(pair.cann), host.software.cann_file
    if any(first_two(cann) == first_two(one) and order(cann) >= order(one) for one in pair.cann):
        return  # the same release, or a later patch or candidate of it
    severity, word = _judged(pair, cann)
    yield RULE.finding(
        f"torch_npu {package.version} was released with CANN {wanted}; here is {cann}, {word}.",
        severity=severity,
        evidence={
            "torch_npu": package.version,
            "cann": cann,
            "wanted": list(pair.cann),
            "file": file,
        },
        why=f"Functions that torch_npu calls can be missing in another release. Table: {pair.source} ({table_date()}).",
        action=f"Install CANN {pair.cann[0]}, or the torch_npu that was released with CANN {cann}.",
    )


def _judged(pair: Pair, cann: str) -> tuple[Severity, str]:
    if any(first_two(cann) == first_two(one) and order(cann) >= order(one) for one in pair.compatible):
        return Severity.INFO, "which the vendor's table of compatibility allows"
    if order(cann) < min(order(one) for one in pair.cann):
        return Severity.WARNING, "which is older"
    return Severity.ADVICE, "which is newer; no table names the pair"
