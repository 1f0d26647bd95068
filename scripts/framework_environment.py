"""Makes an environment with another framework, Jumar, and no PyTorch: `python scripts/framework_environment.py NAME`.

NAME is `mindspore`, `tensorflow` (2.15, the last with Estimator) or `tensorflow-2.21`. The environment is `.NAME` in
the project's folder, or `--path DIR`. The tests that need the framework run in it. 1 to 3 GB, and a minute or two.
An environment that is there already is brought up to date.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = {
    "mindspore": ("mindspore", "mindspore"),
    "tensorflow": ("tensorflow", "estimator,tf2onnx"),
    "tensorflow-2.21": ("tensorflow", "tensorflow,tf2onnx"),
}
"""Name of the environment -> the module that is tried, the extras of Jumar that bring it."""


def main() -> int:
    """Make the environment and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=FRAMEWORKS, help="which framework")
    parser.add_argument("--path", type=Path, help="where to make it; .NAME in the project's folder without it")
    options = parser.parse_args()
    module, extras = FRAMEWORKS[options.name]
    folder = options.path or ROOT / f".{options.name}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-e", f"{ROOT}[{extras}]"], check=True)
    asked = f"import {module}, jumar; print({module}.__version__)"
    done = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True)
    sys.stdout.write(f"{module} {done.stdout.split()[-1]}: {python}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
