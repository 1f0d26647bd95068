"""Makes the `ProjectFacts` of a project from the summaries of its files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import PurePosixPath

from jumar.base.findings import Finding
from jumar.convert.facts.modules import Modules, module_name
from jumar.convert.facts.python import Summary, joined
from jumar.convert.facts.use import Use, is_word, plain_key
from jumar.convert.facts.words import decide
from jumar.convert.model.project import FileFacts, ProjectFacts
from jumar.convert.rules.subject.triggers import CUDA_WORDS

_OUTSIDE = ("torch", "torch_npu", "apex")
"""Packages whose names count as CUDA's or the NPU's, whichever file imports them."""


def gather(summaries: Mapping[str, Summary], sources: Mapping[str, bytes]) -> tuple[ProjectFacts, list[Finding]]:
    """Return the facts of a project, and findings about its words.

    `summaries` holds the Python files, `sources` the bytes of all files, both by path from the root.
    """
    modules = Modules({path: summary for path, summary in summaries.items() if path.endswith((".py", ".pyw"))})
    exports = {module: dict(_exports(modules, module)) for module in modules.paths}
    words, findings = decide(*_words(summaries, sources))
    return ProjectFacts(
        exports=exports,
        words=words,
        files=_files(modules, exports),
        methods=_methods(modules),
    ), findings


def _exports(modules: Modules, module: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a module that stand for something of PyTorch, or for a class with methods of its own."""
    for name in dict.fromkeys(modules.names(module)):
        target = modules.export(module, name)
        if target is not None and (_is_outside(target) or modules.methods(target)):
            yield name, target


def _is_outside(name: str) -> bool:
    return name.partition(".")[0] in _OUTSIDE


def _aliases(*taken: Mapping[str, str]) -> frozenset[bytes]:
    """Return names that stand for something of CUDA and do not say so."""
    return frozenset(
        name.rpartition(".")[2].encode()
        for names in taken
        for name, target in names.items()
        if _speaks(target) and not _speaks(name)
    )


def _speaks(name: str) -> bool:
    lowered = name.lower().encode()
    return any(word in lowered for word in CUDA_WORDS)


def _words(
    summaries: Mapping[str, Summary], sources: Mapping[str, bytes]
) -> tuple[dict[str, list[Use]], dict[str, bytes]]:
    uses: dict[str, list[Use]] = {}
    unreadable: dict[str, bytes] = {}
    for path, data in sources.items():
        summary = summaries.get(path)
        if summary is None:
            if _holds_words(path, data.lower()):
                uses[path] = list(_uses_in_text(path, data))
        elif summary.parses:
            uses[path] = summary.uses
        elif re.search(rb"cuda|nccl", data, re.IGNORECASE):
            unreadable[path] = data
    return uses, unreadable


def _files(modules: Modules, exports: Mapping[str, Mapping[str, str]]) -> dict[str, FileFacts]:
    """Return what each file must know of the others; empty for files that import no such name."""
    passed_on: dict[str, set[str]] = defaultdict(set)
    names: dict[str, dict[str, str]] = {}
    stars: dict[str, dict[str, str]] = {}
    closed: dict[str, set[str]] = defaultdict(set)
    for path, summary in modules.summaries.items():
        names[path] = {
            **dict(_foreign(modules, path, summary)),
            **dict(_names(modules, exports, path, summary, passed_on)),
        }
        stars[path] = {}
        if any(_is_foreign(modules, path, written) for written in summary.stars):
            stars[path]["torch"] = "torch"
        for written in summary.stars:
            module = modules.module(path, written)
            if module is not None:
                found = {name: target for name, target in exports[module].items() if modules.offers(module, name)}
                stars[path].update(found)
                passed_on[module].update(found)
                if _is_closed(modules, module):
                    closed[path].add(written)
    built = {name for summary in modules.summaries.values() for name in summary.extensions}
    compiled = {path: frozenset(_compiled(summary, built)) for path, summary in modules.summaries.items()}
    found_facts = {
        path: FileFacts(
            module=module_name(path),
            names=names[path],
            stars=stars[path],
            closed_stars=frozenset(closed[path]),
            passed_on=frozenset(passed_on[module_name(path)]),
            aliases=_aliases(names[path], stars[path]) | _leaves(compiled[path]),
            sources=frozenset(_sources(modules, path, modules.summaries[path])),
            extensions=compiled[path],
            methods={
                target: own
                for target in sorted({*names[path].values(), *stars[path].values()})
                if (own := modules.methods(target))
            },
        )
        for path in modules.summaries
    }
    return {path: facts for path, facts in found_facts.items() if facts.says_something}


def _leaves(names: Iterable[str]) -> frozenset[bytes]:
    return frozenset(name.rpartition(".")[2].encode() for name in names)


def _sources(modules: Modules, path: str, summary: Summary) -> Iterator[str]:
    """Yield what a file imports that is Python of the project and may look like a compiled module (`._impl`)."""
    for written, name in summary.taken:
        module = modules.module(path, written)
        if module is None:
            continue
        yield written
        if name in modules.summaries[modules.paths[module]].names or f"{module}.{name}" in modules.paths:
            yield joined(written, name)
    yield from (written for written in summary.imports if modules.module(path, written) is not None)


def _compiled(summary: Summary, built: Set[str]) -> Iterator[str]:
    """Yield the modules that a file imports, as written, that the project compiles."""
    for written in {*summary.imports, *(name for taken in summary.taken for name in (taken[0], joined(*taken)))}:
        plain = written.lstrip(".")
        relative = plain != written
        if plain and any(
            plain == name or plain.endswith(f".{name}") or (relative and name.endswith(f".{plain}")) for name in built
        ):
            yield written


def _names(
    modules: Modules,
    exports: Mapping[str, Mapping[str, str]],
    path: str,
    summary: Summary,
    passed_on: dict[str, set[str]],
) -> Iterator[tuple[str, str]]:
    """Yield names as this file writes them (`..dev.cuda`, `utils.dev.cuda`) with what they stand for."""
    for written, name in summary.taken:
        module = modules.module(path, written)
        if module is None:
            continue
        passed_on[module].add(name)
        inner = f"{module}.{name}"
        full = f"{written}{name}" if written.endswith(".") else f"{written}.{name}"
        if inner in modules.paths and name not in exports[module]:
            yield from ((f"{full}.{leaf}", target) for leaf, target in exports[inner].items())
        elif name in exports[module]:
            yield full, exports[module][name]
    for written in summary.imports:
        module = modules.module(path, written)
        if module is not None:
            passed_on[module].update(exports[module])
            yield from ((f"{written}.{leaf}", target) for leaf, target in exports[module].items())


def _foreign(modules: Modules, path: str, summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield `torch` of modules outside the project (`from common import torch`): what else has that name is PyTorch."""
    for written, name in summary.taken:
        if name == "torch" and _is_foreign(modules, path, written) and not _is_foreign_module(modules, path, written):
            yield f"{written}.torch", "torch"
    for written in summary.imports:
        if _is_foreign(modules, path, written):
            yield f"{written}.torch", "torch"


def _is_foreign(modules: Modules, path: str, written: str) -> bool:
    """Tell whether a module is neither the project's nor PyTorch's, as far as its name tells."""
    root = written.partition(".")[0]
    return bool(root) and root not in _OUTSIDE and modules.module(path, written) is None


def _is_foreign_module(modules: Modules, path: str, written: str) -> bool:
    """Tell whether `from written import torch` brings a module of the project of that name."""
    return modules.module(path, f"{written}.torch") is not None


def _is_closed(modules: Modules, module: str) -> bool:
    """Tell whether everything a star import of a module can bring is known: no star of it leads out of the project."""
    return all(
        summary.parses and all(modules.module(path, written) is not None for written in summary.stars)
        for _, path, summary in modules.starred(module)
    )


def _methods(modules: Modules) -> dict[str, frozenset[str]]:
    found = {}
    for module, path in modules.paths.items():
        summary = modules.summaries[path]
        for name in {*summary.methods, *summary.bases}:
            own = modules.methods(f"{module}.{name}")
            if own:
                found[f"{module}.{name}"] = own
    return found


_CONFIGURATION = frozenset({".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".jsonc", ".json5"})
_SCRIPT = frozenset({".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".bat", ".mk"})
_SCRIPT_NAMES = re.compile(r"(?i)(docker|make)file.*|.*\.dockerfile")
_WORD = r"(?:cuda|gpu)(?::\d+)?|nccl|(?:\w+:\w+,)*cuda:nccl(?:,\w+:\w+)*"
_VALUE = rf"[\"']?(?P<word>{_WORD})[\"']?"
_KEY = r"(?:^|[{,\[])[ \t]*(?:-[ \t]+)?[\"']?(?P<key>[\w.@/-]+)[\"']?"
_ENTRY = re.compile(rf"(?im){_KEY}[ \t]*[:=][ \t]*{_VALUE}[ \t]*(?=[,}}\]#\r\n]|$)")
_ARGUMENT = re.compile(
    rf"(?im)(?<![\w-])(?P<key>--[\w.-]+|\+{{0,2}}[A-Za-z_][\w./@-]*(?==))(?:=|[ \t]+){_VALUE}(?![\w/.-])"
)
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def _holds_words(path: str, lowered: bytes) -> bool:
    """Tell whether a file that is not Python may hold words."""
    if b"cuda" not in lowered and b"nccl" not in lowered:
        return False
    return _is_configuration(path) or _is_script(path)


def _uses_in_text(path: str, data: bytes) -> Iterator[Use]:
    """Yield the uses of a configuration or script; a value that a template fills in tells nothing."""
    text = _TEMPLATE.sub(lambda match: " " * len(match.group()), data.decode("utf-8", "replace"))
    patterns = [_ENTRY] if _is_configuration(path) else [_ARGUMENT]
    for pattern in patterns:
        for match in pattern.finditer(text):
            if is_word(match["word"]):
                line = text.count("\n", 0, match.start("word")) + 1
                yield Use(key=plain_key(match["key"]), role="write", word=match["word"], line=line)


def _is_configuration(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in _CONFIGURATION


def _is_script(path: str) -> bool:
    name = PurePosixPath(path)
    return name.suffix.lower() in _SCRIPT or _SCRIPT_NAMES.fullmatch(name.name) is not None
