"""The vendor's own operator tests on the emulated NPU: what passes, and what the others say.

    git clone https://gitcode.com/Ascend/op-plugin; git clone https://gitcode.com/Ascend/pytorch
    pip install expecttest parameterized scipy pandas einops ml_dtypes pyyaml
    python benchmarks/vendor op-plugin pytorch --results FILE.jsonl [--json FILE.json] [--markdown FILE.md]

Nothing of the tests is part of this project: they are read where they lie. Each file runs in a child process, forked
from one that has the device up, two at a time. A test has a limit of processor time, and a child one of memory. What
is in `--results` is not run again: end the benchmark and start it again at will. `--only` runs what it names anew.
`--json` keeps what its file says of other files: a run of some files, with a new `--results`, brings these up to date.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from child import Limits
from children import run_all
from outcomes import OF_THE_TEST, classify, disabled
from table import Row, markdown, published, read_rows, summary

FOLDERS = {
    "op-plugin": ("test/test_base_ops", "test/test_custom_ops"),
    "pytorch": ("test/nn", "test/npu", "test/contrib", "test/optim"),
}
"""By the name of a repository, the folders of its operator tests."""


def test_files(checkout: Path) -> list[tuple[str, Path]]:
    """Return folder and path of each test file of a checkout. Exits where there is none."""
    kind = "op-plugin" if (checkout / "op_plugin").is_dir() else "pytorch"
    found: list[tuple[str, Path]] = []
    for folder in FOLDERS[kind]:
        found += [(f"{kind} {folder}", path) for path in sorted((checkout / folder).rglob("test_*.py"))]
    if not found:
        sys.exit(f"{checkout} has none of the folders {', '.join(FOLDERS[kind])}: name a checkout of Ascend/{kind}.")
    return found


def bring_up(soc: str) -> None:
    """Bring the emulated NPU up, with what most test files import."""
    import torch

    from jumar.device import DevicePlan, activate

    torch.set_num_threads(1)
    plan = DevicePlan(real="never", soc=soc)
    os.environ.update(plan.to_environment(), OMP_NUM_THREADS="1")
    activate(plan)
    import torch.testing._internal.common_utils
    import torch_npu.testing.common_utils
    import torch_npu.testing.testcase  # noqa: F401  # so that forked children have it

    gc.freeze()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, nargs="+", help="checkouts of Ascend/op-plugin and Ascend/pytorch")
    parser.add_argument("--results", type=Path, required=True, help="JSON lines, one a test; appended to")
    parser.add_argument("--only", help="run only files whose path has this pattern, also those that have results")
    parser.add_argument("--every", type=int, default=1, help="take every Nth file only")
    parser.add_argument("--soc", default="Ascend910B1")
    parser.add_argument("--at-once", type=int, default=2, help="files that run at a time")
    parser.add_argument("--limit", type=int, default=20, help="processor seconds of a test")
    parser.add_argument("--memory", type=int, default=14, help="GiB of address space of a child")
    parser.add_argument("--json", type=Path, help="write the counts there; files that did not run keep what it has")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    return parser.parse_args()


def main() -> None:
    options = parse()
    files = [item for checkout in options.checkouts for item in test_files(checkout.resolve())][:: options.every]
    folder_of = {path: folder for folder, path in files}
    known = {row.file for row in read_rows(options.results)}
    wanted = [path for folder, path in files if _name(folder, path) not in known]
    if options.only:
        wanted = [path for _, path in files if re.search(options.only, str(path))]
    listed = frozenset().union(*(disabled(checkout) for checkout in options.checkouts))
    bring_up(options.soc)
    limits = Limits(processor_s=options.limit, silent_s=20 * options.limit, memory_bytes=options.memory * 2**30)
    with tempfile.TemporaryDirectory() as scratch, options.results.open("a", encoding="utf-8") as results:
        for number, (path, found) in enumerate(run_all(wanted, limits, options.at_once, Path(scratch)), 1):
            folder = folder_of[path]
            for test, row in found.items() or {"": {"outcome": "skipped", "text": "has no test"}}.items():
                kind = classify(row)
                if test in listed and kind not in OF_THE_TEST:
                    kind = "disabled"
                line = Row(folder, _name(folder, path), test, kind, row["text"], row.get("at", ""))
                results.write(json.dumps(line._asdict()) + "\n")
            results.flush()
            sys.stderr.write(f"\r{number} of {len(wanted)} files ")
    rows = read_rows(options.results)
    sys.stdout.write("\n" + summary(rows))
    before = json.loads(options.json.read_text("utf-8")) if options.json and options.json.exists() else None
    found = published(rows, options.soc, time.strftime("%Y-%m-%d"), before)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(markdown(found), encoding="utf-8")


def _name(folder: str, path: Path) -> str:
    """Return a file's name from its repository on."""
    repository, _, inside = folder.partition(" ")
    return f"{repository}/{inside}{str(path).rpartition(inside)[2]}"


if __name__ == "__main__":
    main()
