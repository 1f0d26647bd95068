"""`Outcome` of one source: `Success`, `Skip` or `Failure`, each with its findings."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What every outcome says of its source."""

    path: str
    before: bytes
    findings: tuple[Finding, ...] = ()
    num_edits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Untouched(_Read):
    """The source keeps its bytes."""

    @property
    def after(self) -> bytes:
        """The unchanged bytes."""
        return self.before

    @property
    def changed(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Success(_Read):
    """The source was read and its edits (maybe none) were made."""

    after: bytes

    @property
    def changed(self) -> bool:
        """Whether a byte differs."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(_Untouched):
    """The source was left as it is, for a good reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(_Untouched):
    """The source could not be converted; `error` is one sentence."""

    error: str


Outcome = Success | Skip | Failure
