"""JM851 python-traceback-in-log.

## What it does
Reports a Python traceback whose message no other rule knows: the exception, the place in the file, and the
deepest line of it that is not in an installed package. Of a chain ("During handling of the above exception")
the first exception counts.

## Why it matters
What a training script itself does wrong ends in a traceback, and the same exception is often printed once by
every rank and once more by the launcher.

## Example
```
Traceback (most recent call last):
  File "train.py", line 41, in <module>
    main()
KeyError: 'lr'
```

## Use instead
Mend the line that the finding names; the launcher's own traceback (ChildFailedError) says nothing more.

## Fix safety
No edit is made.

## References
"Python call stack and exceptions" in the troubleshooting guide of github.com/Ascend/pytorch.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM851",
    name="python-traceback-in-log",
    summary="A log holds a Python traceback.",
    severity=Severity.ERROR,
    doc=__doc__,
)
