"""A finished conversion, for everything that tells of it."""

from __future__ import annotations

import platform
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar import __version__
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing
from jumar.convert import Conversion
from jumar.convert.facts.framework import framework_in
from jumar.convert.reports.names import ReportNames, report_names
from jumar.convert.reports.unsupported import Unsupported
from jumar.show.convert.request import Job

if TYPE_CHECKING:
    from jumar.convert.reports.tensorflow_apis import Api

_REFUSED = "JM181"
"""The rule that says why an entry script stays on one device."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished conversion, for everything that tells of it."""

    job: Job
    conversion: Conversion
    folder: Path | None
    """Where it is written, None when it is not."""
    proof: tuple[Finding, ...]
    """What `--verify` and `--verify-run` say."""
    seconds: float

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the conversion and of its proof."""
        return (*self.conversion.findings, *self.proof)

    @cached_property
    def names(self) -> ReportNames:
        """What the reports are called."""
        if self.job.request.in_place:
            return ReportNames()
        files = (*(outcome.path for outcome in self.conversion.files), *self.conversion.others)
        return report_names({path.partition("/")[0] for path in files})

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that findings may name."""
        from jumar.base.rules import all_rules

        return tuple(all_rules())

    @cached_property
    def num_made(self) -> Mapping[str, int]:
        """Rule code to the number of its edits that were made."""
        return Counter(finding.code for finding in self.findings if finding.evidence.get("applied"))

    @cached_property
    def num_left(self) -> Mapping[Severity, int]:
        """Severity to the number of findings that ask for something, the worst first."""
        counts = Counter(finding.severity for finding in self.left)
        return {level: counts[level] for level in sorted(counts, reverse=True)}

    @cached_property
    def left(self) -> tuple[Finding, ...]:
        """What asks for something."""
        return left(self.findings)

    @cached_property
    def has_launcher(self) -> bool:
        """Whether the entry script trains on several devices, so that a launcher for it is written."""
        distributed = self.job.options.distributed
        if distributed is None or any(finding.code == _REFUSED for finding in self.findings):
            return False
        main = distributed.main.replace("\\", "/")
        return not any(failure.path == main for failure in self.conversion.failures)

    @cached_property
    def lacking(self) -> tuple[Unsupported, ...]:
        """APIs that the sources call, that the NPU does not have and that no finding names."""
        from jumar.show.convert.lacking import assessed

        return tuple(
            assessed(
                self.conversion, left(self.findings), release=self.job.options.release, cache=self.job.request.cache
            )
        )

    @cached_property
    def tensorflow(self) -> tuple[Api, ...]:
        """The names of TensorFlow and Horovod that the sources use; none where no file is TensorFlow's."""
        if not any(
            b"tensorflow" in outcome.before or b"horovod" in outcome.before for outcome in self.conversion.files
        ):
            return ()
        from jumar.convert.reports.tensorflow_apis import apis

        own = (outcome for outcome in self.conversion.files if framework_in(outcome.before) == "tensorflow")
        return tuple(apis(own))

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """What was asked for, with which versions."""
        options, request = self.job.options, self.job.request
        rules = options.user_rules
        given = {
            "input": str(Path(request.source).resolve()),
            "output": str(self.folder) if self.folder is not None else "",
            "target": options.target,
            "torch_version": options.release,
            "unsafe edits": "made" if options.unsafe else "",
            "device": "from the environment (-s)" if options.device_from_environment else "",
            "similar APIs": "replaced (-sim)" if options.similar else "",
            "user rules": f"{len(rules.rules)} of {rules.path}" if rules else "",
            "enabled": ", ".join(sorted(options.enable)),
            "disabled": ", ".join(sorted(options.disable)),
            "framework": options.framework,
            "entry of TensorFlow": options.tensorflow.main,
            "strategy of TensorFlow": options.tensorflow.strategy,
            "compat.v1": "for TensorFlow 2.6 (-c)" if options.tensorflow.compat else "",
            "several devices": f"{options.distributed.main}, model {options.distributed.model}"
            if options.distributed
            else "",
            "command": shlex.join(["jumar", *request.arguments]),
            "versions": f"jumar {__version__}, Python {platform.python_version()}",
        }
        return {name: text for name, text in given.items() if text}

    def numbers(self) -> dict[str, Any]:
        """Return the counts for documents."""
        conversion = self.conversion
        return {
            "num_files": len(conversion.files),
            "num_changed": len(conversion.changed),
            "num_failed": len(conversion.failures),
            "num_edits": conversion.num_edits,
            "num_left": {level.label: number for level, number in self.num_left.items()},
            "changed": [outcome.path for outcome in conversion.changed],
            "failed": [{"path": failure.path, "error": failure.error} for failure in conversion.failures],
        }


def left(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that ask for something."""
    return tuple(finding for finding in findings if is_left(finding))


def is_left(finding: Finding) -> bool:
    """Tell whether a finding asks for something: it was not converted, or needs a look after it was."""
    applied = bool(finding.evidence.get("applied"))
    return finding.severity >= (Severity.WARNING if applied else Severity.ADVICE)


def not_converted(conversion: Conversion) -> list[str]:
    """Return the line that names the sources of MindSpore, of which nothing is found because no rule is for them."""
    found = conversion.of_mindspore
    return [f"Not converted, because they are of MindSpore: {listing(found, 6)}"] if found else []
