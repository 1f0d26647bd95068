"""Faults planted in TensorFlow networks, and what `jumar compare` names beside the same networks in PyTorch.

    python benchmarks/tensorflow/scoreboard.py --tensorflow PYTHON

PYTHON has TensorFlow and Jumar (`python scripts/framework_environment.py tensorflow` makes one). Writes
`docs/tensorflow-scoreboard.md` and `benchmarks/tensorflow/scoreboard.json`. About 12 minutes on two cores.
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
sys.path.insert(0, str(HERE.parent / "mindspore"))

from scoreboard import DATA, OPTIMIZER, named, outcome  # noqa: E402 - of the folder that is named above

NETWORKS = ("cnn", "transformer", "unet", "wide")
FORMS = ("loop", "function", "fit")
SEEDS = (0, 1)
LOSS = "the loss"
EXPECTED = {
    "cnn": {
        "batch norm eps": "bn1", "batch norm momentum": "bn1", "gelu form": "act", "padding mode": "conv1",
        "same padding of a stride": "conv2", "ceil mode": "pool", "evaluated batch norm": "bn2",
        "missing bias": "conv1",
        "transposed weight": "fc", "default initialiser": "conv2", "learning rate": OPTIMIZER, "momentum": OPTIMIZER,
        "clipped activation": "", "other data": DATA, "sum for mean": LOSS,
    },
    "transformer": {
        "layer norm eps": "block1.norm1", "gelu form": "block1.act", "dropout probability": "block1.drop",
        "softmax axis": "block1.attention.softmax", "attention scale": "block1.attention", "norm after": "block1",
        "lost residual": "block1", "position off by one": "", "missing bias": "block1.attention.out",
        "transposed weight": "block1.attention.query", "default initialiser": "block1.up", "learning rate": OPTIMIZER,
        "sum for mean": LOSS,
    },
    "unet": {
        "batch norm momentum": "norm1", "group norm eps": "norm2", "number of groups": "norm2", "slope": "act2",
        "relu6": "act1", "max for average": "pool", "dilation": "down2", "order of joined parts": "",
        "momentum": OPTIMIZER, "default initialiser": "down2", "frozen parameter": "down2", "sum for mean": LOSS,
    },
    "wide": {
        "layer norm eps": "norm", "order of joined parts": "", "hard sigmoid": "", "missing bias": "fc3",
        "adam eps": OPTIMIZER, "adam beta2": OPTIMIZER, "default initialiser": "fc2", "swapped tables": "user",
        "sum for mean": LOSS,
    },
}  # fmt: skip
"""By network and fault: the module that is to be named (empty: the model's own code), the optimizer, the data, or the
loss, which is no layer in Keras."""


def record(python, out, script, *arguments):
    command = [python, "-m", "jumar", "record", "-o", str(out), "--device", "cpu", str(script), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run(command, check=True, capture_output=True, env=environment)


def found_in(answer):
    """Return what an answer names; the loss where it differs and no calculation before it does."""
    found = named(answer)
    codes = {finding.code for finding in answer.findings}
    is_after = answer.first_divergence is None or answer.first_divergence.phase == "backward"
    return LOSS if "JM305" in codes and is_after and found not in {DATA} else found


def judge(python, root, network, seed, form, fault):
    out = root / f"{network}-{seed}-{form}-{fault.replace(' ', '_')}"
    weights = root / f"{network}-{seed}.npz"
    record(python, out, HERE / "tensorflow_side.py", network, weights, form, *([fault] if fault else []))
    answer = compare(root / f"{network}-{seed}", out)
    wanted = EXPECTED[network].get(fault, "agree")
    found = found_in(answer)
    kind = outcome(wanted, found) if fault else ("agree" if answer.status == "agree" else "false alarm")
    causes = sorted({finding.code for finding in answer.findings} & {"JM302", "JM305", "JM313", "JM319"})
    row = {"network": network, "seed": seed, "form": form, "fault": fault, "wanted": wanted, "found": found,
           "outcome": kind, "causes": causes}  # fmt: skip
    sys.stderr.write(f"{network} {seed} {form} {fault or 'healthy'}: {kind} ({found})\n")
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", required=True, metavar="PYTHON", help="Python with TensorFlow and Jumar")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        root = Path(folder)
        torch_side = HERE.parent / "mindspore" / "torch_side.py"
        for seed in SEEDS:
            for network in NETWORKS:
                weights = root / f"{network}-{seed}.npz"
                record(sys.executable, root / f"{network}-{seed}", torch_side, network, seed, weights, 0)
        cases = [(network, seed, form, "") for network in NETWORKS for seed in SEEDS for form in FORMS]
        cases += [
            (network, seed, FORMS[(place + seed) % len(FORMS)], fault)
            for seed in SEEDS
            for network in NETWORKS
            for place, fault in enumerate(EXPECTED[network])
        ]
        rows = list(pool.map(lambda case: judge(options.tensorflow, root, *case), cases))
    publish(rows, options.tensorflow)


def publish(rows, python):
    faults, healthy = [row for row in rows if row["fault"]], [row for row in rows if not row["fault"]]
    kinds = ("named exactly", "module around it", "missed", "false alarm")
    counts = {kind: sum(row["outcome"] == kind for row in faults) for kind in kinds}
    asked = "import importlib.metadata as m; print(m.version('tensorflow'))"
    tensorflow = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    versions = {"tensorflow": tensorflow, "torch": version("torch"), "python": platform.python_version()}
    alarms = sum(row["outcome"] != "agree" for row in healthy)
    summary = {"versions": versions, "faults": len(faults), **counts, "healthy": len(healthy), "false alarms": alarms}
    (HERE / "scoreboard.json").write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    lines = [
        "# TensorFlow beside PyTorch: planted faults, and what `jumar compare` names",
        "",
        "Written by `python benchmarks/tensorflow/scoreboard.py --tensorflow PYTHON`; not to be edited. Four networks",
        "train for two steps in PyTorch and, with the same weights and batches, in TensorFlow: by a loop with",
        "`GradientTape`, by `tf.function`, or by Keras' `fit`. Each fault is planted in the TensorFlow side. `compare`",
        "runs with its default settings on recordings with default values; operators share no names.",
        "",
        "- **named exactly**: the module in which the fault sits, the model itself where the fault is in its own code,",
        "  the optimizer where its settings differ, the data where they differ, the loss where it alone differs.",
        "- **cause**: the finding that says what differs: JM319 a layer, JM313 an optimizer, JM302 data, JM305 a loss.",
        "",
        f"TensorFlow {versions['tensorflow']}, torch {versions['torch']}, Python {versions['python']}, CPU, "
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
    (HERE.parents[1] / "docs" / "tensorflow-scoreboard.md").write_text("\n".join(lines) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
