"""`jumar tune MODEL`: its options, the model's graphs, and the artefact.

An artefact or a page replaces only what an interrupted run left at its place. Such a run says that the same command
goes on, so its artefact and its page name what was tuned; the command that tunes the same replaces them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.cli.help import more_option
from jumar.cli.options import with_options

if TYPE_CHECKING:
    from jumar.tune import Machine, TuneResult
    from jumar.tune.measure.conditions.settings import AoeConfig
    from jumar.tune.measure.options import Space
    from jumar.tune.search.tasks.extract import Selection
    from jumar.tune.search.tasks.source import Source

GENERATOR = '<meta name="generator" content="Jumar '


def check_place(path: Path, option: str, is_own: Callable[[Path], bool]) -> None:
    """Refuse, before an hour of tuning, a file that could not be written after it. Raises OutputError.

    `is_own` says whether an existing file may be replaced.
    """
    if path.is_symlink() or (path.exists() and not is_own(path)):
        raise OutputError(f"{path} exists and is not replaced; choose another name for {option}.")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path.absolute().parent} must be a folder that can be written to; choose another {option}.")


def is_open_artefact(path: Path, source: str) -> bool:
    """Tell whether a file is an artefact that was written when the tuning of `source` was cut short."""
    from jumar.tune.artefact.loading import read_manifest

    try:
        return read_manifest(path).open_for == source
    except (InputError, OSError):
        return False


def is_open_page(path: Path, source: str) -> bool:
    """Tell whether a file is a page that was written when the tuning of `source` was cut short."""
    from markupsafe import escape

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return GENERATOR in text and str(escape(open_footer(source))) in text


def open_footer(source: str) -> str:
    """Return the last sentence of a page of a run that was cut short."""
    return f"The tuning of {source} was cut short: the same command goes on, and replaces this page."


_OPTIONS = (
    click.option(
        "--input-shape",
        default="",
        metavar="NAME:N,C,H,W;...",
        help="Shapes of the model's inputs, one graph a gear.  [default: those of its example inputs]",
    ),
    click.option(
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE.jumar",
        help="Write the tuned model, built: it loads without tuning or compiling. Job type 1.",
    ),
    more_option(
        "--Fdeeper_opat", "--deeper", "fdeeper_opat", is_flag=True,
        help="Job type 1: search more plans. Job type 2: measure three times as long.",
    ),
    more_option(
        "--Fnonhomo_split", "--uneven-splits", "fnonhomo_split", is_flag=True,
        help="Cut batches into uneven pieces, too (7 = 4+3). Job type 1.",
    ),
)  # fmt: skip


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--input-shape`, `--output`, `--Fdeeper_opat` and `--Fnonhomo_split`."""
    return with_options(command, _OPTIONS)


def space_of(config: AoeConfig | None, *, is_deep: bool, is_uneven: bool) -> Space:
    """Return what is searched for graphs, by the options and the vendor's configuration file."""
    from jumar.tune.measure.options import Space

    thorough = config is not None and config.thorough
    uneven = config is not None and "nonhomo_split" in config.features
    return Space(is_deep=is_deep or thorough, is_uneven=is_uneven or uneven)


@contextlib.contextmanager
def opened_model(
    where: str, input_shape: str, selection: Selection | None, limit_s: float | None = None
) -> Iterator[Source]:
    """Yield the graphs and operators of a model; their weights lie in a folder that goes at the end.

    The model is captured within `limit_s`, in a process of its own.
    """
    from jumar.tune.model.process import OwnFolder
    from jumar.tune.search.tasks.source import model_source

    with OwnFolder("jumar-model-") as folder:
        yield model_source(where, folder=folder, input_shape=input_shape, selection=selection, limit_s=limit_s)


def check_output(path: Path | None, job_type: int, source: str) -> None:
    """Refuse, before an hour of tuning, an artefact of `source` that could not be written after it."""
    if path is None:
        return
    if job_type != 1:
        raise UsageError(f"--output writes the plan of a whole graph; with --job-type {job_type} there is none. Use 1.")
    check_place(path, "--output", lambda found: is_open_artefact(found, source))


def check_single(path: Path | None, source: Source | Path) -> None:
    """Refuse to write an artefact of what is not one graph."""
    if path is None or isinstance(source, Path):
        return  # a recording has no graphs at all, which `tune` says
    if len(source.graphs) != 1:
        raise UsageError(
            f"--output takes a model that is one graph; this one is {len(source.graphs)}. Leave --output out."
        )
    if source.graphs[0].graph.gradients:
        raise UsageError(
            f"--output writes a model of inference, and what {source.path} computes is a training step. Leave it out: "
            "the bank keeps the plan, and jumar run --tuned applies it."
        )
    if source.graphs[0].is_piece:
        raise UsageError("--output takes a model that is one graph; of this one a piece is tuned. Leave --output out.")


def write_artefact(path: Path, name: str, source: Source | Path, result: TuneResult, machine: Machine) -> None:
    """Write the tuned model, one graph, to `path`: with its plan, or with the default plan when none is faster.

    `name` is the source as it was named: that of a run that was cut short says so, and the same command replaces it.
    Writes nothing when the graph could not be tuned; the findings say why.
    """
    from jumar.tune.artefact import write
    from jumar.tune.plan.engines import ENGINES
    from jumar.tune.search.subgraph.search import eager_plan

    if isinstance(source, Path) or not result.graphs or result.graphs[0].failure:
        return
    outcome, open_for = result.graphs[0], name if result.stopped_by else ""
    lowered = next((one.chosen for one in result.precisions if one.chosen is not None), None)
    if lowered is not None:
        write(path, source.graphs[0], lowered.plan, machine=machine, gain=lowered.gain, open_for=open_for)
        return
    gain = outcome.gain if outcome.plan is not None else None
    plan = outcome.plan or outcome.baseline or eager_plan(ENGINES)
    if plan is not None:
        write(path, source.graphs[0], plan, machine=machine, gain=gain, open_for=open_for)
