"""The chain: assess, convert, run both sides, compare, advise."""

from __future__ import annotations

from collections.abc import Iterable

from jumar.advise.bottlenecks import advise
from jumar.base.findings import Finding
from jumar.comparison.diagnosis import diagnose
from jumar.convert import ConvertOptions, convert_files, local_modules
from jumar.convert.assess import assess_recording, assess_source
from jumar.convert.verify import verify
from jumar.port.layout import Layout
from jumar.port.options import PortOptions
from jumar.port.progress import Progress, Silent, stage
from jumar.port.proof import prove
from jumar.port.result import PortResult
from jumar.port.rules import EMULATED_DEVICE


def port(options: PortOptions, progress: Progress | None = None) -> PortResult:
    """Take a CUDA training script to the NPU; the sources, the recordings and the logs go to `options.out`.

    Raises InputError, OutputError, UsageError or DeviceError for wrong use. A script that fails in a
    run is no error of this function: the result says so, and the folder holds what was finished.
    """
    progress = progress or Silent()
    result = PortResult(options=options, layout=Layout(options.out))
    result.layout.prepare(options.force)
    _convert(result, progress)
    _run(result, progress)
    if result.ran:
        _judge(result, progress)
    return result


def _convert(result: PortResult, progress: Progress) -> None:
    options = result.options
    script = options.script.resolve()
    with stage(progress, "Assess and convert the sources"):
        files = local_modules(script)
        result.conversion = convert_files(script.parent, files, ConvertOptions())
        result.conversion.write(result.layout.converted, force=True)
        result.layout.patch.write_bytes(result.conversion.patch_bytes())
        result.findings += result.conversion.findings
        result.proof = verify(result.conversion, ConvertOptions())
        result.findings += result.proof
        result.source = assess_source(files, options.soc, options.torch_version)
        result.findings += _beyond_conversion(result.source.findings, result.conversion.findings)


def _beyond_conversion(assessed: Iterable[Finding], converted: Iterable[Finding]) -> list[Finding]:
    """Return the findings of the assessment at lines where the conversion made no edit and has no finding."""
    dealt_with = {(finding.where.path, finding.where.line) for finding in converted}
    return [finding for finding in assessed if (finding.where.path, finding.where.line) not in dealt_with]


def _run(result: PortResult, progress: Progress) -> None:
    assert result.conversion is not None
    options = result.options
    folder = options.script.resolve().parent
    before = {folder / file.path: file.before for file in result.conversion.files}
    after = {folder / file.path: file.after for file in result.conversion.files}
    proof = prove(options, before, after, ["npu"], progress)
    result.reference = proof.reference
    result.target = next(iter(proof.targets), None)
    result.comparison = next(iter(proof.comparisons), None)
    result.findings += proof.findings


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
