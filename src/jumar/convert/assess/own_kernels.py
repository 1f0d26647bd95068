"""Kernels that a source brings itself or takes from a CUDA library: what the conversion's rules say of them."""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding
from jumar.convert.model.edits import to_finding
from jumar.convert.model.options import ConvertOptions
from jumar.convert.rules.residue import cuda_extension, cuda_library_use
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import Source

RULES = (cuda_library_use, cuda_extension)
"""JM130 and JM131: by name, with the counterpart or with the PyTorch path of the same file."""


def own_kernels(source: Source, release: str) -> Iterator[Finding]:
    """Yield a finding for each use of a CUDA library and each CUDA extension of a file."""
    context = Context(source, ConvertOptions(release=release))
    for rule in RULES:
        for proposal in list(rule.find(context)):
            context.add(proposal)
            yield to_finding(proposal, source.text, source.path, applied=False)
