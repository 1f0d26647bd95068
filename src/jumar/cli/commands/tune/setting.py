"""`Setting`: what `jumar tune` reads from the environment, `aoe_config_file` and the machine; and its HTML page."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.cli.commands.tune.model import check_place, is_open_page, open_footer
from jumar.cli.help import more_option
from jumar.cli.options import with_options

if TYPE_CHECKING:
    from jumar.tune import TuneOptions, TuneResult
    from jumar.tune.job.tuner import MakeRunner
    from jumar.tune.measure.conditions.preconditions import Conditions
    from jumar.tune.measure.conditions.settings import AoeConfig, TuneEnvironment
    from jumar.tune.measure.worker.messages import Effort
    from jumar.tune.search.tasks.extract import Selection
    from jumar.tune.search.tasks.source import Source

EXIT_TERMINATED = 143
"""128 + SIGTERM, as a shell reports it."""
THOROUGH = 3
"""O1 and deeper_opat measure for this many times as long."""

_OPTIONS = (
    more_option(
        "--aoe-config-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE.json",
        help="The vendor's configuration file: tune_ops_name, tune_ops_type, tune_optimization_level, feature.",
    ),
    more_option(
        "--cluster",
        metavar="ADDRESS",
        help="Measure on the workers of a Ray cluster like this machine: ray://HOST:PORT, or local.  [default: here]",
    ),
    click.option(
        "--report",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE.html",
        help="Also write an HTML page.",
    ),
)


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--aoe-config-file`, `--cluster` and `--report`."""
    return with_options(command, _OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run is asked to do besides its options."""

    environment: TuneEnvironment
    config: AoeConfig | None
    conditions: Conditions
    thorough: bool = False
    """O1, or deeper_opat of job type 2."""

    def selection(self, given: Selection | None = None) -> Selection | None:
        """Return which operators are meant: `given` by `--tune-ops-file`, or by the configuration file; None for all.

        Raises UsageError where both name some.
        """
        from jumar.tune.search.tasks.extract import Selection

        config = self.config
        if config is None or not (config.names or config.types):
            return given
        if given is not None:
            raise UsageError(
                f"--tune-ops-file {given.source} and --aoe-config-file {config.source} both say which operators are "
                "tuned. Leave --tune-ops-file out, or tune_ops_name and tune_ops_type of the other."
            )
        return Selection(names=frozenset(config.names), types=frozenset(config.types), source=config.source)

    def applied(self, options: TuneOptions) -> TuneOptions:
        """Return `options` with REPEAT_TUNE, RUN_LOOP and the optimization level."""
        return replace(
            options,
            repeat=self.environment.repeat,
            screening=self._effort(options.screening),
            confirmation=self._effort(options.confirmation),
        )

    def conditions_for(self, source: Source | Path) -> Conditions:
        """Return the conditions with what the greatest of the source's graphs holds: its weights and inputs."""
        from jumar.tune.measure.conditions.preconditions import conditions_of

        graphs = () if isinstance(source, Path) else source.graphs
        sizes = [captured.data.stat().st_size for captured in graphs if captured.data.is_file()]
        known = self.conditions
        return conditions_of(
            known.surroundings, self.environment, job_type=known.job_type, device=known.device,
            data_bytes=max(sizes, default=0), thorough=known.thorough,
        )  # fmt: skip

    def _effort(self, effort: Effort) -> Effort:
        longer = THOROUGH if self.thorough else 1
        return replace(
            effort,
            seconds=effort.seconds * longer,
            max_pairs=effort.max_pairs * longer,
            min_calls=self.environment.run_loop or effort.min_calls,
        )


def setting_of(
    job_type: int, aoe_config_file: Path | None, device: str, *, data_bytes: int = 0, is_deep: bool = False
) -> Setting:
    """Read the environment and the configuration file and look at the machine.

    `is_deep` is the value of deeper_opat in the file. It makes the measurements of operators longer.
    Raises UsageError, InputError, OutputError or TuneError in one sentence, also where a run cannot work at all.
    """
    from jumar.tune.measure.conditions.preconditions import conditions_of, look_around
    from jumar.tune.measure.conditions.settings import TuneEnvironment, read_aoe_config
    from jumar.tune.measure.options import JOB_OPERATORS

    environment = TuneEnvironment.read(os.environ)
    config = read_aoe_config(aoe_config_file, job_type) if aoe_config_file is not None else None
    thorough = (is_deep and job_type == JOB_OPERATORS) or (config is not None and config.thorough)
    conditions = conditions_of(
        look_around(os.environ, environment), environment, job_type=job_type, device=device, data_bytes=data_bytes,
        thorough=thorough,
    )  # fmt: skip
    conditions.refuse_impossible()
    return Setting(environment=environment, config=config, conditions=conditions, thorough=thorough)


def runner_of(cluster: str | None) -> MakeRunner | None:
    """Return what makes the runner of `--cluster`; None without one. Raises UsageError for what is no address."""
    if cluster is None:
        return None
    from jumar.base.outside.ray import parse_address
    from jumar.tune.measure.cluster import Cluster

    address = parse_address(cluster)
    return lambda providers, machine: Cluster(address, providers, machine)


def check_report(path: Path | None, source: str) -> None:
    """Refuse, before an hour of tuning, a page of `source` that could not be written after it. Raises OutputError."""
    if path is not None:
        check_place(path, "--report", lambda found: is_open_page(found, source))


def write_report(path: Path, source: str, result: TuneResult) -> None:
    """Write the page of a run that tuned `source`. Raises OutputError when it cannot be written."""
    from jumar.base.files import write_result
    from jumar.show import render_html
    from jumar.show.tuning.page import tuning_page

    page = replace(tuning_page(result), footer=open_footer(source) if result.stopped_by else "")
    write_result(path, render_html(page), force=is_open_page(path, source))
