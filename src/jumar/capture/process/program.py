"""`Program`: what a user starts: a script, a module, or a launcher that starts one of these in several processes.

`parse_program` reads it from the words of a command line, as a shell would get them.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from jumar.base.errors import ScriptError, UsageError
from jumar.capture.process.shell import commands

Kind = Literal["script", "module", "shell"]

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*(\.exe)?")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_LAUNCH = "torch.distributed.launch"
_PLAIN_FLAGS = frozenset({"-u", "-B", "-s", "-q", "-E", "-O"})
_FLAGS_WITH_VALUE = frozenset({"-W", "-X"})
"""Flags of Python that change no result of a training."""
_DEEPEST = 4
"""Shell scripts that start others are followed so far."""

_RANK_ERROR = re.compile(
    r"(?:KeyError: '|environment variable )(LOCAL_RANK|RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a command line starts."""

    kind: Kind
    name: str
    """Path of the script or shell script as given, or the module's dotted name."""
    arguments: tuple[str, ...] = ()
    launcher: str = ""
    """What starts the processes (`torchrun`), where `name` is its module; empty without one."""
    launched: Program | None = None
    """Of a launcher: what each of its processes runs."""
    launched_at: int = 0
    """Of a launcher: where in `arguments` the name of `launched` stands."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that start it."""
        if self.kind == "module":
            return ("-m", self.name, *self.arguments)
        return (*(("bash",) if self.kind == "shell" else ()), self.name, *self.arguments)

    @property
    def title(self) -> str:
        """What to call it in a sentence: the script or module, and the launcher."""
        return f"{self.inner.name} by {self.launcher}" if self.launcher else self.name

    @property
    def shown(self) -> tuple[str, ...]:
        """The words as a person types them."""
        if self.launcher and self.launcher != self.name:
            return (*self.launcher.split(), *self.arguments)
        return self.words

    @property
    def inner(self) -> Program:
        """What does the training: the launched program of a launcher, else the program itself."""
        return self if self.launched is None else self.launched

    @property
    def entries(self) -> tuple[Path, ...]:
        """Python files of the user's that the program starts with. Raises ScriptError where one is missing."""
        inner = self.inner
        if inner.kind == "script":
            return (Path(inner.name),)
        if inner.kind == "shell":
            return tuple({file.absolute(): file for file in _started_by(Path(inner.name), inner.arguments)}.values())
        return (module_file(inner.name),)

    def through(self, file: Path) -> tuple[str, ...]:
        """Return a launcher's arguments with which each process runs a Python file with the words of `launched`."""
        if self.launched is None:
            return self.arguments
        options = [word for word in self.arguments[: self.launched_at] if word not in {"-m", "--module"}]
        return (*options, str(file), *self.launched.words)

    def with_entries(self, place: Callable[[Path], Path]) -> Program:
        """Return the program with its scripts where `place` has them."""
        if self.launched is not None:
            launched = self.launched.with_entries(place)
            arguments = list(self.arguments)
            arguments[self.launched_at] = launched.name
            return replace(self, launched=launched, arguments=tuple(arguments))
        return self if self.kind == "module" else replace(self, name=str(place(Path(self.name))))


def of_script(script: Path, arguments: Sequence[str] = ()) -> Program:
    """Return the program that a script is by itself."""
    return Program(kind="script", name=str(script), arguments=tuple(arguments))


def parse_program(words: Sequence[str]) -> Program:
    """Return the program that these words start.

    Understood are a script; `-m MODULE`; `python` before either; `torchrun`, `python -m torch.distributed.run` and
    `.launch`, `accelerate launch`, `deepspeed`, each with its options and a script or module; a shell script.

    Raises UsageError where nothing is named or an option is missing, ScriptError for a launcher that is not installed.
    """
    if not words:
        raise UsageError("no script is named. Name the script that starts the training, e.g. train.py.")
    first, rest = words[0], list(words[1:])
    name = Path(first).name
    if first == "-m":
        return _module(rest)
    if _INTERPRETER.fullmatch(name):
        return _python(first, rest)
    if name in _SHELLS:
        return _shell(name, rest)
    launcher = _LAUNCHERS.get(name)
    if launcher is not None and (name != "accelerate" or rest[:1] == ["launch"]):
        return _launched(*launcher, rest[1:] if name == "accelerate" else rest)
    if name.endswith(".sh") or _is_shell_script(Path(first)):
        return Program(kind="shell", name=first, arguments=tuple(rest))
    return Program(kind="script", name=first, arguments=tuple(rest))


def missing_rank(error: str) -> str:
    """Return a launcher's variable (`LOCAL_RANK`) that is not set, as a script's error says; empty for other errors."""
    lines = error.strip().splitlines()
    found = _RANK_ERROR.search(lines[-1]) if lines else None
    return found.group(1) if found is not None else ""


def by_torchrun(program: Program) -> tuple[str, ...]:
    """Return the words that start a script or module in two processes."""
    return ("torchrun", "--standalone", "--nproc-per-node", "2", *program.words)


def is_starter(word: str) -> bool:
    """Return whether a command's first word starts a script that is named after it: Python, a launcher, a shell."""
    name = Path(word).name
    return bool(_INTERPRETER.fullmatch(name)) or name in _SHELLS or name in _LAUNCHERS or name.endswith(".sh")


def module_file(name: str) -> Path:
    """Return the file that `python -m name` runs from the working folder. No package is imported for it.

    Raises ScriptError where there is none.
    """
    top, *parts = name.split(".")
    for folder in _folders_of(top):
        place = folder.joinpath(*parts)
        for file in (place / "__main__.py", place.with_suffix(".py") if parts else place):
            if file.is_file():
                return file
    raise ScriptError(
        f"there is no module {name} that could be run from {Path.cwd()}. Check its name, or run from the folder "
        "that holds its package."
    )


def _folders_of(top: str) -> Iterator[Path]:
    """Yield where a package of this name, or a module's file, may lie: the working folder, then where imports look."""
    for place in (Path.cwd() / top, Path.cwd() / f"{top}.py"):
        if place.exists():
            yield place
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        return
    if spec is not None and spec.submodule_search_locations is not None:
        yield from map(Path, spec.submodule_search_locations)
    elif spec is not None and spec.origin is not None and spec.has_location:
        yield Path(spec.origin)


def _python(interpreter: str, rest: list[str]) -> Program:
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        if rest[0] not in _PLAIN_FLAGS | _FLAGS_WITH_VALUE:
            raise UsageError(
                f"{interpreter} {rest[0]}: the script runs in Jumar's own Python, which does not take {rest[0]}. "
                "Name the script without it."
            )
        rest = rest[2 if rest[0] in _FLAGS_WITH_VALUE else 1 :]
    return parse_program(rest)


def _module(rest: list[str]) -> Program:
    if not rest:
        raise UsageError("-m names no module. Name one, e.g. -m package.train.")
    launcher = {launcher[1]: launcher for launcher in _LAUNCHERS.values()}.get(rest[0])
    if launcher is not None:
        return _launched(*launcher, rest[1:])
    return Program(kind="module", name=rest[0], arguments=tuple(rest[1:]))


def _shell(name: str, rest: list[str]) -> Program:
    if not rest or rest[0].startswith("-"):
        raise UsageError(
            f"{name} is to be followed by a shell script; got {' '.join(rest) or 'nothing'}. Name its file."
        )
    return Program(kind="shell", name=rest[0], arguments=tuple(rest[1:]))


def _is_shell_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.readline(200)
    except (OSError, ValueError):
        return False
    return head.startswith(b"#!") and any(head.split()[-1].endswith(shell.encode()) for shell in _SHELLS)


def _started_by(shell: Path, arguments: Sequence[str], depth: int = 0) -> Iterator[Path]:
    """Yield the Python files that a shell script's commands start, seen from here or from its folder.

    Files that it names otherwise (`$RUN train.py`) come last.
    """
    try:
        text = shell.read_text("utf-8", errors="replace")
    except OSError as error:
        raise ScriptError(f"{shell} cannot be read: {error.strerror}. Check the name of the script.") from error
    places = (Path.cwd(), shell.absolute().parent)
    for words in commands(shell, text, arguments):
        program = _program_of(words)
        if program is None:
            continue
        if program.inner.kind == "module":
            with suppress(ScriptError):
                yield module_file(program.inner.name)
            continue
        found = next((p / program.inner.name for p in places if (p / program.inner.name).is_file()), None)
        if found is not None and program.inner.kind == "script":
            yield found
        elif found is not None and depth < _DEEPEST:
            yield from _started_by(found, program.inner.arguments, depth + 1)
    names = re.findall(r"[\w./+-]+\.py\b", text)
    yield from (found for name in names if (found := next((p / name for p in places if (p / name).is_file()), None)))


def _program_of(words: list[str]) -> Program | None:
    """Return the program that a command of a shell script starts, None where it starts no Python."""
    if not is_starter(words[0]):
        return None
    try:
        return parse_program(words)
    except (UsageError, ScriptError):
        return None


def _launched(launcher: str, module: str, package: str, rest: list[str]) -> Program:
    """Return a launcher's program. The launcher's own parser tells its options from the script."""
    if importlib.util.find_spec(package) is None:
        raise ScriptError(f"{launcher} is not installed here. Install {package}, or start the script with torchrun.")
    from jumar.capture.plans.claims import claim

    claim()  # parsing imports torch: this process is not one of the run
    options = _quietly(launcher, _PARSERS[module], rest)
    script, arguments = _script_of(options)
    if not script:
        raise UsageError(f"{launcher} is to start a script, and none is named. Add it with its arguments at the end.")
    kind: Kind = "module" if getattr(options, "module", False) else "script"
    return Program(
        kind="module",
        name=module,
        arguments=tuple(rest),
        launcher=launcher,
        launched=Program(kind=kind, name=script, arguments=tuple(arguments)),
        launched_at=len(rest) - len(arguments) - 1,
    )


def _quietly(launcher: str, parse: Callable[[list[str]], object], rest: list[str]) -> object:
    """Return the options that a launcher's parser finds. Raises UsageError where it would end the process."""
    import contextlib
    import io

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse(rest)
    except SystemExit as stop:
        if not stop.code:
            raise  # --help
        lines = said.getvalue().strip().splitlines()
        reason = lines[-1].partition("error: ")[2] or lines[-1] if lines else f"exit code {stop.code}"
        raise UsageError(f"{launcher} refuses its options: {reason}. See {launcher} --help.") from stop


def _script_of(options: object) -> tuple[str, list[str]]:
    for name, further in (("training_script", "training_script_args"), ("user_script", "user_args")):
        if hasattr(options, name):
            return str(getattr(options, name) or ""), list(getattr(options, further) or [])
    return "", []


def _parse_torchrun(rest: list[str]) -> object:
    return importlib.import_module("torch.distributed.run").get_args_parser().parse_args(rest)


def _parse_launch(rest: list[str]) -> object:
    return importlib.import_module(_LAUNCH).parse_args(rest)


def _parse_accelerate(rest: list[str]) -> object:
    return importlib.import_module("accelerate.commands.launch").launch_command_parser().parse_args(rest)


def _parse_deepspeed(rest: list[str]) -> object:
    return importlib.import_module("deepspeed.launcher.runner").parse_args(rest)


_LAUNCHERS: dict[str, tuple[str, str, str]] = {
    "torchrun": ("torchrun", "torch.distributed.run", "torch"),
    _LAUNCH: (_LAUNCH, _LAUNCH, "torch"),
    "accelerate": ("accelerate launch", "accelerate.commands.launch", "accelerate"),
    "accelerate-launch": ("accelerate launch", "accelerate.commands.launch", "accelerate"),
    "deepspeed": ("deepspeed", "deepspeed.launcher.runner", "deepspeed"),
}
"""By command: the launcher's name, the module that runs it, the package that has it."""

_PARSERS: dict[str, Callable[[list[str]], object]] = {
    "torch.distributed.run": _parse_torchrun,
    _LAUNCH: _parse_launch,
    "accelerate.commands.launch": _parse_accelerate,
    "deepspeed.launcher.runner": _parse_deepspeed,
}
