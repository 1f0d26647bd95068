"""`jumar convert -i IN`: a script or a folder, into a new folder, in place, or only looked at."""

from __future__ import annotations

import fnmatch
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from jumar.base.errors import InputError, ScriptError
from jumar.base.findings import Finding
from jumar.base.text import listing
from jumar.cli.options import exit_code
from jumar.convert import Conversion, convert_tree
from jumar.convert.facts.framework import framework_in
from jumar.show.convert.request import Job, Request


def convert_sources(job: Job) -> int:
    """Convert, prove if asked to, write what is asked for, and say what became of it; return the exit code."""
    from jumar.convert.engine.project import check_output
    from jumar.show.convert.reports import write
    from jumar.show.convert.result import Result
    from jumar.show.convert.summary import tell

    request, started = job.request, time.monotonic()
    source = Path(request.source)
    folder = output_folder(source, request.out) if request.writes else None
    if folder is not None and source.exists():
        check_output(source, folder, request.force)
    conversion = converted(job, folder)
    result = Result(
        job=job,
        conversion=conversion,
        folder=folder,
        proof=tuple(_proof(job, conversion)),
        seconds=time.monotonic() - started,
    )
    patch = None
    if folder is not None:
        with _announced(request, "Writing the reports"):
            patch = write(result)
    if request.sarif is not None:
        from jumar.show.convert.reports import write_sarif

        write_sarif(request.sarif, result)
    if request.diff and not request.as_json:
        click.echo(conversion.patch_bytes(), nl=False)  # bytes, because a source may be in another encoding
    if not request.quiet:
        tell(result, patch)
    return exit_code(result.findings, request.severity)


def output_folder(source: Path, out: Path | None) -> Path:
    """Return `OUT/NAME_msft`, in the source's folder where no OUT is given."""
    resolved = source.resolve()
    name = resolved.stem if source.is_file() else resolved.name
    return (
        out if out is not None else source.parent if source.name not in ("", "..") else resolved.parent
    ) / f"{name}_msft"


def converted(job: Job, folder: Path | None = None) -> Conversion:
    """Convert the sources, with progress on stderr. Raises ScriptError when the one file given cannot be read."""
    from jumar.show import progress

    request = job.request
    source = Path(request.source)
    left_out = [*([folder] if folder is not None else []), *excluded(source, request.exclude)]
    bars: Any
    with progress() if shows_progress(request) else nullcontext() as bars:
        task = bars.add_task("Converting", total=None) if bars is not None else None

        def advance(done: int, total: int) -> None:
            if bars is not None:
                bars.update(task, completed=done, total=total)

        conversion = convert_tree(
            source, job.options, exclude=left_out, on_progress=advance, jobs=request.jobs, cache=request.cache
        )
    if source.is_file() and conversion.failures:
        failure = conversion.failures[0]
        raise ScriptError(f"{source}{failure.error.removeprefix(failure.path)}")
    if conversion.of_mindspore and not _has_more(conversion):
        is_one = len(conversion.of_mindspore) == 1
        raise ScriptError(
            f"{listing(conversion.of_mindspore, 3)} {'is a program' if is_one else 'are programs'} of MindSpore, and "
            "`jumar convert` is for PyTorch and TensorFlow. A MindSpore program names its device in "
            "mindspore.set_context and needs no conversion: `jumar run` takes it; see jumar docs guide-mindspore."
        )
    return conversion


def _has_more(conversion: Conversion) -> bool:
    """Tell whether there is anything to convert, or a source of PyTorch or TensorFlow, beside those of MindSpore."""
    rest = [outcome for outcome in conversion.files if outcome.path not in conversion.of_mindspore]
    return bool(conversion.findings) or any(framework_in(outcome.before) is not None for outcome in rest)


@contextmanager
def _announced(request: Request, words: str) -> Iterator[None]:
    """Say on stderr what is going on, where progress is shown."""
    from jumar.show import progress

    if not shows_progress(request):
        yield
        return
    with progress() as bars:
        bars.add_task(words, total=None)
        yield


def shows_progress(request: Request) -> bool:
    """Tell whether progress is shown: one file is done before a line about it is read."""
    return not request.quiet and Path(request.source).is_dir()


def excluded(root: Path, globs: tuple[str, ...]) -> list[Path]:
    """Return the files and folders that a glob matches: by name anywhere, or by path from `root` with a slash in it.

    Raises InputError when there are globs for a single file.
    """
    if not globs:
        return []
    if root.is_file():
        raise InputError(f'"--exclude {globs[0]}" leaves files of a folder out, and {root} is a file; leave it out.')
    return list(_matching(root, "", globs))


def _matching(folder: Path, prefix: str, globs: tuple[str, ...]) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # the conversion says what cannot be listed
        return
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if any(_matches(path, entry.name, glob) for glob in globs):
            yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            yield from _matching(Path(entry.path), f"{path}/", globs)


def _matches(path: str, name: str, glob: str) -> bool:
    glob = glob.removeprefix("./").rstrip("/")
    if "/" not in glob:
        return fnmatch.fnmatchcase(name, glob)
    return fnmatch.fnmatchcase(path, glob.removeprefix("/")) or fnmatch.fnmatchcase(path, glob.removesuffix("/*"))


def _proof(job: Job, conversion: Conversion) -> Iterator[Finding]:
    request = job.request
    if request.verify or request.verify_run is not None:
        from jumar.convert.verify import verify

        yield from verify(conversion, job.options)
    if request.verify_run is not None:
        yield from _run_proof(job, conversion, request.verify_run)


def _run_proof(job: Job, conversion: Conversion, command: str) -> Iterator[Finding]:
    from jumar.port import verify_run

    try:
        script, *arguments = shlex.split(command)
    except ValueError as error:
        script = ""
        reason = str(error).lower()
    else:
        reason = "it is empty"
    if not script:
        raise InputError(f'"--verify-run {command}" must be a script of IN with its arguments; {reason}: correct it.')
    devices: Any = ("npu",) if job.options.target == "npu" else ("npu", "cuda-stand-in", "cpu")
    path = conversion.root / script
    proof = verify_run(path, conversion, arguments, steps=job.request.steps or 3, devices=devices)
    yield from proof.findings
