"""`read_operators_file`: the file that `aoe_config_file` names, with the operators that are tuned."""

from __future__ import annotations

import json
from pathlib import Path

from jumar.base.errors import ScriptError
from jumar.tfadapter.options import UNKNOWN, Setting
from jumar.tfadapter.source.script import ScriptOptions

OPTIONS = frozenset({"aoe_config_file", "aoe_config.aoe_config_file"})
"""Options that name the file."""


def read_operators_file(path: Path) -> ScriptOptions:
    """Return the keys of the file. Raises ScriptError where it cannot be read or is no JSON object."""
    try:
        document = json.loads(path.read_text("utf-8", errors="replace"))
    except OSError as error:
        raise ScriptError(f"{path} cannot be read ({error.strerror}). Name a file that you may read.") from error
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"{path} must be JSON ({error}). Correct it, and run again.") from error
    if not isinstance(document, dict):
        raise ScriptError(f"{path} must be a JSON object with tune_ops_name or tune_ops_type. Correct it.")
    found = ScriptOptions(path)
    for name, value in document.items():
        known = UNKNOWN if isinstance(value, (list, dict)) else value
        found.settings.append(Setting("aoe", name, known, None, path, None, f"{path}:aoe"))
    return found
