"""What became of one source: converted, skipped, or failed; each with its findings."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The source was read and its edits (maybe none) were made."""

    path: str
    before: bytes
    after: bytes
    findings: tuple[Finding, ...] = ()
    num_edits: int = 0

    @property
    def changed(self) -> bool:
        """Whether a byte differs."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """The source was left as it is, for a good reason."""

    path: str
    before: bytes
    reason: str
    findings: tuple[Finding, ...] = ()
    num_edits: int = 0

    @property
    def after(self) -> bytes:
        """The unchanged bytes."""
        return self.before

    @property
    def changed(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The source could not be converted; `error` is one sentence."""

    path: str
    before: bytes
    error: str
    findings: tuple[Finding, ...] = ()
    num_edits: int = 0

    @property
    def after(self) -> bytes:
        """The unchanged bytes."""
        return self.before

    @property
    def changed(self) -> bool:
        """Never."""
        return False


Outcome = Success | Skip | Failure
