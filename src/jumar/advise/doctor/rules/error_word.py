"""JM853 error-word.

A log names an error that nothing explains.

## What it does
Reports lines that a person takes for an error, where the logs hold no known error, no vendor's code and no
traceback: an exception's name, a logger's level, a signal, a crash, an exit code other than 0, an error of a
compiler, a shell or a package manager. The lines around it are shown. Lines that differ in numbers only count as
one. It is a warning only where the line says that the program went on (it retries, it uses something else), or
where its logger calls it a warning. Where another error explains the failure, such lines are counted in a note.

## Why it matters
A run whose log names an error has usually failed, for a reason that Jumar does not know. Such a log is never
called fine.

## Example
```
launcher: worker 3 failed with exit code 9
```

## Use instead
Read the lines around it. A line that is harmless needs nothing.

## Fix safety
No edit is made.

## References
`jumar docs guide-doctor`
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM853",
    name="error-word",
    summary="A log names an error that Jumar does not know.",
    severity=Severity.ERROR,
    doc=__doc__,
)
