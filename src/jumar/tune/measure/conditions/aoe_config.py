"""The vendor's two configuration files: `aoe_config_file` (JSON) and `aoe.ini`.

    {"tune_ops_name": ["conv1"], "tune_ops_type": ["Conv2D"],
     "tune_optimization_level": "O1", "feature": ["deeper_opat"]}

| key | values | job |
|---|---|---|
| tune_ops_name, tune_ops_type | whole words, the union of both | 2 |
| tune_optimization_level | O1: several times the measurements; O2: normal (default) | both |
| feature | deeper_opat | 2 |
| | nonhomo_split: uneven batch splits (7 → 4+3) | 1 |

`aoe.ini` has `NAME = VALUE` lines; it is the file that JUMAR_AOE_INI names, else
`$ASCEND_HOME_PATH/tools/aoe/conf/aoe.ini` where there is one (the toolkit's `set_env.sh` sets that variable).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.tune.model.folders import expanded

JOB_SUBGRAPHS, JOB_OPERATORS = 1, 2
FEATURES = {"deeper_opat": JOB_OPERATORS, "nonhomo_split": JOB_SUBGRAPHS}
"""Feature to the job it belongs to."""
LEVELS = ("O1", "O2")
INI_NAMES = ("TUNING_PARALLEL_NUM", "TE_PARALLEL_COMPILER", "RUN_LOOP", "WORK_PATH")
_LISTS = ("tune_ops_name", "tune_ops_type", "feature")
_KEYS = (*_LISTS, "tune_optimization_level")


@dataclass(frozen=True, slots=True, kw_only=True)
class AoeConfig:
    """An `aoe_config_file`, checked."""

    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    level: str = "O2"
    features: frozenset[str] = frozenset()
    source: str = ""

    @property
    def thorough(self) -> bool:
        """Whether more is to be searched and measured than by default: O1, or deeper_opat."""
        return self.level == "O1" or "deeper_opat" in self.features


@dataclass(frozen=True, slots=True, kw_only=True)
class Ini:
    """The values of an `aoe.ini`; none where there is no such file."""

    values: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None


def read_aoe_config(path: Path, job_type: int) -> AoeConfig:
    """Read an `aoe_config_file` for a job of this type. Raises InputError in one sentence."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Name a JSON file.") from error
    except ValueError as error:
        raise InputError(f"{path} must hold JSON; {error}. Mend it.") from error
    _check(path, found)
    config = AoeConfig(
        names=tuple(found.get("tune_ops_name", ())),
        types=tuple(found.get("tune_ops_type", ())),
        level=found.get("tune_optimization_level", "O2"),
        features=frozenset(found.get("feature", ())),
        source=str(path),
    )
    for feature in sorted(config.features):
        if FEATURES[feature] != job_type:
            raise InputError(
                f"{path}: feature {feature} belongs to job type {FEATURES[feature]}, and this is a job of type "
                f"{job_type}. Leave it out, or tune with --job-type {FEATURES[feature]}."
            )
    if job_type != JOB_OPERATORS and (config.names or config.types):
        raise InputError(
            f"{path}: tune_ops_name and tune_ops_type belong to job type {JOB_OPERATORS}, and this is a job of type "
            f"{job_type}. Leave them out, or tune with --job-type {JOB_OPERATORS}."
        )
    return config


def _check(path: Path, found: Any) -> None:
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold an object with {', '.join(_KEYS)}; it holds a {type(found).__name__}.")
    unknown = sorted(set(found) - set(_KEYS))
    if unknown:
        raise InputError(f"{path} may hold {', '.join(_KEYS)}; it also has {', '.join(unknown)}. Leave that out.")
    for key in _LISTS:
        items = found.get(key, [])
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise InputError(f"{path}: {key} must be a list of words; got {json.dumps(items)}. Write [...].")
    level = found.get("tune_optimization_level", "O2")
    if level not in LEVELS:
        raise InputError(f"{path}: tune_optimization_level must be O1 or O2; got {json.dumps(level)}. Write O2.")
    for feature in found.get("feature", []):
        if feature not in FEATURES:
            raise InputError(f"{path}: feature must be of {', '.join(FEATURES)}; got {feature}. Leave it out.")


def read_ini(environ: Mapping[str, str]) -> Ini:
    """Return the `aoe.ini` that holds here. Raises InputError for one that was named and cannot be read."""
    named, toolkit = environ.get("JUMAR_AOE_INI"), environ.get("ASCEND_HOME_PATH")
    if named:
        path = expanded(named, "JUMAR_AOE_INI", InputError)
        try:
            return Ini(values=parse_ini(path.read_text("utf-8")), path=path)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InputError(f"JUMAR_AOE_INI names {path}, which cannot be read: {reason}. Unset it.") from error
    if not toolkit:
        return Ini()
    path = Path(toolkit) / "tools" / "aoe" / "conf" / "aoe.ini"
    try:
        return Ini(values=parse_ini(path.read_text("utf-8", errors="replace")), path=path)
    except OSError:  # a toolkit without AOE
        return Ini()


def parse_ini(text: str) -> dict[str, str]:
    """Return the values of the names that are known, the last of a name; sections and comments are passed over."""
    values = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and name.strip().upper() in INI_NAMES:
            values[name.strip().upper()] = value.split("#")[0].split(";")[0].strip().strip("\"'")
    return values
