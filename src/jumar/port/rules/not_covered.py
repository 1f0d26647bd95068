"""A part of a run could not be observed.

## What it does
Reports what the observer could not see in a run, in its own words: a compiled region, a damaged step
file, a rank without an end.

## Why it matters
What was not observed was not compared. It is reported apart, and never counts as agreeing.

## Example
`3 compiled regions ran without being observed`

## Use instead
Switch the feature off for the trial run (for example leave out `--compile`), or compare that part by
other means.

## Fix safety
No edit is made.

## References
The recording format in `jumar docs recording`.
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM904",
    name="not-covered",
    summary="A part of a run could not be observed, so it was not compared.",
    severity=Severity.WARNING,
    doc=__doc__,
)
