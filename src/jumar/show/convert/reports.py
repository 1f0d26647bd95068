"""What a conversion writes: the tree, and the reports in it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jumar.base.files import explained, write_bytes
from jumar.base.findings import Finding
from jumar.convert import Conversion
from jumar.convert.reports.change_list import change_list
from jumar.convert.reports.log import log
from jumar.convert.reports.unsupported import left_over, workbook
from jumar.show.convert.page import convert_page
from jumar.show.convert.result import Result


def write(result: Result) -> Path | None:
    """Write the output folder, whole or not at all; return the patch that leads back from a conversion in place.

    Raises OutputError, and InputError when a source changed since it was read.
    """
    assert result.folder is not None
    made = reports(result)
    if result.job.request.in_place:
        return _write_in_place(result, result.folder, made)
    result.conversion.write(result.folder, result.job.request.force, reports=made)
    if result.names.launcher in made:
        (result.folder / result.names.launcher).chmod(0o755)
    return None


def _write_in_place(result: Result, folder: Path, made: Mapping[str, bytes]) -> Path:
    """Change the sources, and put the reports into a folder beside them; patches of earlier times stay there."""
    patch = result.conversion.write_in_place(folder / result.names.patch)
    for name, data in made.items():
        if name != result.names.patch:
            with explained(folder / name, "the sources were converted"):
                write_bytes(folder / name, data)
    return patch


def reports(result: Result) -> dict[str, bytes]:
    """Return every report by its file name."""
    from jumar.show import findings_document, json_text, render_html

    names, conversion = result.names, result.conversion
    document = findings_document(result.findings, **result.numbers())
    found = {
        names.findings: json_text(document).encode("utf-8", "backslashreplace"),
        names.patch: conversion.patch_bytes(),
        names.changes: change_list(result.findings),
        names.unsupported: workbook([*result.lacking, *left_over(conversion.findings)], _about(result)),
        names.page: render_html(convert_page(result)).encode(),
    }
    if result.tensorflow:
        from jumar.convert.reports.tensorflow_apis import document as api_document
        from jumar.convert.reports.tensorflow_apis import workbook as api_workbook

        found[names.tensorflow] = api_workbook(result.tensorflow, _about_tensorflow(result))
        found[names.tensorflow_json] = json_text(api_document(result.tensorflow)).encode("utf-8", "backslashreplace")
    if result.has_launcher and result.job.options.distributed is not None:
        from jumar.convert.engine.launch import script

        found[names.launcher] = script(result.job.options.distributed.main, result.job.options)
    found[names.log] = _log(result, found).encode("utf-8", "backslashreplace")
    return found


def _log(result: Result, found: Mapping[str, bytes]) -> str:
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    head = {"time": f"{now}, {result.seconds:.1f} s", **result.facts}
    notes = ["Other reports:", *(f"  {name}" for name in sorted(found))]
    renamed = [name for name in (*found, result.names.log) if name.startswith("jumar-")]
    if renamed:
        notes += [
            f"The sources have files called as reports are; these reports have other names: {', '.join(renamed)}."
        ]
    return log(result.conversion, head, result.rules, notes)


def _about(result: Result) -> dict[str, str]:
    from jumar.soc import DEFAULT_SOC

    return {
        "What this is": "Operators and APIs of the sources that the NPU does not have (unsupported), leaves to the "
        "host (fallback) or that the vendor has not verified, one row a place; and what the conversion left for you.",
        "SoC and version": f"{DEFAULT_SOC}, PyTorch and torch_npu 2.13; jumar assess IN --soc SOC answers for others.",
        **result.facts,
    }


def _about_tensorflow(result: Result) -> dict[str, str]:
    return {
        "What this is": "Each name of TensorFlow and Horovod that the sources use, one row a place: what the "
        "conversion changed, what needs work, what the NPU's adapter does not support. 'no limit known' says that no "
        "rule of Jumar speaks of it; the vendor's list of supported APIs is not part of Jumar.",
        **result.facts,
    }


def write_sarif(path: Path, result: Result) -> None:
    """Write the findings as SARIF; of sources that were changed in place, what is left."""
    findings = result.left if result.job.request.in_place else result.findings
    write_findings_sarif(path, findings, result)


def write_findings_sarif(path: Path, findings: tuple[Finding, ...], result: Result) -> None:
    """Write these findings of a conversion as SARIF. Raises OutputError."""
    from jumar.show.sarif import write_sarif as write_document

    write_document(path, findings, result.conversion.root, line_of=_line_of(result.conversion))


def _line_of(conversion: Conversion) -> Any:
    from jumar.convert.reports.baseline import lines_of

    lines: dict[str, list[str]] = {}
    before = {outcome.path: outcome.before for outcome in conversion.files}

    def line_of(path: str, number: int) -> str | None:
        if path not in lines:
            lines[path] = lines_of(before.get(path, b""))
        return lines[path][number - 1] if 0 < number <= len(lines[path]) else None

    return line_of
