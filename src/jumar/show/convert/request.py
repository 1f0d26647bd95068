"""What a call of `jumar convert` asks for, and what may not be asked for together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import UsageError

if TYPE_CHECKING:
    from jumar.convert.model.options import ConvertOptions

STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call, checked when built (UsageError in one sentence)."""

    source: str
    """A file, a folder, or `-`."""
    more_sources: tuple[str, ...] = ()
    """With `check`: further files or folders."""
    out: Path | None = None
    in_place: bool = False
    dry_run: bool = False
    diff: bool = False
    force: bool = False
    stdin_filename: str | None = None
    exclude: tuple[str, ...] = ()
    verify: bool = False
    verify_run: str | None = None
    steps: int | None = None
    check: bool = False
    baseline: Path | None = None
    write_baseline: bool = False
    sarif: Path | None = None
    fail_on: str | None = None
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    jobs: int | None = None
    cache: bool = True
    is_distributed: bool = False
    arguments: tuple[str, ...] = ()
    """The words of the call, for the log."""

    def __post_init__(self) -> None:
        for first, second, why in self._contradictions():
            raise UsageError(f'"{first}" and "{second}" cannot stand together, because {why}. Leave one out.')
        for name, other in self._lonely():
            raise UsageError(f'"{name}" has an effect only with {other}. Add it, or leave {name} out.')

    @property
    def sources(self) -> tuple[str, ...]:
        """Everything that is looked at."""
        return (self.source, *self.more_sources)

    @property
    def is_stdin(self) -> bool:
        """Whether the source comes from stdin."""
        return self.source == STDIN

    @property
    def writes(self) -> bool:
        """Whether converted sources are written to files."""
        looks_only = self.dry_run or self.check or self.is_stdin
        return not looks_only and (not self.diff or self.in_place or self.out is not None)

    @property
    def severity(self) -> str:
        """The least severity that makes the exit code 1."""
        return self.fail_on or "error"

    def _given(self) -> dict[str, bool]:
        """Return the options that may contradict others, with whether they were given."""
        return {
            "-o": self.out is not None,
            "--in-place": self.in_place,
            "--dry-run": self.dry_run,
            "--diff": self.diff,
            "--force": self.force,
            "--exclude": bool(self.exclude),
            "--verify": self.verify,
            "--verify-run": self.verify_run is not None,
            "--check": self.check,
            "--sarif": self.sarif is not None,
            "--fail-on": self.fail_on is not None,
            "--json": self.as_json,
            "--jobs": self.jobs is not None,
            "--no-cache": not self.cache,
            "distributed": self.is_distributed,
        }

    def _contradictions(self) -> Sequence[tuple[str, str, str]]:
        given = self._given()

        def among(first: str, seconds: Sequence[str], why: str) -> list[tuple[str, str, str]]:
            return [(first, second, why) for second in seconds if given[second]]

        found: list[tuple[str, str, str]] = []
        if self.is_stdin:
            files = ("-o", "--in-place", "--dry-run", "--force", "--exclude", "--check", "--verify", "--verify-run")
            why = "a source from stdin goes to stdout and leaves no files"
            found += among("-i -", (*files, "--sarif", "--jobs", "--no-cache", "distributed"), why)
            found += among("-i -", ("--json",) if self.diff else (), "stdout takes either the diff or one document")
        if self.check:
            files = ("-o", "--in-place", "--dry-run", "--diff", "--force", "--verify", "--verify-run", "distributed")
            found += among("--check", files, "a check converts nothing")
            found += among("--check", ("--fail-on",), "a check fails on every new use")
        if self.in_place:
            found += among("--in-place", ("distributed",), "the launch script needs a folder of its own")
        if self.quiet:
            found += [("--quiet", "--verbose", "they ask for the opposite")] if self.verbose else []
            found += among("--quiet", ("--json",), "the document is all that --json prints")
        if self.verbose:
            found += among("--verbose", ("--json",), "the document has everything already")
        return found

    def _lonely(self) -> Sequence[tuple[str, str]]:
        found = []
        if self.stdin_filename is not None and not self.is_stdin:
            found.append(("--stdin-filename", '"-i -"'))
        if self.baseline is not None and not self.check:
            found.append(("--baseline", "--check"))
        if self.write_baseline and not self.check:
            found.append(("--write-baseline", "--check"))
        elif self.write_baseline and self.baseline is None:
            found.append(("--write-baseline", "--baseline FILE"))
        if self.steps is not None and self.verify_run is None:
            found.append(("--steps", "--verify-run"))
        if self.force and not self.writes and not self.dry_run:
            found.append(("--force", "-o or --in-place"))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request with the options of its conversion."""

    request: Request
    options: ConvertOptions
