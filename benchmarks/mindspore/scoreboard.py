"""Faults planted in MindSpore networks, and what `jumar compare` names beside the same networks in PyTorch.

    python benchmarks/mindspore/scoreboard.py --mindspore PYTHON

PYTHON has MindSpore and Jumar (`python scripts/framework_environment.py mindspore` makes one). Writes
`docs/mindspore-scoreboard.md` and `benchmarks/mindspore/scoreboard.json`. About 6 minutes on two cores.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from jumar.comparison.verdict.compare import compare

HERE = Path(__file__).resolve().parent
NETWORKS = ("cnn", "transformer", "lstm", "unet", "wide")
FORMS = ("cell", "model", "function", "operation")
SEEDS = (0, 1)

OPTIMIZER, DATA = "optimizer", "data"
EXPECTED = {
    "cnn": {
        "batch norm eps": "bn1", "batch norm momentum": "bn1", "gelu form": "act", "padding mode": "conv1",
        "same padding of a stride": "conv2", "ceil mode": "pool", "evaluated batch norm": "bn2",
        "sum for mean": "CrossEntropyLoss", "missing bias": "conv1", "transposed weight": "fc",
        "default initialiser": "conv2", "learning rate": OPTIMIZER, "momentum": OPTIMIZER, "clipped activation": "",
        "other data": DATA,
    },
    "transformer": {
        "layer norm eps": "block1.norm1", "gelu form": "block1.act", "dropout probability": "block1.drop",
        "softmax axis": "block1.attention.softmax", "attention scale": "block1.attention", "norm after": "block1",
        "lost residual": "block1", "position off by one": "", "missing bias": "block1.attention.out",
        "transposed weight": "block1.attention.query", "weight decay on norms": OPTIMIZER,
        "sum for mean": "CrossEntropyLoss", "default initialiser": "block1.up", "label smoothing": "CrossEntropyLoss",
    },
    "lstm": {
        "layer norm eps": "norm", "missing bias": "lstm", "batch first": "lstm", "last state": "",
        "adam eps": OPTIMIZER, "adam eps place": OPTIMIZER, "adam beta2": OPTIMIZER, "default initialiser": "fc",
        "learning rate": OPTIMIZER, "transposed weight": "lstm",
    },
    "unet": {
        "batch norm momentum": "norm1", "group norm eps": "norm2", "number of groups": "norm2", "slope": "act2",
        "relu6": "act1", "max for average": "pool", "dilation": "down2", "order of joined parts": "",
        "sum for mean": "MSELoss", "momentum": OPTIMIZER, "default initialiser": "down2", "frozen parameter": "down2",
    },
    "wide": {
        "layer norm eps": "norm", "order of joined parts": "", "hard sigmoid": "", "missing bias": "fc3",
        "adam eps": OPTIMIZER, "adam beta2": OPTIMIZER, "sum for mean": "BCEWithLogitsLoss",
        "weight decay": OPTIMIZER, "default initialiser": "fc2", "swapped tables": "user",
    },
}  # fmt: skip
"""By network and fault: the module that is to be named (empty: the model's own code), the optimizer, or the data."""


def run(command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOG_v": "3"}
    subprocess.run(command, check=True, capture_output=True, env=environment)


def record(python, out, script, *arguments):
    run([python, "-m", "jumar", "record", "-o", str(out), "--device", "cpu", str(HERE / script), *map(str, arguments)])


def named(answer):
    """Return what an answer names: a module's path, the optimizer, the data, or why the runs differ."""
    if any(finding.code == "JM302" for finding in answer.findings):
        return DATA
    first = answer.first_divergence
    if first is not None:
        return OPTIMIZER if first.phase == "optimizer" else first.module_path
    layers = next((finding for finding in answer.findings if finding.code == "JM319"), None)
    if answer.status == "differ" and layers is not None:
        return layers.where.module_path
    return answer.status


def outcome(wanted, found):
    if found == wanted:
        return "named exactly"
    if found == "agree":
        return "missed"
    inside = wanted not in {OPTIMIZER, DATA} and found.startswith(f"{wanted}.") if wanted else False
    around = wanted not in {OPTIMIZER, DATA} and found not in {OPTIMIZER, DATA} and wanted.startswith(f"{found}.")
    return "module around it" if inside or around else "false alarm"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mindspore", required=True, metavar="PYTHON", help="Python with MindSpore and Jumar")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        root = Path(folder)
        for seed in SEEDS:
            for network in NETWORKS:
                record(sys.executable, root / f"{network}-{seed}", "torch_side.py", network, seed,
                       root / f"{network}-{seed}.npz")  # fmt: skip
        cases = [(network, seed, form, "") for network in NETWORKS for seed in SEEDS for form in FORMS]
        cases += [
            (network, seed, FORMS[place % len(FORMS)], fault)
            for seed in SEEDS
            for network in NETWORKS
            for place, fault in enumerate(EXPECTED[network])
        ]
        rows = list(pool.map(lambda case: judge(options.mindspore, root, *case), cases))
    publish(rows, options.mindspore)


def judge(python, root, network, seed, form, fault):
    out = root / f"{network}-{seed}-{form}-{fault.replace(' ', '_')}"
    weights = root / f"{network}-{seed}.npz"
    record(python, out, "mindspore_side.py", network, weights, form, *([fault] if fault else []))
    answer = compare(root / f"{network}-{seed}", out)
    found = named(answer)
    causes = sorted({finding.code for finding in answer.findings} & {"JM302", "JM313", "JM319"})
    wanted = EXPECTED[network].get(fault, "agree")
    row = {"network": network, "seed": seed, "form": form, "fault": fault, "wanted": wanted, "found": found,
           "outcome": outcome(wanted, found) if fault else ("agree" if answer.status == "agree" else "false alarm"),
           "causes": causes}  # fmt: skip
    sys.stderr.write(f"{network} {seed} {form} {fault or 'healthy'}: {row['outcome']} ({found})\n")
    return row


def publish(rows, python):
    faults, healthy = [row for row in rows if row["fault"]], [row for row in rows if not row["fault"]]
    counts = {kind: sum(row["outcome"] == kind for row in faults)
              for kind in ("named exactly", "module around it", "missed", "false alarm")}  # fmt: skip
    asked = "import importlib.metadata as m; print(m.version('mindspore'))"
    mindspore = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    versions = {"mindspore": mindspore, "torch": version("torch"), "python": platform.python_version()}
    alarms = sum(row["outcome"] != "agree" for row in healthy)
    summary = {"versions": versions, "faults": len(faults), **counts, "healthy": len(healthy), "false alarms": alarms}
    (HERE / "scoreboard.json").write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    lines = [
        "# MindSpore beside PyTorch: planted faults, and what `jumar compare` names",
        "",
        "Written by `python benchmarks/mindspore/scoreboard.py --mindspore PYTHON`; not to be edited. Five networks",
        "train for two steps in PyTorch and, with the same weights and batches, in MindSpore: by `TrainOneStepCell`,",
        "`Model.train`, `value_and_grad` or `GradOperation`. Each fault is planted in the MindSpore side. `compare`",
        "runs with its default settings on recordings with default values; operators share no names.",
        "",
        "- **named exactly**: the module in which the fault sits, the model itself where the fault is in its own code,",
        "  the optimizer where its settings or its formula differ, the data where they differ.",
        "- **cause**: the finding that says what differs: JM319 a layer, JM313 an optimizer, JM302 data.",
        "",
        f"MindSpore {versions['mindspore']}, torch {versions['torch']}, Python {versions['python']}, CPU, "
        f"{len(SEEDS)} seeds.",
        "",
        "| runs with a fault | named exactly | module around it | missed | false alarm | healthy pairs | alarms |",
        "|---|---|---|---|---|---|---|",
        f"| {len(faults)} | {counts['named exactly']} ({counts['named exactly'] / len(faults):.1%}) | "
        f"{counts['module around it']} | {counts['missed']} | {counts['false alarm']} | {len(healthy)} | {alarms} |",
        "",
        "| network | fault | to be named | outcome | cause |",
        "|---|---|---|---|---|",
    ]
    for network in NETWORKS:
        for fault, wanted in EXPECTED[network].items():
            of = [row for row in faults if (row["network"], row["fault"]) == (network, fault)]
            shown = "; ".join(dict.fromkeys(
                row["outcome"] + ("" if row["outcome"] == "named exactly" else f": {row['found']}") for row in of
            ))  # fmt: skip
            causes = ", ".join(sorted({cause for row in of for cause in row["causes"]})) or "–"
            lines.append(f"| {network} | {fault} | {wanted or 'the model'} | {shown} | {causes} |")
    (HERE.parents[1] / "docs" / "mindspore-scoreboard.md").write_text("\n".join(lines) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
