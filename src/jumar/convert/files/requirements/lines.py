"""Requirements on packages: CUDA builds, PyTorch's index, CUDA-only packages, and torch_npu beside torch (JM125)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jumar.base.findings import Safety, Severity
from jumar.convert.files.requirements.packages import NPU_RELEASES, TORCH_PACKAGES, cuda_index, cuda_tag, judge_package
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.rules.files.cuda_requirement import RULE

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(\[[^\]]*\])?\s*(\(?[^;#@]*)")
_EXACT = re.compile(r"==\s*(\d+(?:\.\d+)*)(?:\+[\w.]+)?\s*")
_TAGGED = re.compile(
    r"\s*[A-Za-z][\w.-]*(?:\[[^\]]*\])?\s*===?\s*\d[\w.]*(\+(?:cu\d+|rocm[\d.]+))(?=\s*(?:[;,#\\]|$)|\s)"
)
_NPU = re.compile(r"(?<![\w-])torch[-_]npu(?![\w-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement: `text` stands at `start`; torch_npu would go in at `insert_at`, between `before` and `after`."""

    text: str
    start: int
    insert_at: int | None = None
    before: str = ""
    after: str = ""


def requirement_proposals(
    text: str, requirements: Iterable[Requirement], options: ConvertOptions
) -> Iterator[Proposal]:
    """Yield what is to be said about the requirements of one file."""
    has_npu = _NPU.search(text) is not None
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement.text)
        if match is None:
            continue
        name = match.group(1).lower().replace("_", "-")
        if name in TORCH_PACKAGES:
            yield from _build(requirement, options)
            if name == "torch" and not has_npu:
                yield _torch(requirement, match.group(3), options)
                has_npu = True
        else:
            verdict = judge_package(match.group(1) + (match.group(2) or ""))
            verdict = verdict or judge_package(match.group(1))
            if verdict is not None:
                yield Proposal(
                    rule=RULE, span=_span(requirement), message=verdict.message, action=verdict.action,
                    severity=verdict.severity,
                )  # fmt: skip


def _span(requirement: Requirement) -> tuple[int, int]:
    return requirement.start, requirement.start + len(requirement.text.rstrip())


def _build(requirement: Requirement, options: ConvertOptions) -> Iterator[Proposal]:
    """Take the CUDA tag off a build of PyTorch's."""
    if cuda_tag(requirement.text) is None and cuda_index(requirement.text) is None:
        return
    pinned = _TAGGED.match(requirement.text)
    edits: tuple[Replacement, ...] = ()
    if pinned is not None and options.target == "npu" and "--hash" not in requirement.text:
        edits = (Replacement(requirement.start + pinned.start(1), requirement.start + pinned.end(1), ""),)
    yield Proposal(
        rule=RULE, span=_span(requirement), replacements=edits,
        message=f"{requirement.text.strip()} is a build for CUDA, which does not load torch_npu.",
        action="" if edits else "On an NPU machine install the build without CUDA of the same version.",
    )  # fmt: skip


def _torch(requirement: Requirement, versions: str, options: ConvertOptions) -> Proposal:
    """Add torch_npu beside torch, of the same release."""
    exact = _EXACT.fullmatch(versions.strip())
    if exact is None:
        plain = re.fullmatch(r"[\s<>=!~.,\d]*", versions)
        pin, safety = versions.strip().rstrip(","), "unsafe" if plain else None
        message = "torch is not pinned to one version; torch_npu has to have torch's."
    elif exact.group(1) in NPU_RELEASES:
        pin, safety = f"=={exact.group(1)}.*", "safe"
        message = f"torch_npu has to be installed beside torch {exact.group(1)}."
    else:
        pin, safety = "", None
        message = f"torch_npu has no release for torch {exact.group(1)}."
    return _beside(requirement, pin, safety, message, options, exact=exact is not None)


def _beside(
    requirement: Requirement, pin: str, safety: str | None, message: str, options: ConvertOptions, *, exact: bool
) -> Proposal:
    edits: tuple[Replacement, ...] = ()
    at = requirement.insert_at
    if safety is not None and at is not None and options.target == "npu" and "--hash" not in requirement.text:
        edits = (Replacement(at, at, f"{requirement.before}torch_npu{pin}{requirement.after}"),)
    known: Safety = "unsafe" if safety == "unsafe" else "safe"
    actions = {
        "safe": "Install torch_npu on the NPU machines, of torch's version.",
        "unsafe": "Pin torch and torch_npu to one version.",
        "none": f"Move to a release both have: {', '.join(sorted(NPU_RELEASES, key=_version))}.",
    }
    return Proposal(
        rule=RULE, span=_span(requirement), message=message, replacements=edits, safety=known,
        severity=None if edits and known == "safe" else Severity.WARNING if exact else Severity.ADVICE,
        action="" if edits and known == "safe" else actions[safety or ("none" if exact else "unsafe")],
    )  # fmt: skip


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def index_proposals(text: str, start: int, options: ConvertOptions) -> Iterator[Proposal]:
    """Yield the change of PyTorch's CUDA index in a text that stands at `start`."""
    index = cuda_index(text)
    if index is None:
        return
    low, high = start + index.start(2), start + index.end(2)
    edits = (Replacement(low, high, "cpu"),) if options.target == "npu" else ()
    yield Proposal(
        rule=RULE, span=(low, high), replacements=edits,
        message=f"PyTorch's index {index.group(2)} holds builds for CUDA.",
        action="" if edits else "On an NPU machine use the index cpu.",
    )  # fmt: skip
