"""`survey_software`: versions of driver, firmware and CANN from their own files, and what Python stands on."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from jumar.advise.doctor.machine.host import Npu
from jumar.advise.doctor.machine.parts import Software
from jumar.base.host import read_text

_RANGE = re.compile(r"\[\s*([\w.]+)\s*,\s*([\w.]+)\s*\]")
_RELEASE = re.compile(r"\d+\.\d+\.(?:\d+|RC\d+)(?:[.-]?(?:alpha|beta)[.-]?\d+|\.\d+)*", re.IGNORECASE)
_CANN_FILES = (
    "*-linux/ascend_toolkit_install.info", "ascend_toolkit_install.info", "ascend_nnae_install.info",
    "*/ascend_nnae_install.info", "toolkit/version.info", "opp/version.info", "runtime/version.info",
    "compiler/version.info", "*-linux/version.info", "share/info/*/version.info",
)  # fmt: skip
"""Where a CANN folder tells its release, the plainest first."""


def survey_software(environ: Mapping[str, str], npu: Npu, root: Path) -> Software:
    """Read the versions."""
    driver = _properties(root / "usr/local/Ascend/driver/version.info")
    firmware = _properties(root / "usr/local/Ascend/firmware/version.info")
    cann, file = cann_release(_cann_folders(environ, npu))
    return Software(
        driver=driver.get("package_version") or driver.get("version", ""),
        firmware=firmware.get("version", ""),
        firmware_range=tuple(_RANGE.findall(driver.get("compatible_version_fw", ""))),
        cann=cann,
        cann_file=file,
        libc=platform.libc_ver(),
        architecture=platform.machine(),
        abi_flags=getattr(sys, "abiflags", ""),
        parallel_tunings=_parallel_tunings(environ),
    )


def cann_release(folders: Iterator[Path]) -> tuple[str, str]:
    """Return the release of the first CANN folder that tells one, and the file that says so; else empty texts."""
    for folder in folders:
        for pattern in _CANN_FILES:
            for file in sorted(folder.glob(pattern)):
                found = _properties(file)
                for key in ("version_dir", "version"):
                    text = found.get(key, "").removeprefix("cann-")
                    if _RELEASE.fullmatch(text) and not _is_inner(text):
                        return text, str(file)
        name = folder.resolve().name.removeprefix("cann-")
        if _RELEASE.fullmatch(name):
            return name, str(folder)
    return "", ""


def _is_inner(text: str) -> bool:
    """Tell whether a version is the vendor's inner numbering (`7.6.0.1.220`), which no table names."""
    return len(text.split(".")) > 4


def _cann_folders(environ: Mapping[str, str], npu: Npu) -> Iterator[Path]:
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        if environ.get(name):
            yield Path(environ[name])
    for folder in npu.cann_folders:
        yield Path(folder) / "latest"
        yield Path(folder)


def _properties(file: Path) -> dict[str, str]:
    """Return the lines `name=value` of a file, names in lower case, values without quotes."""
    found: dict[str, str] = {}
    for line in read_text(file).splitlines():
        name, is_set, value = line.partition("=")
        if is_set:
            found.setdefault(name.strip().lower(), value.strip().strip("\"'"))
    return found


def _parallel_tunings(environ: Mapping[str, str]) -> int | None:
    named, home = environ.get("JUMAR_AOE_INI"), environ.get("ASCEND_HOME_PATH")
    if not named and not home:
        return None
    file = Path(named) if named else Path(home or "") / "tools/aoe/conf/aoe.ini"
    text = _properties(file).get("tuning_parallel_num", "")
    return int(text) if text.isdigit() else None
