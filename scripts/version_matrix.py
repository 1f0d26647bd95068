"""Run Jumar in several environments and write the table of docs/versions.md.

    python scripts/version_matrix.py [--every N] [--reference RECORDING] PYTHON ... [--suite FOLDER ...]

Each PYTHON is the interpreter of a virtual environment that has a PyTorch, Jumar's dependencies and pytest; Jumar is
taken from this repository. In each, one after the other: the main job (`jumar port examples/imagenet/train.py`), the
quick tests of some folders, every Nth operator of PyTorch's own database on the emulated NPU, and a recording of an
example, which is compared with that of the first environment. What ran before in an environment stays in the table
where it is not run again (`--only`). Each verdict keeps its date, and a failed test its name, in `versions.json`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "versions.md"
DATA = ROOT / "benchmarks" / "versions.json"
EXAMPLE = ROOT / "examples" / "accuracy" / "train.py"
MARK = "<!-- the table -->\n"
Verdict = dict[str, str | list[str]]
FACTS = """
import json, platform, sys, torch
build = "CUDA " + torch.version.cuda if torch.version.cuda else "CPU"
print(json.dumps([torch.__version__.partition("+")[0], build, platform.python_version(), torch.cuda.is_available()]))
"""


def run(python: str, arguments: list[str], limit_s: int = 3600) -> subprocess.CompletedProcess[str]:
    """Run an interpreter with Jumar from this repository; a run over the limit is one that failed."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'benchmarks'}"}
    command = [python, *arguments]
    try:
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"took more than {limit_s} s")


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a run wrote."""
    return (done.stdout.strip() or done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]


def main_job(python: str, folder: Path, _options: argparse.Namespace) -> Verdict:
    """Port the shipped example; exit code 1 means findings, and the verdict says which."""
    done = run(python, ["-m", "jumar", "port", "-o", str(folder / "port"), "examples/imagenet/train.py"])
    return {"says": port_verdict(done.stdout) or f"failed: {last_line(done)}"}


def port_verdict(output: str) -> str | None:
    """Return what `jumar port` says that it compared, or None where it compared nothing."""
    verdict = re.search(r"train\.py trains on the NPU(?: \(| as on the reference: )(.*?) compared", output)
    equal = ", bit for bit" if "bit for bit the same" in output else ""
    return f"{verdict[1]}{equal}" if verdict else None


def quick_suite(python: str, folder: Path, options: argparse.Namespace) -> Verdict:
    """Run the quick tests of the folders asked for."""
    command = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "--tb=short", "-rfE"]
    done = run(python, [*command, *options.suite])
    log = folder / "suite.log"
    log.write_text(done.stdout + done.stderr, "utf-8")
    sys.stderr.write(f"{log}: {last_line(done)}\n")
    return suite_verdict(done.stdout, options.suite)


def suite_verdict(output: str, folders: list[str]) -> Verdict:
    """Return pytest's count with the folders that were run, and the tests that failed."""
    last = (output.strip().splitlines() or [""])[-1]
    count = re.search(r"(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s", last)
    if count is None:
        return {"says": "did not end"}
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return {"says": f"{count[1]} ({' '.join(folders)})", **({"failed": failed} if failed else {})}


def database(python: str, folder: Path, options: argparse.Namespace) -> Verdict:
    """Compare every Nth operator of PyTorch's database with the CPU, bit for bit."""
    target = folder / "operators.json"
    arguments = ["benchmarks/proof", "--part", "operators", "--every", str(options.every), "--json", str(target)]
    done = run(python, arguments)
    if not target.exists():
        return {"says": f"failed: {last_line(done)}"}
    found = json.loads(target.read_text("utf-8"))
    found = found.get("operators", found)
    return {"says": database_verdict(found)}


def database_verdict(found: dict[str, int]) -> str:
    """Return how many operators agree, are wrong, and are none that the emulated NPU has, as it says itself."""
    rest = {"wrong": found["num_wrong"], "not emulated": found["num_not_emulated"]}
    counts = [
        f"{found['num_agreeing']} of {found['num_tried']} agree",
        *(f"{n} {what}" for what, n in rest.items() if n),
    ]
    return ", ".join(counts)


def recording(python: str, folder: Path, options: argparse.Namespace) -> Verdict:
    """Record an example, and compare the recording with that of the first environment there."""
    out = folder / "recording"
    done = run(python, ["-m", "jumar", "record", "-o", str(out), "--steps", "0:2", "--device", "cpu", str(EXAMPLE)])
    if done.returncode not in (0, 1):
        return {"says": f"failed: {last_line(done)}"}
    if options.reference is None:
        options.reference = out
        return {"says": "the reference"}
    done = run(options.pythons[0], ["-m", "jumar", "compare", str(options.reference), str(out)])
    return {"says": done.stdout.strip().splitlines()[0] if done.stdout.strip() else f"failed: {last_line(done)}"}


PARTS: dict[str, Callable[[str, Path, argparse.Namespace], Verdict]] = {
    "main job": main_job,
    "quick suite": quick_suite,
    "operators": database,
    "recording": recording,
}


def row_of(python: str, options: argparse.Namespace) -> tuple[str, dict[str, Verdict]]:
    """Return the name of an environment and what the parts asked for said there."""
    version, build, interpreter, has_gpu = json.loads(last_line(run(python, ["-c", FACTS], 300)))
    name = f"{version} | {build}{', a GPU' if has_gpu else ''} | {interpreter}"
    folder = Path(tempfile.mkdtemp(prefix=f"jumar-versions-{version}-"))
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return name, {part: {**PARTS[part](python, folder, options), "date": today} for part in options.only or PARTS}


def table(rows: dict[str, dict[str, Verdict]]) -> str:
    """Return the rows as a table, by version; a row made on several days names the first and the last."""
    lines = [f"| torch | build | Python | {' | '.join([*PARTS, 'date'])} |", "|---" * (len(PARTS) + 4) + "|"]
    for name in sorted(rows, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]):
        cells = [str(rows[name][part]["says"]) if part in rows[name] else "not run" for part in PARTS]
        dates = sorted({str(verdict["date"]) for verdict in rows[name].values()})
        lines.append(f"| {' | '.join([name, *cells, ' to '.join(dict.fromkeys([dates[0], dates[-1]]))])} |")
    return "\n".join(lines)


def page_with(page: str, rows: dict[str, dict[str, Verdict]]) -> str:
    """Return the page with these rows in the place of its table."""
    before, mark, _ = page.partition(MARK)
    return f"{before}{mark}{table(rows)}\n"


def main() -> None:
    """Run what is asked for and write the data and the table below its mark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--suite", nargs="+", default=["tests"], metavar="FOLDER")
    parser.add_argument("--every", type=int, default=20, metavar="N")
    parser.add_argument("--reference", type=Path, metavar="RECORDING", help="compare with it, not with the first")
    parser.add_argument("--only", action="append", choices=list(PARTS))
    options = parser.parse_args()
    rows = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    for python in options.pythons:
        name, found = row_of(python, options)
        rows[name] = {**rows.get(name, {}), **found}
        DATA.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        TARGET.write_text(page_with(TARGET.read_text("utf-8"), rows), "utf-8")


if __name__ == "__main__":
    main()
