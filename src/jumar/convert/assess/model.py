"""`Assessment`: what a script or a run needs, and what the chosen NPU has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jumar.base.findings import Finding, Location

Status = Literal["native", "decomposed", "fallback", "unsupported", "unverified", "host"]

STATUSES: tuple[Status, ...] = ("unsupported", "fallback", "unverified", "decomposed", "native", "host")
"""In the order of the work that they ask of a person: most work first."""

RUNS_ON_DEVICE: tuple[Status, ...] = ("native", "decomposed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One API or operator that is used, with what the tables say of it."""

    name: str
    kind: Literal["api", "operator"]
    status: Status
    num_uses: int
    """Places in the source, or calls in the recording."""
    where: tuple[Location, ...] = ()
    """Distinct places in source order; for an operator at most one for each module path and source line."""
    source: str = ""
    """The table that says so."""
    note: str = ""
    npu_name: str = ""
    """The name on the NPU side, when it is another one."""
    certain: bool = True
    dtypes: tuple[str, ...] = ()
    """Operator: dtypes of its tensors that were seen."""
    excluded_dtypes: tuple[str, ...] = ()
    """Those of `dtypes` that the vendor's limits for the API of the same name seem to exclude."""
    duration_us: float | None = None
    """Operator: host time of all its calls, in microseconds."""
    share: float | None = None
    """Operator: `duration_us` over that of all operators, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The answer of one assessment. `notes` say what it could not see, one sentence each."""

    subject: str
    """The script, folder or recording that was assessed."""
    kind: Literal["source", "recording"]
    soc: str
    torch_version: str
    release_origin: str
    """Where `torch_version` comes from: `as asked`, `that of the torch 2.13.0 installed here`."""
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def num_by_status(self) -> Mapping[Status, int]:
        """Number of rows of each status, every status present."""
        counts = Counter(row.status for row in self.rows)
        return {status: counts[status] for status in STATUSES}

    @property
    def verdict(self) -> str:
        """One line: how many of the APIs or operators run on the NPU, and what becomes of the others."""
        counts = self.num_by_status
        total = len(self.rows) - counts["host"]
        word = "API" if self.kind == "source" else "operator"
        if not total:
            return f"No PyTorch {word} that needs a device is used."
        on_device = sum(counts[status] for status in RUNS_ON_DEVICE)
        run = "runs" if on_device == 1 else "run"
        rest = [_others(counts[status], status) for status in _ELSEWHERE if counts[status]]
        tail = f"; {', '.join(rest)}" if rest else ""
        return f"{on_device} of {total} {word}{'' if total == 1 else 's'} {run} on {self.soc}{tail}."


_ELSEWHERE: tuple[Status, ...] = ("fallback", "unsupported", "unverified")


def _others(count: int, status: Status) -> str:
    """Return `2 fall back to the host`, `1 is unsupported`."""
    is_one = count == 1
    texts: Mapping[str, str] = {
        "fallback": "falls back to the host" if is_one else "fall back to the host",
        "unsupported": "is unsupported" if is_one else "are unsupported",
        "unverified": "is not verified by the vendor" if is_one else "are not verified by the vendor",
    }
    return f"{count} {texts[status]}"
