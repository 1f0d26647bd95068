"""Options that must agree between tuning and use: which they are, what each changes, and when two values are one.

The list is that of document 000, case 02; it stands in the table, under the style `command`.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jumar.tfadapter.options.option import Option, Setting
from jumar.tfadapter.options.table import options_of

SAME_OPTION: Mapping[str, str] = {"insert_op_file": "insert_op_conf", "precision_mode_v2": "precision_mode"}
"""Names in scripts, or newer ones -> what the document calls the same option."""
SAME_PRECISION: Mapping[str, str] = {
    "fp16": "force_fp16", "origin": "must_keep_origin_dtype", "force_fp32": "cube_fp16in_fp32out",
    "allow_mix_precision": "allow_mix_precision_fp16", "mixed_float16": "allow_mix_precision_fp16",
    "mixed_bfloat16": "allow_mix_precision_bf16",
}  # fmt: skip
"""Values of `precision_mode` and `precision_mode_v2` -> the one that means the same (manual of ATC, both options)."""
_WORDS = {"true": "1", "false": "0"}


@cache
def must_agree() -> Mapping[str, Option]:
    """Return the options of the document's list by their names, in its order."""
    options = options_of("command").items()
    return {name: option for name, option in options if option.same_in_tuning and name not in SAME_OPTION}


def agreeing_name(name: str) -> str:
    """Return what the document calls an option: without the dots of a style, under the name that `aoe` takes."""
    last = name.rpartition(".")[2]
    return SAME_OPTION.get(last, last)


def changes_of(name: str) -> str:
    """Return what an option changes: `dtype of some operators`; empty for one that is not in the list."""
    option = must_agree().get(agreeing_name(name))
    return option.changes if option is not None else ""


def names_that_change(kind: str) -> list[str]:
    """Return the options of the list that change a `shape`, `dtype`, `format` or `structure`."""
    return [name for name, option in must_agree().items() if kind in option.changes or _is_output(kind, option)]


def _is_output(kind: str, option: Option) -> bool:
    return kind == "structure" and "nodes" in option.changes


def canonical(name: str, text: str) -> object:
    """Return a value in a form that is equal for what is written in other words, order or case; None for an empty one.

    A path is its normal form.
    """
    name, text = agreeing_name(name), text.strip(" ;\"'\t")
    option = must_agree().get(name)
    if option is None or not text:
        return text or None
    if option.form == "path":
        return os.path.normpath(text)
    if option.form == "shapes":
        return _shapes(text)
    if option.form == "switches":
        found = [_WORDS.get(one, one) for one in _parts(text.lower(), ",")]
        return tuple(found) if set(found) != {"0"} else ("0",)
    if option.form in ("list;", "set;", "set,"):
        words = _parts(text if name in ("out_nodes", "input_fp16_nodes") else text.lower(), option.form[-1])
        return tuple(words) if option.form == "list;" else frozenset(words)
    word = _WORDS.get(text.lower(), text.lower())
    return SAME_PRECISION.get(word, word) if name == "precision_mode" else word


def is_default(setting: Setting, framework: str | None) -> bool | None:
    """Tell whether a setting says what holds without it; None where that depends on a framework that is not known.

    `framework` is the option of that name: 3 is TensorFlow.
    """
    text, name = _text(setting.value), agreeing_name(setting.name)
    option = options_of(setting.style).get(setting.name)
    found = canonical(name, text)
    if found is None:
        return True
    if name == "input_format" and setting.style == "command":
        usual = {None: None, "3": "nhwc"}.get(framework, "nchw")
        return found == usual if usual else (None if found in ("nchw", "nhwc") else False)
    return option is not None and option.default != "" and found == canonical(name, option.default)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def agree(name: str, one: str, other: str) -> bool | None:
    """Tell whether two values mean the same; None where they are two files that cannot both be read here."""
    first, second = canonical(name, one), canonical(name, other)
    option = must_agree().get(agreeing_name(name))
    if first == second or option is None or option.form != "path" or None in (first, second):
        return first == second
    return _same_files(Path(str(first)), Path(str(second)))


def _same_files(one: Path, other: Path) -> bool | None:
    try:
        return one.read_bytes() == other.read_bytes()
    except (OSError, ValueError):
        return None


def _parts(text: str, mark: str) -> list[str]:
    return ["".join(part.split()) for part in text.split(mark) if part.strip()]


def _shapes(text: str) -> object:
    """Return `x:1,3;y:2` as pairs of a name and sizes, in no order; without names as sizes in their order."""
    found = [part.rpartition(":")[::2] for part in _parts(text, ";")]
    pairs = [(name, tuple(size.lstrip("+0") or size for size in sizes.split(","))) for name, sizes in found]
    return frozenset(pairs) if all(name for name, _ in pairs) else tuple(pairs)
