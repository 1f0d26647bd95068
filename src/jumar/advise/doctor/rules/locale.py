"""JM843 locale-encoding.

## What it does
Reads the encoding of LC_ALL, LC_CTYPE or LANG. `C`, `POSIX` and no locale are fine: Python takes UTF-8 for them.

## Why it matters
Python opens files with the locale's encoding. Scripts, data and logs in UTF-8 then end with UnicodeDecodeError.

## Example
```
export LANG=zh_CN.GB18030
```

## Use instead
```
export LANG=zh_CN.UTF-8        # or PYTHONUTF8=1
```

## Fix safety
`jumar doctor --fix` can do it and writes how to undo it.

## References
Python, UTF-8 mode (PEP 540) and the C locale (PEP 538).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM843",
    name="locale-encoding",
    summary="The locale names another encoding than UTF-8.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
"""The first that is set holds."""


def find(host: Host) -> Outcomes:
    """Judge the encoding."""
    name = next((name for name in VARIABLES if host.value(name)), None)
    if name is None or host.value("PYTHONUTF8") == "1":
        return
    value = host.value(name) or ""
    language, _, rest = value.partition(".")
    encoding = rest.partition("@")[0]
    if not encoding or encoding.lower().replace("-", "") == "utf8":
        return
    yield RULE.finding(
        f"{name}={value} makes Python read and write files as {encoding}.",
        evidence={"variable": name, "value": value},
        why="Scripts, data and logs are mostly UTF-8; reading them then fails or gives wrong characters.",
        action=f"export {name}={language}.UTF-8",
    )
