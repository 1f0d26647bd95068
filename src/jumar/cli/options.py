"""Options that several commands share, with one wording and one check each."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.base.findings import Finding, Severity, worst
from jumar.base.text import SIZE_HELP, parse_size
from jumar.cli.complete import socs
from jumar.cli.help import more_option
from jumar.soc import DEFAULT_SOC

if TYPE_CHECKING:
    from jumar.device import DevicePlan
    from jumar.device.plan import Kind, Numerics, Unsupported
    from jumar.tune.bank.store import Bank


soc_option = click.option(
    "--soc",
    default=DEFAULT_SOC,
    show_default=True,
    metavar="SOC",
    shell_complete=socs,
    help="The NPU's system on a chip, e.g. Ascend910A.",
)
TORCH_VERSION_HELP = (
    "Release of PyTorch and torch_npu to work for.  [default: that of the torch_npu or torch installed here, else the "
    "newest known]"
)
torch_version_option = more_option("--torch-version", default=None, metavar="VERSION", help=TORCH_VERSION_HELP)
json_only_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document to stdout instead of text."
)

"""For commands whose answer has one length."""


def _print_whole(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Have pages printed whole until the command ends."""
    if asked and not context.resilient_parsing:
        from jumar.show.terminal.length import whole_pages

        token = whole_pages.set(True)
        context.call_on_close(lambda: whole_pages.reset(token))


_VERBOSE = click.option(
    "--verbose", is_flag=True, expose_value=False, callback=_print_whole, help="Print all of it, not one screen."
)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the two options of longer answers: `--verbose`, and `--json` as the argument `as_json`."""
    return _VERBOSE(json_only_option(command))


bank_option = more_option(
    "--bank",
    metavar="PLACE",
    help="Folder of the knowledge bank, or the URL of a database that a team shares.  [default: TUNE_BANK_PATH, "
    "ASCEND_CACHE_PATH/aoe_data, ~/.local/share/jumar]",
)
force_option = click.option("--force", is_flag=True, help="Replace an existing output folder.")
report_option = click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.html", help="Also write an HTML page."
)
fail_on_option = more_option(
    "--fail-on",
    type=click.Choice(["advice", "warning", "error", "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 when a finding is at least this severe.",
)


def chosen_release(asked: str | None) -> str:
    """Return the release of torch_npu that counts; say on stderr where neither the user nor this machine names it.

    Raises DeviceError where the one asked for is not known.
    """
    from jumar.soc.support.releases import chosen

    found = chosen(asked)
    if found.is_assumed:
        click.echo(f"torch_npu {found.name} counts, {found.origin}. Name another one with --torch-version.", err=True)
    return found.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Npu:
    """The NPU that the options below ask for."""

    soc: str
    numerics: Numerics
    unsupported: Unsupported
    memory_bytes: int | None
    single_device: bool

    def plan(self, kind: Kind = "npu") -> DevicePlan:
        """Return the device plan of a run on it."""
        from jumar.device import DevicePlan

        return DevicePlan(
            kind=kind,
            soc=self.soc,
            numerics=self.numerics,
            unsupported=self.unsupported,
            memory_bytes=self.memory_bytes,
            single_device=self.single_device,
        )

    def plan_for(self, device: str) -> DevicePlan:
        """Return the plan of a run on `npu`, `cpu` or `cuda`; where there is no CUDA, CPU kernels stand in for it."""
        if device != "cuda":
            return self.plan("npu" if device == "npu" else "cpu")
        import torch

        return self.plan("cuda" if torch.cuda.is_available() else "cuda-stand-in")


_NPU_OPTIONS = (
    soc_option,
    more_option(
        "--numerics",
        type=click.Choice(["strict", "exact"]),
        default="strict",
        show_default=True,
        help="Emulated NPU only. strict: round, saturate and refuse dtypes as the SoC does; exact: the CPU's bits.",
    ),
    more_option(
        "--unsupported",
        type=click.Choice(["warn", "error", "fallback"]),
        default="warn",
        show_default=True,
        help="Emulated NPU only: what an operator without an NPU kernel does. warn: as the vendor's build, on the "
        "host with one warning, or an error; error: always an error; fallback: on the host, silently.",
    ),
    more_option(
        "--npu-memory",
        "memory",
        metavar="SIZE",
        help="Emulated NPU only: memory of one device, e.g. 32GB or 512MiB. " + SIZE_HELP + "  [default: the SoC's]",
    ),
    more_option(
        "--single-device",
        is_flag=True,
        help="Emulated NPU only: a thread may use one device, as in the first releases of torch_npu.",
    ),
)


def npu_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of the NPU. The command gets them as one keyword argument `npu`."""

    @functools.wraps(command)
    def call(*, memory: str | None, **given: Any) -> Any:
        size = None if memory is None else parse_size(memory, "--npu-memory")
        own = {name: given.pop(name) for name in ("soc", "numerics", "unsupported", "single_device")}
        return command(npu=Npu(memory_bytes=size, **own), **given)

    return with_options(call, _NPU_OPTIONS)


def with_options(command: Callable[..., Any], options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Give a command options, which its help shows in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def exit_code(findings: Iterable[Finding], fail_on: str) -> int:
    """Return 1 when a finding is at or above `fail_on` (a severity name or `never`), else 0."""
    if fail_on == "never":
        return 0
    severity = worst(findings)
    return int(severity is not None and severity >= Severity.parse(fail_on))


def parse_steps(text: str | None) -> tuple[int, int] | None:
    """Return (first, end) from `START:END`, `:END` or `N` (= 0:N); None for None.

    Raises UsageError when the text has another form or START < END does not hold.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(?:(\d*):)?(\d+)", text.strip())
    if match is None:
        raise UsageError(f'"--steps {text}" must be START:END or a count, with whole numbers. Try --steps 0:3.')
    first, end = int(match[1] or 0), int(match[2])
    if first >= end:
        hint = f"{end}:{first}" if first > end else f"{first}:{end + 1}"
        raise UsageError(
            f'"--steps {text}" must be START:END with START < END; got {first} >= {end}. Try --steps {hint}.'
        )
    return first, end


def parse_rank_pairs(text: str | None) -> tuple[tuple[int, int], ...]:
    """Return ((0, 0), (1, 2)) from `0:0,1:2`; a single rank stands for the same on both sides; () for None.

    Raises UsageError when the text has another form.
    """
    if text is None:
        return ()
    pairs = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?::(\d+))?\s*", part)
        if match is None:
            raise UsageError(f'"--ranks {text}" must be ranks or pairs of them, with commas. Try --ranks 0:0,1:1.')
        pairs.append((int(match[1]), int(match[2] or match[1])))
    return tuple(pairs)


def open_bank(option: str | None, *, create: bool = False) -> Bank:
    """Return the bank that `--bank` names, the built-in layer beneath it. Raises BankError."""
    from jumar.tune.bank.location import bank_place, built_in_place
    from jumar.tune.bank.store import Bank

    below = built_in_place(os.environ)
    beneath = Bank.open(below, create=False) if below is not None else None
    return Bank.open(bank_place(option, os.environ, writing=create), create=create, beneath=beneath)


def open_layers(option: str | None) -> Bank:
    """Return the bank that `--bank` names above the built-in layer, or that alone, read only. Raises BankError."""
    from jumar.tune.bank.location import bank_place, built_in_place
    from jumar.tune.bank.store import Bank

    return Bank.layers(bank_place(option, os.environ), built_in_place(os.environ))
