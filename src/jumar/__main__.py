"""`python -m jumar`: the command line, also where its folder is not on PATH."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Python has put the working folder first: a file json.py in it would be imported in the place of the library's.
if not getattr(sys.flags, "safe_path", False) and Path(sys.path[0]) != Path(__file__).absolute().parents[1]:
    # It is not taken out: a run puts the script's folder in the place of the first one.
    sys.path[0] = str(Path(os.__file__).parent)

from jumar.cli.main import run

run()
