"""JM804 cann-not-set-up.

## What it does
Looks for CANN: its folders at the usual places, the variables that its `set_env.sh` sets, whether the
folders they name exist, and whether LD_LIBRARY_PATH leads into it.

## Why it matters
torch_npu loads `libhccl.so` and others from CANN when it is imported, and the operator compiler from
ASCEND_OPP_PATH later. A shell in which `set_env.sh` was not sourced fails at the import; variables left
from a removed version fail in the middle of a run.

## Example
```
$ env | grep ASCEND_HOME_PATH        # nothing
```

## Use instead
```
$ source /usr/local/Ascend/ascend-toolkit/set_env.sh
```

## Fix safety
No edit is made.

## References
The vendor's tuning guide (set_env.sh) and migration guide (the `libhccl.so` question); error E20002 of the
error code reference of github.com/hicann/runtime.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM804",
    name="cann-not-set-up",
    summary="CANN is missing, or this shell does not know it (set_env.sh).",
    severity=Severity.ERROR,
    doc=__doc__,
)
HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")


def find(host: Host) -> Outcomes:
    """Judge the installation and the shell's variables."""
    findings = [_missing_folder(text) for text in host.npu.missing_folders]
    homes = [value for name in HOME_VARIABLES if (value := host.value(name))]
    if homes:
        return findings + _library_path(host, homes)
    if host.npu.cann_folders:
        return [*findings, _not_sourced(host)]
    if not host.python.torch_npu.installed:
        return findings or [
            not_checked(RULE, "neither CANN nor torch_npu is installed; the emulated NPU needs neither.")
        ]
    return [
        *findings,
        RULE.finding(
            "torch_npu is installed, and CANN is neither at the usual places nor named by ASCEND_HOME_PATH.",
            action="Install the CANN release that torch_npu's version table names, and source its set_env.sh.",
        ),
    ]


def _missing_folder(text: str) -> Finding:
    name, _, path = text.partition("=")
    return RULE.finding(
        f"{name} names {path}, which is not a folder.",
        evidence={"variable": name, "path": path},
        why="The variable is left from another version, or the container does not mount CANN.",
        action="Source the set_env.sh of the CANN that is installed.",
    )


def _not_sourced(host: Host) -> Finding:
    folder = host.npu.cann_folders[0]
    severity = Severity.ERROR if host.python.torch_npu.installed else Severity.WARNING
    return RULE.finding(
        f"CANN lies in {folder}, and this shell has neither ASCEND_HOME_PATH nor ASCEND_TOOLKIT_HOME.",
        severity=severity,
        evidence={"folders": list(host.npu.cann_folders)},
        why="torch_npu cannot find its libraries until set_env.sh is sourced.",
        action=f"source {folder}/set_env.sh",
    )


def _library_path(host: Host, homes: list[str]) -> list[Finding]:
    paths = [PurePosixPath(part) for part in (host.value("LD_LIBRARY_PATH") or "").split(":") if part]
    if any(path.is_relative_to(PurePosixPath(home)) for path in paths for home in homes):
        return []
    return [
        RULE.finding(
            f"CANN is set to {homes[0]}, and LD_LIBRARY_PATH has no folder of it.",
            severity=Severity.WARNING,
            evidence={"LD_LIBRARY_PATH": host.value("LD_LIBRARY_PATH") or ""},
            why="A shell script that sets LD_LIBRARY_PATH anew drops what set_env.sh added.",
            action=f"source {homes[0]}/set_env.sh last, and write LD_LIBRARY_PATH=...:$LD_LIBRARY_PATH elsewhere.",
            confidence="likely",
        )
    ]
