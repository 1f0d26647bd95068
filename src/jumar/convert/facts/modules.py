"""The modules of a project: their names, the file that an import means, and what a name of a module stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath

from jumar.convert.facts.python import OWN_METHODS, Summary, joined

_NEVER_LOCAL = frozenset({"torch", "torch_npu", "torchvision", "torchaudio"})
_MAX_DEPTH = 12


def module_name(path: str) -> str:
    """Return the dotted name of a file, seen from the root: `utils/dev.py` and `utils/dev/__init__.py`: utils.dev."""
    head, _, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    parts = head.replace("/", ".") if head else ""
    return parts if stem == "__init__" else f"{parts}.{stem}" if parts else stem


class Modules:
    """Resolves names through the files of one project. Summaries are by path, relative to the root."""

    def __init__(self, summaries: Mapping[str, Summary]) -> None:
        self.summaries = summaries
        self.paths: dict[str, str] = {}
        for path in sorted(summaries):
            self.paths.setdefault(module_name(path), path)
        self._roots = sorted({root for path in summaries for root in _import_roots(path, summaries)})
        self.module = cache(self._module)
        self.export = cache(self._export)
        self.methods = cache(self._methods)

    def _module(self, path: str, written: str) -> str | None:
        """Return the module of the project that `written` (`utils.dev`, `..dev`) means in the file `path`."""
        folder = path.split("/")[:-1]
        if written.startswith("."):
            rest = written.lstrip(".")
            level = len(written) - len(rest)
            if level > len(folder) + 1:
                return None
            found = ".".join([*folder[: len(folder) - level + 1], *([rest] if rest else [])])
            return found if found in self.paths else None
        if written.partition(".")[0] in _NEVER_LOCAL:
            return None
        for prefix in (*(".".join(folder[:end]) for end in range(len(folder), -1, -1)), *self._roots):
            found = f"{prefix}.{written}" if prefix else written
            if found in self.paths:
                return found
        return None

    def _export(self, module: str, name: str, depth: int = 0) -> str | None:
        """Return what `name` of a module stands for: `torch.cuda`, or `utils.dev.Wrapper`; None when unknown."""
        if depth > _MAX_DEPTH:
            return None
        path = self.paths[module]
        summary = self.summaries[path]
        target = summary.names.get(name)
        if target is None:
            inner = f"{module}.{name}"
            return inner if inner in self.paths else self._by_star(path, summary, name, depth)
        if not target:
            return f"{module}.{name}" if name in summary.methods or name in summary.bases else None
        if target.startswith("="):
            return self.written(path, target[1:], depth + 1) if target[1:].partition(".")[0] != name else None
        return self.qualify(path, target, depth + 1)

    def _by_star(self, path: str, summary: Summary, name: str, depth: int) -> str | None:
        found = set()
        for star in summary.stars:
            module = self.module(path, star)
            if module is not None and self.offers(module, name):
                found.add(self.export(module, name, depth + 1))
        return found.pop() if len(found) == 1 else None

    def offers(self, module: str, name: str) -> bool:
        """Tell whether a star import of a module brings a name."""
        public = self.summaries[self.paths[module]].public
        return name in public if public is not None else not name.startswith("_")

    def written(self, path: str, name: str, depth: int = 0) -> str | None:
        """Return what a dotted name, read in the module scope of a file, stands for."""
        root, _, rest = name.partition(".")
        found = self.export(module_name(path), root, depth)
        if found is None:
            return None
        return self.within(found, rest, depth) if rest else found

    def qualify(self, path: str, name: str, depth: int = 0) -> str:
        """Return what an import of `name` (absolute, or relative to the file) brings."""
        parts = name.split(".")
        level = len(name) - len(name.lstrip("."))
        for end in range(len(parts), level, -1):
            module = self.module(path, ".".join(parts[:end]) if not level else "." * level + ".".join(parts[level:end]))
            if module is not None:
                return self.within(module, ".".join(parts[end:]), depth)
        if level:
            module = self.module(path, "." * level)
            if module is not None:
                return self.within(module, name.lstrip("."), depth)
        return name

    def within(self, base: str, rest: str, depth: int = 0) -> str:
        """Return what `rest`, attributes of `base`, stands for, as far as the project shows."""
        for part in rest.split(".") if rest else ():
            found = self.export(base, part, depth) if base in self.paths else None
            base = found if found is not None else f"{base}.{part}"
        return base

    def names(self, module: str) -> Iterator[str]:
        """Yield the names that a module has, those of its own star imports included."""
        for current, _, summary in self.starred(module):
            yield from (name for name in summary.names if current == module or self.offers(current, name))

    def starred(self, module: str) -> Iterator[tuple[str, str, Summary]]:
        """Yield a module and those that its star imports lead to: name, path and summary of each."""
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            path = self.paths[current]
            summary = self.summaries[path]
            yield current, path, summary
            waiting += [star for written in summary.stars if (star := self.module(path, written)) is not None]

    def _methods(self, name: str, depth: int = 0) -> frozenset[str]:
        """Return which of the tensors' own method names the class `name` of the project defines or inherits."""
        module, _, leaf = name.rpartition(".")
        if module not in self.paths or depth > _MAX_DEPTH:
            return frozenset()
        path = self.paths[module]
        summary = self.summaries[path]
        found = set(summary.methods.get(leaf, ()))
        for base in summary.bases.get(leaf, ()):
            qualified = self.written(path, base)
            if qualified is not None and qualified != name:
                found |= self.methods(qualified, depth + 1)
        return frozenset(found & OWN_METHODS)


def _import_roots(path: str, summaries: Mapping[str, Summary]) -> Iterator[str]:
    """Yield the folder above the outermost package of a file: what a layout with `src/` has on Python's path."""
    folder = PurePosixPath(path).parent
    top = None
    while folder.parts and f"{folder.as_posix()}/__init__.py" in summaries:
        top, folder = folder, folder.parent
    if top is not None:
        yield ".".join(top.parent.parts)


__all__ = ["Modules", "joined", "module_name"]
