"""Entry point of `jumar`: finds the command, runs it, and turns errors into exit codes.

Commands are imported only when they are run, so that `jumar --help` answers at once.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from collections import Counter
from typing import Any

import click

from jumar.base.errors import JumarError, UsageError
from jumar.base.text.language import chosen, translate, use
from jumar.cli.config import check_top, defaults, read_config
from jumar.cli.help import has_more, help_all_option, short_text, shows_all, told, write_options, write_usage

COMMANDS = {
    "port": "Take a CUDA training script to the NPU: assess, convert, run, compare, advise.",
    "assess": "Tell which operators and calls of a script the NPU supports.",
    "convert": "Rewrite CUDA sources for the NPU.",
    "run": "Run a script with the NPU present (the real one, or the emulated one).",
    "record": "Run a script under the observer and write a recording.",
    "profile": "Run a script under the profiler: operators, data loader, host, pauses.",
    "compare": "Name the first operator that differs between two recordings.",
    "replay": "Execute recorded operators again: own error, reference's, inherited.",
    "overflow": "Name the first operator that makes NaN or Inf of finite values.",
    "dump": "List and convert dumps: HDF5, .npy, msprobe, text.",
    "repro": "Write a recorded operator as a script of its own.",
    "accuracy": "Find by experiment which operators open a gap between losses.",
    "advise": "Name the bottlenecks of a recording.",
    "tune": "Find faster ways to compute a recording's operators, and prove each.",
    "bank": "Look into the knowledge bank of tuning.",
    "doctor": "Check the environment, and name the first error of a log.",
    "export": "Make a checkpoint ready for another device or framework.",
    "view": "Look at everything Jumar left in a folder, in the browser.",
    "rule": "Explain a rule.",
    "docs": "Print a guide.",
    "config": "Show the defaults that jumar.toml or pyproject.toml set, and where each comes from.",
    "completion": "Print the completion script of a shell.",
}
"""Command name to its line in `jumar --help`; the command itself is `command` in `jumar.cli.commands.<name>`."""

UNCONFIGURED = frozenset({"config", "completion", "docs"})
"""Commands that no file has defaults for."""
EXIT_FINE, EXIT_USAGE, EXIT_INTERNAL = 0, 2, 3
EXIT_INTERRUPTED = 130


class Command(click.Command):
    """Refuses an option that is given twice, unless it collects values: click takes the last one without a word.

    Its help has two lengths (`jumar.cli.help`).
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context, with the defaults that a configuration file sets. Raises InputError for wrong ones."""
        if parent is not None and "default_map" not in extra and info_name not in UNCONFIGURED:
            words = [*parent.command_path.split()[1:], str(info_name)]
            config = read_config()
            check_top(config, [*COMMANDS])
            use(config.language)
            extra["default_map"] = defaults(config, words, self)
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with `--help-all` where it would show more than `--help`."""
        found = super().get_params(ctx)
        return [*found[:-1], help_all_option(), *found[-1:]] if has_more(self) and self.add_help_option else found

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does: all of it, or the first paragraph and the examples."""
        whole = self.help
        try:
            self.help = None if whole is None else told(whole if shows_all(ctx) else short_text(whole))
            super().format_help_text(ctx, formatter)
        finally:
            self.help = whole

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the line of usage."""
        write_usage(self, ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usual options, or all."""
        write_options(self, ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line. Raises UsageError for an option that is given twice."""
        if not ctx.resilient_parsing:
            try:
                _, _, order = self.make_parser(ctx).parse_args(list(args))
            except click.NoSuchOption as error:
                raise click.UsageError(f"{error.format_message()}{self._hint(ctx, error)}", ctx) from error
            check_given_once(order)
        return super().parse_args(ctx, args)

    def _hint(self, ctx: click.Context, error: click.NoSuchOption) -> str:
        """Return where a script's own options stand, if this command takes them after `--`; else nothing."""
        taken = [one for one in self.params if isinstance(one, click.Argument) and one.nargs < 0]
        if not any("[-- " in one.make_metavar(ctx) for one in taken):
            return ""
        return f" Options of the script follow `--`: {ctx.command_path} SCRIPT -- {error.option_name} …"


def check_given_once(order: list[click.Parameter]) -> None:
    """Raise UsageError for an option with a value that stands in `order` twice; a flag means the same twice."""
    single = [
        one
        for one in order
        if isinstance(one, click.Option) and not (one.multiple or one.count or one.is_flag or one.nargs < 0)
    ]
    for option, number in Counter(single).items():
        if number > 1:
            names = " or ".join(option.opts)
            raise UsageError(f'"{names}" was given {number} times and takes one value. Give it once.')


class Group(click.Group):
    """A group of such commands. It names the near ones of a command that it does not have."""

    command_class = Command
    group_class = type

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the line of usage."""
        write_usage(self, ctx, formatter)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the group is for."""
        whole = self.help
        try:
            self.help = None if whole is None else told(whole)
            super().format_help_text(ctx, formatter)
        finally:
            self.help = whole

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words begin with. Raises click.UsageError for one that is not there."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            known = self.list_commands(ctx)
            near = difflib.get_close_matches(name, known, n=2) or [one for one in known if name in one]
            hint = f"Did you mean {' or '.join(near)}?" if near else f"Try one of {', '.join(known)}."
            raise click.UsageError(f"No such command '{name}'. {hint}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group that knows its commands' names and help lines without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"jumar.cli.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command table from `COMMANDS`, without importing a command."""
        with formatter.section(translate("Commands")):
            formatter.write_dl([(name, translate(text)) for name, text in COMMANDS.items()])


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from jumar.cli.version import version_text

        click.echo(version_text())
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of Jumar and of what it works with, and exit.",
)
def cli() -> None:
    """Bring PyTorch models from GPUs to Ascend NPUs, with proof that nothing got worse.

    Start with: jumar port train.py -- --epochs 1
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 fine; 1 findings at or above --fail-on; 2 wrong use (one sentence on stderr, no traceback);
    3 a defect of Jumar (with its traceback); 130 stopped with Ctrl-C.
    """
    try:
        code = cli.main(args=arguments, prog_name="jumar", standalone_mode=False)
    except click.ClickException as error:
        _show(error)
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo(translate("Stopped."), err=True)
        return EXIT_INTERRUPTED
    except JumarError as error:
        click.echo(f"jumar: {translate(str(error))}", err=True)
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - the last line of defence turns a defect into exit code 3
        return _tell(error)
    return code if isinstance(code, int) else EXIT_FINE


def _show(error: click.ClickException) -> None:
    """Print a wrong use as click does: the line of usage, where to read more, and what is wrong."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if chosen() == "en" or context is None:
        error.show(sys.stderr)
        return
    click.echo(context.get_usage(), err=True)
    more = translate(f"Try '{context.command_path} --help' for help.")
    click.echo(f"{more}\n", err=True)
    click.echo(f"{translate('Error:')}{translate(error.format_message())}", err=True)


def _tell(error: Exception) -> int:
    """Print what went wrong, and return the exit code: PyTorch is not there, or Jumar has a defect."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        click.echo(f"jumar: {NO_TORCH}", err=True)
        return EXIT_USAGE
    traceback.print_exc()
    text = "a defect of Jumar, not of your input; please report it with the lines above."
    click.echo(f"jumar: {translate(text)}", err=True)
    return EXIT_INTERNAL


NO_TORCH = (
    "this needs PyTorch, which is not installed here. Install the one of your machine, or pip install 'jumar[torch]'. "
    "Recordings are read, and MindSpore scripts recorded, without it."
)


def run() -> None:
    """Console-script entry: exit with the code `main` returns."""
    sys.exit(main())
