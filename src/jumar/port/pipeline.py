"""The chain: assess, convert, run both sides, compare, advise."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jumar.advise.bottlenecks import advise
from jumar.base.findings import Finding, Location
from jumar.base.text import counted
from jumar.capture.process.project import import_folders, is_project_file
from jumar.comparison.diagnosis import diagnose
from jumar.convert import Conversion, convert_files, local_modules
from jumar.convert.assess import assess_recording, assess_source
from jumar.convert.verify import verify
from jumar.port.layout import Layout
from jumar.port.options import PortOptions
from jumar.port.progress import Progress, Silent, stage
from jumar.port.proof import prove
from jumar.port.result import PortResult
from jumar.port.rules import EMULATED_DEVICE, MODULE_NOT_CONVERTED
from jumar.port.runs import Run
from jumar.port.sources import convert_sources, kept_sources, root_of


def port(options: PortOptions, progress: Progress | None = None) -> PortResult:
    """Take a CUDA training script to the NPU; the sources, the recordings and the logs go to `options.out`.

    Raises InputError, OutputError, UsageError or DeviceError for wrong use. A script that fails in a
    run is no error of this function: the result says so, and the folder holds what was finished.
    """
    progress = progress or Silent()
    result = PortResult(options=options, layout=Layout(options.out))
    script = options.script.resolve()
    kept = kept_sources(result.layout, script)
    result.layout.prepare(options.force)
    with stage(progress, "Assess and convert the sources"):
        folders = import_folders(os.environ)
        found = [path.resolve() for entry in options.entries for path in modules_of(entry, folders)]
        _convert(result, list(dict.fromkeys([*found, *(path for path in kept if path.is_file())])), kept)
    _run(result, kept, progress)
    if result.ran:
        _judge(result, progress)
    return result


def modules_of(entry: Path, folders: Sequence[Path]) -> Sequence[Path]:
    """Return a file that a program starts with, and the modules of the project that it imports."""
    return local_modules(entry, folders, is_project_file) if entry.suffix == ".py" else [entry]


def _convert(result: PortResult, files: Sequence[Path], kept: Mapping[Path, bytes]) -> None:
    """Convert and assess these files; what was found before is replaced."""
    options = result.options
    result.sources = convert_sources(files, kept, options.conversion)
    result.sources.write(result.layout, options.script.resolve())
    conversion = result.sources.conversion
    result.proof = verify(conversion, options.conversion)
    readable = _readable(conversion)
    root = conversion.root  # the places of both are compared
    result.source = assess_source(readable, options.soc, options.torch_version, root=root) if readable else None
    further = _beyond_conversion(result.source.findings, conversion.findings) if result.source else []
    result.findings = [*conversion.findings, *result.proof, *further]


def _readable(conversion: Conversion) -> list[Path]:
    """Return the Python files that parse: one that does not is a finding of the conversion."""
    failed = {failure.path for failure in conversion.failures}
    return [
        conversion.root / file.path
        for file in conversion.files
        if file.path.endswith(".py") and file.path not in failed
    ]


def _beyond_conversion(assessed: Iterable[Finding], converted: Iterable[Finding]) -> list[Finding]:
    """Return the findings of the assessment at lines where the conversion made no edit and has no finding."""
    dealt_with = {(finding.where.path, finding.where.line) for finding in converted}
    return [finding for finding in assessed if (finding.where.path, finding.where.line) not in dealt_with]


def _run(result: PortResult, kept: Mapping[Path, bytes], progress: Progress) -> None:
    assert result.sources is not None

    def converted(reference: Run) -> Mapping[Path, bytes]:
        assert result.sources is not None
        further = [path for path in reference.executed if path not in result.sources.paths]
        if further:
            with stage(progress, f"Convert {counted(len(further), 'further module')} that the script imported"):
                _convert(result, [*sorted(result.sources.paths), *further], kept)
        return result.sources.after

    proof = prove(result.options, result.sources.before, converted, ["npu"], progress)
    result.reference = proof.reference
    result.target = next(iter(proof.targets), None)
    result.comparison = next(iter(proof.comparisons), None)
    result.findings += [*proof.findings, *_not_converted(result)]


def _not_converted(result: PortResult) -> list[Finding]:
    """Return the findings about modules that only the NPU run imported, and that the conversion would change."""
    if result.target is None or result.sources is None:
        return []
    late = [path for path in result.target.executed if path not in result.sources.paths]
    changed = convert_files(root_of(late), late, result.options.conversion).changed if late else ()
    return [
        MODULE_NOT_CONVERTED.finding(
            f"{file.path} ran on the NPU unconverted: only the converted script imports it",
            where=Location(path=file.path),
            evidence={"edits": file.num_edits},
            action="Convert it with `jumar convert -i FILE -o OUT`, or import it on both sides.",
        )
        for file in changed
    ]


def _judge(result: PortResult, progress: Progress) -> None:
    options = result.options
    assert result.reference is not None
    assert result.target is not None
    if result.comparison is None or result.reference.recording is None or result.target.recording is None:
        return
    with stage(progress, "Explain the comparison"):
        result.diagnosis = diagnose(result.comparison, result.reference.recording, result.target.recording)
        result.findings += result.diagnosis.findings
    with stage(progress, "Assess the operators that ran"):
        result.executed = assess_recording(result.target.recording, options.soc, options.torch_version)
        result.findings += result.executed.findings
    with stage(progress, "Look for bottlenecks"):
        result.advice = advise(result.target.recording, soc=options.soc)
        result.findings += result.advice.findings
    result.findings += _emulated(result)


def _emulated(result: PortResult) -> list[Finding]:
    infos = [(run.side, run.recording.info) for run in result.runs if run.recording is not None]
    return [
        EMULATED_DEVICE.finding(
            f"the {side} run used {info.device}",
            evidence={"device": info.device, "soc": info.soc},
            action="Repeat this command on a machine with the device before relying on its speed.",
        )
        for side, info in infos
        if "(" in info.device
    ]
