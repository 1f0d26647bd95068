"""`Hit`: one error in one file. `FileReport`: what one file holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from jumar.advise.doctor.entries import Role, Signature
from jumar.advise.doctor.logs.lines.judgement import Judgement
from jumar.advise.doctor.logs.tracebacks import Traceback
from jumar.base.findings import Severity


@dataclass(slots=True, kw_only=True)
class Hit:
    """The first occurrence of one error in one file, and how many lines of the file hold it."""

    path: Path
    line: int
    text: str
    signature: Signature | None = None
    code: str = ""
    module: str = ""
    """Module of a plog line that nothing else explains (`GE`, `RUNTIME`, `HCCL`)."""
    traceback: Traceback | None = None
    time: datetime | None = None
    rank: int | None = None
    ranks: set[int] = field(default_factory=set)
    """All ranks that print it in this file, as far as lines or the file's name tell."""
    count: int = 1
    judgement: Judgement | None = None
    """Of a line that only names an error: by its words, and neither by the table nor by a traceback."""
    writer: str = ""
    """Who printed it, as a launcher's prefix says: `rank3`, `train pid=4711, ip=…`; empty where none does."""
    around: tuple[str, ...] = ()
    """The lines around an error that nothing explains, itself among them."""

    @property
    def role(self) -> Role:
        """The signature's role; an error without a signature is a symptom."""
        return "symptom" if self.signature is None else self.signature.role

    @property
    def severity(self) -> Severity:
        """The signature's severity, or that of the words; else error."""
        if self.judgement is not None:
            return self.judgement.severity
        return Severity.ERROR if self.signature is None else self.signature.severity

    @property
    def is_word_only(self) -> bool:
        """The line names an error; neither the table nor a traceback or the vendor's form says that it is one."""
        return self.judgement is not None


@dataclass(slots=True, kw_only=True)
class FileReport:
    """What one file holds."""

    path: Path
    rank: int | None
    num_lines: int = 0
    size_bytes: int = 0
    """Of what was read, unpacked."""
    first_time: datetime | None = None
    last_time: datetime | None = None
    last_line: str = ""
    """The last line that is not blank."""
    hits: list[Hit] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    """Lines in which a launcher says that it starts the run again."""
    meetings: dict[str, datetime] = field(default_factory=dict)
    """Moments that all ranks print at once, with this log's time of them."""
    is_unread: bool = False
    """Nothing of it could be read; a note says why."""
    notes: list[str] = field(default_factory=list)
    """What could not be read, and why: whole sentences."""
