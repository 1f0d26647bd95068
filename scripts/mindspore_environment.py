"""Makes an environment with MindSpore and Jumar, and without PyTorch: `python scripts/mindspore_environment.py`.

It is `.mindspore` in the project's folder, or `--path DIR`. The tests that need MindSpore run in it. About 3 GB, and a
minute or two. An environment that is there already is brought up to date.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Make the environment and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path, default=ROOT / ".mindspore", help="where to make it")
    options = parser.parse_args()
    python = options.path / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(options.path)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-e", f"{ROOT}[mindspore]"], check=True)
    asked = "import mindspore, jumar; print(mindspore.__version__)"
    done = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True)
    sys.stdout.write(f"MindSpore {done.stdout.split()[-1]}: {python}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
