"""The documented settings of a tuning run: environment variables, `aoe.ini`, their ranges and order of precedence.

    command line  >  environment variable  >  aoe.ini  >  default

| name | range | default |
|---|---|---|
| TE_PARALLEL_COMPILER | 1 to 32, and at most cores × 0.8 / devices | 8 |
| TUNING_PARALLEL_NUM | 1 to 64; advice: 2/3 of the cores | 8 |
| RUN_LOOP | 1 to 2048 calls averaged in one sample | as many as last 0.5 ms |
| ASCEND_DEVICE_ID | 0 to the number of devices − 1 | 0 |
| AOE_MODE | 1 (subgraphs), 2 (operators) or 4 (gradients) | none |
| REPEAT_TUNE | True or False, in any case; 1 or 0 | False |
| ASCEND_WORK_PATH, WORK_PATH (aoe.ini) | an existing folder | the working folder |

`jumar.tune.bank.location` reads `TUNE_BANK_PATH` and `ASCEND_CACHE_PATH`. Source: the manual's pages on environment
variables and on aoe.ini.

The vendor's two configuration files: `aoe_config_file` (JSON) and `aoe.ini`.

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

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.base.host import usable_cores
from jumar.base.text import size_text
from jumar.tune.model.process import expanded

JOB_SUBGRAPHS, JOB_OPERATORS, JOB_GRADIENTS = 1, 2, 4
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
    except (ValueError, RecursionError) as error:
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


COMPILERS, COMPILERS_DEFAULT = (1, 32), 8
TUNERS, TUNERS_DEFAULT = (1, 64), 8
LOOPS = (1, 2048)
_TRUE, _FALSE = {"true", "1"}, {"false", "0", ""}
MODES = {"1": JOB_SUBGRAPHS, "2": JOB_OPERATORS, "4": JOB_GRADIENTS}
SHARE_OF_CORES = 0.8
"""Of the cores, at most this much compiles: the manual's bound of TE_PARALLEL_COMPILER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneEnvironment:
    """What the environment asks of a run, each value within its documented range."""

    compilers: int = COMPILERS_DEFAULT
    """TE_PARALLEL_COMPILER as it was asked for; `Lanes` says how many there really are."""
    compilers_given: bool = False
    """Whether somebody asked for it, or it is the default."""
    tuners: int = TUNERS_DEFAULT
    """TUNING_PARALLEL_NUM as it was asked for: candidates that are in the making at once."""
    tuners_given: bool = False
    run_loop: int | None = None
    """RUN_LOOP: least calls in one timed sample; None: as many as a sample's least length takes."""
    device_id: int = 0
    aoe_mode: int | None = None
    repeat: bool = False
    work_path: Path
    """Where result files and job files go."""

    @classmethod
    def read(cls, environ: Mapping[str, str], *, num_devices: int = 1) -> TuneEnvironment:
        """Read and check all of it. Raises UsageError, or OutputError for a folder, in one sentence."""
        ini = read_ini(environ)
        compilers = _number("TE_PARALLEL_COMPILER", environ, ini, COMPILERS)
        tuners = _number("TUNING_PARALLEL_NUM", environ, ini, TUNERS)
        return cls(
            compilers=COMPILERS_DEFAULT if compilers is None else compilers,
            compilers_given=compilers is not None,
            tuners=TUNERS_DEFAULT if tuners is None else tuners,
            tuners_given=tuners is not None,
            run_loop=_number("RUN_LOOP", environ, ini, LOOPS),
            device_id=device_id(environ, num_devices),
            aoe_mode=aoe_mode(environ),
            repeat=repeat_tune(environ),
            work_path=work_path(environ, ini),
        )


def aoe_mode(environ: Mapping[str, str]) -> int | None:
    """Return AOE_MODE: 1 (subgraphs), 2 (operators), 4 (gradients), None when unset. Raises UsageError."""
    text = environ.get("AOE_MODE", "").strip()
    if not text:
        return None
    if text not in MODES:
        raise UsageError(
            f'AOE_MODE must be 1 (subgraphs), 2 (operators) or 4 (gradients); got "{text}". Set one, or unset it.'
        )
    return MODES[text]


def repeat_tune(environ: Mapping[str, str]) -> bool:
    """Return REPEAT_TUNE, in any case, False when unset. Raises UsageError when it is neither True nor False."""
    text = environ.get("REPEAT_TUNE", "").strip().lower()
    if text not in _TRUE | _FALSE:
        raise UsageError(f'REPEAT_TUNE must be True or False; got "{environ["REPEAT_TUNE"]}". Unset it or set False.')
    return text in _TRUE


def device_id(environ: Mapping[str, str], num_devices: int) -> int:
    """Return ASCEND_DEVICE_ID, 0 when unset. Raises UsageError when there is no such device."""
    found = _number("ASCEND_DEVICE_ID", environ, Ini(), (0, num_devices - 1))
    return 0 if found is None else found


def work_path(environ: Mapping[str, str], ini: Ini | None = None) -> Path:
    """Return ASCEND_WORK_PATH, else aoe.ini's WORK_PATH, else the working folder.

    Raises OutputError when the one that counts is no folder.
    """
    named = (ini or Ini()).values.get("WORK_PATH")
    if named and not environ.get("ASCEND_WORK_PATH"):
        return result_folder({"ASCEND_WORK_PATH": named})
    return result_folder(environ)


def result_folder(environ: Mapping[str, str]) -> Path:
    """Return ASCEND_WORK_PATH, else the working folder. Raises OutputError when it is no folder."""
    named = environ.get("ASCEND_WORK_PATH")
    if not named:
        return Path.cwd()
    folder = expanded(named, "ASCEND_WORK_PATH", OutputError)
    if not folder.is_dir():
        raise OutputError(f"ASCEND_WORK_PATH must be an existing folder; got {named}. Make it, or unset it.")
    return folder


def _number(name: str, environ: Mapping[str, str], ini: Ini, bounds: tuple[int, int]) -> int | None:
    """Return a whole number within its bounds, from the environment, else from aoe.ini; None where neither has it."""
    text, source = environ.get(name, "").strip(), name
    if not text:
        text, source = ini.values.get(name, ""), f"{name} in {ini.path}"
    if not text:
        return None
    low, high = bounds
    value = int(text) if text.isascii() and text.isdigit() else None
    if value is None or not low <= value <= high:
        allowed = f"a whole number from {low} to {high}" if low < high else f"{low}, the only one here"
        raise UsageError(f'{source} must be {allowed}; got "{text}". Set one, or leave it out.')
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """How many candidates are compiled at once, and which bound decides it."""

    count: int
    bound: str
    """In words, with its numbers."""

    @classmethod
    def of(
        cls,
        environment: TuneEnvironment,
        *,
        memory_bytes: int | None,
        candidate_bytes: int,
        num_cores: int | None = None,
        num_devices: int = 1,
    ) -> Lanes:
        """Return min(TE_PARALLEL_COMPILER, TUNING_PARALLEL_NUM, cores × 0.8 / devices, memory / candidate), at least 1.

        `memory_bytes` is what is available (None: unknown, no bound), `candidate_bytes` what one may take.
        """
        cores = num_cores or usable_cores()
        bounds = [
            (environment.compilers, f"TE_PARALLEL_COMPILER = {environment.compilers}"),
            (environment.tuners, f"TUNING_PARALLEL_NUM = {environment.tuners}"),
            (int(cores * SHARE_OF_CORES / num_devices), f"cores × 0.8 / devices = {cores} × 0.8 / {num_devices}"),
        ]
        if memory_bytes is not None:
            words = f"memory / candidate = {size_text(memory_bytes)} / {size_text(candidate_bytes)}"
            bounds.append((memory_bytes // candidate_bytes, words))
        count, bound = min(bounds, key=lambda one: one[0])
        return cls(count=max(1, count), bound=bound)
