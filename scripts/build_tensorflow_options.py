"""Writes docs/tensorflow-options.md from the table of options: `python scripts/build_tensorflow_options.py`.

`--check` writes nothing and exits with 1 when the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jumar.tfadapter.options import Option, Style, options_of

PAGE = Path(__file__).parents[1] / "docs" / "tensorflow-options.md"
TITLES: dict[Style, str] = {
    "session": 'Sessions: `custom_op.parameter_map["NAME"]`',
    "estimator": "Estimator: arguments of `NPURunConfig`",
    "dump_config": "Arguments of `DumpConfig`",
    "profiling_config": "Arguments of `ProfilingConfig`",
    "memory_config": "Arguments of `MemoryConfig`",
    "npu_device": "TensorFlow 2: attributes of `npu_device.global_options()`",
    "aoe": "Keys of the file that `aoe_config_file` names",
    "environment": "Environment variables of tuning",
    "command": "Options of `aoe` and `atc` that must be as in the script",
}
KINDS = {"s": "text", "i": "int", "b": "bool", "f": "float", "o": "object"}
EFFECTS = {"runs": "does what it says", "checked": "checked", "none": "–"}
HEAD = """# Options for TensorFlow on an NPU

Made from `src/jumar/tfadapter/options/options.json` by `scripts/build_tensorflow_options.py`. `jumar assess` and
`jumar doctor options` check scripts against it. A number names one of the documents Jumar grew out of: 000 (typical
cases of AOE), 001 (tuning), 002 (overflow collection); the rest are public pages. An option that is not here may still
be one of your version: Jumar warns, and does not call it wrong unless its name is close to one that is.
"""


def main() -> int:
    """Write the page, or check it. Returns the exit code."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    sys.stdout.write(f"{PAGE}\n")
    return 0


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for style, title in TITLES.items():
        rows = [_row(option) for option in options_of(style).values()]
        head = "| option | kind | values | what it is | on the CPU | source |\n|---|---|---|---|---|---|"
        parts.append(f"## {title}\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(option: Option) -> str:
    kind = f".{option.kind} ({KINDS[option.kind]})" if option.style == "session" else KINDS[option.kind]
    source = f"[page]({option.source})" if option.source.startswith("http") else option.source
    meaning = option.meaning + _notes(option)
    return f"| `{option.name}` | {kind} | {_values(option)} | {meaning} | {EFFECTS[option.effect]} | {source} |"


def _values(option: Option) -> str:
    if option.values:
        return ", ".join(f"**{one}**" if one == option.default else one for one in option.values)
    if option.low is not None or option.high is not None:
        high = f" to {option.high:,}" if option.high is not None else " or more"
        return f"{option.low:,}{high}" if option.low is not None else f"up to {option.high:,}"
    return f"**{option.default}**" if option.default else ""


def _notes(option: Option) -> str:
    notes = []
    if option.excludes:
        notes.append(f"not with {', '.join(option.excludes)}")
    if option.path:
        notes.append("must exist" if option.path == "must exist" else "must exist, writable")
    if option.same_in_tuning:
        notes.append("the same in tuning and training")
    if option.off_while_tuning:
        notes.append(f"{option.off_while_tuning} while tuning")
    notes += [f"{chip}: {', '.join(values)} only" for chip, values in option.values_by_chip]
    return f" ({'; '.join(notes)})" if notes else ""


if __name__ == "__main__":
    sys.exit(main())
