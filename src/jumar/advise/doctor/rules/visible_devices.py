"""JM806 visible-devices-malformed.

## What it does
Reads ASCEND_RT_VISIBLE_DEVICES as torch_npu does: numbers separated by commas, rising, each once. What
follows the first other character (a blank is one) is not read.

## Why it matters
With numbers that do not rise torch_npu counts 0 devices: `torch.npu.is_available()` is False and no
message says why. A blank after a comma silently cuts the list.

## Example
```
export ASCEND_RT_VISIBLE_DEVICES=1,0
export ASCEND_RT_VISIBLE_DEVICES="0, 1, 2"      # device 0 only
```

## Use instead
```
export ASCEND_RT_VISIBLE_DEVICES=0,1
```

## Fix safety
No edit is made.

## References
`_parse_visible_devices` and `_device_count_ascend_hal` in torch_npu/npu/__init__.py of
github.com/Ascend/pytorch; error EE2002 of the error code reference of github.com/hicann/runtime.
"""

from __future__ import annotations

import re

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"

RULE = Rule(
    code="JM806",
    name="visible-devices-malformed",
    summary="ASCEND_RT_VISIBLE_DEVICES hides devices: not rising, doubled, cut short, or empty.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the list of visible devices; an unset one shows all."""
    text = host.environ.get(VARIABLE)
    if text is None:
        return
    problem = _problem(text)
    if problem is None:
        return
    message, wanted = problem
    yield RULE.finding(
        f"{VARIABLE}={text!r} {message}.",
        evidence={"value": text},
        why="torch_npu says nothing; it only counts fewer devices.",
        action=f"export {VARIABLE}={wanted}" if wanted else f"Name the devices to use, or unset {VARIABLE}.",
    )


def _problem(text: str) -> tuple[str, str] | None:
    """Return what is wrong with the value and the value that was meant, or None."""
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    wanted = ",".join(str(number) for number in sorted(set(numbers)))
    read = re.match(r"[\d,]*", text)[0]  # type: ignore[index]  # the pattern matches the empty text too
    if not numbers or not read.strip(","):
        return "shows no device at all", wanted
    if read != text:
        return f"is read only up to {read!r}: nothing but digits and commas may stand in it", wanted
    if ",," in text or text.startswith(",") or text.endswith(","):
        return "has an empty place, where reading stops", wanted
    if len(set(numbers)) < len(numbers):
        return "names a device twice, and then no device is visible", wanted
    if numbers != sorted(numbers):
        return "does not rise, and then no device is visible", wanted
    return None
