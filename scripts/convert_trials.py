"""Convert real projects for both targets, prove each statically, print the rows of `docs/convert-trials.md`.

    python scripts/convert_trials.py FOLDER [NAME ...]

FOLDER holds one project a subfolder. Times are those of the processor, in one process and without a cache, so
that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from jumar.base.findings import Finding
from jumar.convert import Conversion, ConvertOptions, convert_tree
from jumar.convert.model.options import Target
from jumar.convert.verify import verify

_SEVERITIES = ("error", "warning", "advice", "info")


@dataclass(frozen=True, slots=True)
class Trial:
    """One project, converted for one target."""

    conversion: Conversion
    convert_s: float
    verify_s: float
    faults: tuple[Finding, ...]

    @property
    def left(self) -> Counter[str]:
        """Findings that changed nothing, by severity."""
        return Counter(f.severity.label for f in self.conversion.findings if not f.evidence.get("applied"))


def trial(root: Path, target: Target) -> Trial:
    """Convert and prove one project."""
    options = ConvertOptions(target=target)
    start = time.process_time()
    conversion = convert_tree(root, options, jobs=1, cache=False)
    middle = time.process_time()
    faults = verify(conversion, options, jobs=1)
    return Trial(conversion, middle - start, time.process_time() - middle, tuple(faults))


def main() -> None:
    """Print one row a project, and what the proof found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    for name in arguments.names or sorted(path.name for path in arguments.folder.iterdir() if path.is_dir()):
        trials = [trial(arguments.folder / name, target) for target in ("npu", "agnostic")]
        sys.stdout.write(_row(name, *trials) + "\n")
        for target, found in zip(("npu", "agnostic"), trials, strict=True):
            for fault in found.faults:
                sys.stdout.write(f"    {target}: {fault.code} {fault.where}: {fault.message}\n")
        sys.stdout.flush()


def _row(name: str, npu: Trial, agnostic: Trial) -> str:
    python = [outcome for outcome in npu.conversion.files if outcome.path.endswith(".py")]
    lines = sum(outcome.before.count(b"\n") for outcome in python)
    left = " / ".join(str(npu.left[severity]) for severity in _SEVERITIES)
    cells = [
        name,
        f"{len(python)} + {len(npu.conversion.files) - len(python)}",
        f"{lines:,}",
        f"{npu.convert_s:.1f}",
        f"{npu.verify_s:.1f}",
        f"{len(npu.conversion.changed)} / {len(agnostic.conversion.changed)}",
        f"{npu.conversion.num_edits} / {agnostic.conversion.num_edits}",
        left,
        f"{len(npu.faults)} / {len(agnostic.faults)}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
