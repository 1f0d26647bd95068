"""JM833 low-entropy.

## What it does
Reads entropy_avail of kernels before 5.18; later ones never run out.

## Why it matters
Programs that read /dev/random then wait: TLS, keys, the start of some services.

## Example
```
$ cat /proc/sys/kernel/random/entropy_avail
37
```

## Use instead
```
$ systemctl enable --now rngd        # or haveged
```

## Fix safety
No edit is made.

## References
random(4).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM833",
    name="low-entropy",
    summary="The kernel has little randomness left.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

LEAST = 200
LAST_RELEASE = (5, 18)


def find(host: Host) -> Outcomes:
    """Judge the entropy, where it can run out."""
    release, entropy = _release(host.kernel.release), host.kernel.entropy
    if release is not None and release >= LAST_RELEASE:
        return
    if entropy is None or release is None:
        if host.has_npu_software:
            yield not_checked(RULE, "the kernel does not tell how much randomness it has.")
        return
    if entropy < LEAST:
        yield RULE.finding(
            f"The kernel has {entropy} bits of randomness.",
            evidence={"entropy_bits": entropy},
            why="Programs that read /dev/random wait until there is more.",
            action="systemctl enable --now rngd (or haveged), as root",
        )


def _release(text: str) -> tuple[int, int] | None:
    parts = text.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() else None
