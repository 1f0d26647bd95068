"""`python -m jumar`: the command line, also where its folder is not on PATH."""

from __future__ import annotations

from jumar.cli.main import run

run()
