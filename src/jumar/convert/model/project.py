"""`ProjectFacts`: what the files of a project know of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What one file must know of the others to resolve the names it takes from them."""

    module: str = ""
    """The file's own dotted name, from the root."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Dotted name as this file's imports write it (`..dev.cuda`, `utils.dev.Net`) -> what it stands for."""
    stars: Mapping[str, str] = field(default_factory=dict)
    """Names that its star imports from the project bring -> what they stand for."""
    closed_stars: frozenset[str] = frozenset()
    """Modules imported with `*`, as written, that bring no other name of interest."""
    passed_on: frozenset[str] = frozenset()
    """Names of this file that other files import from it, or may read as its attributes."""
    aliases: frozenset[bytes] = frozenset()
    """Names it takes from other files that stand for something of CUDA and do not say so."""
    methods: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Classes it takes from other files that have a `cuda`, `is_cuda` … of their own -> which of those."""

    sources: frozenset[str] = frozenset()
    """Modules and names it imports that are Python of the project, dotted, as written (`._impl`, `pkg._impl.run`)."""
    extensions: frozenset[str] = frozenset()
    """Modules it imports, dotted, as written, that the project compiles from CUDA."""

    @property
    def says_something(self) -> bool:
        """Whether anything is known."""
        return bool(self.names or self.stars or self.closed_stars or self.passed_on or self.sources or self.extensions)


NOTHING = FileFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFacts:
    """Facts of a whole source tree, gathered before any file is converted; a value, so that workers can share it."""

    exports: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dotted module of the project -> name it offers -> qualified name that stands for (`torch.cuda`). Every module
    is there; only names that stand for something of PyTorch, or for classes of `methods`, are."""
    words: Mapping[str, bool] = field(default_factory=dict)
    """Option or configuration key -> whether the device or back-end words given to it change, in every file or none."""
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    """Path from the root -> what that file must know."""
    methods: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Class of the project (`utils.dev.Net`) -> which of `cuda`, `is_cuda` … it has, not counting PyTorch's."""
    framework: str = "torch"
    """The framework of files that import none: TensorFlow where all others are TensorFlow's."""
    tensorflow_1: bool = False
    """Whether files of the project are written for TensorFlow 1, and none is for TensorFlow 2."""
    session_configs: frozenset[str] = frozenset()
    """Functions of the project, by their last names, that make a session's configuration of TensorFlow."""

    def changes(self, key: str) -> bool | None:
        """Tell whether the words of an option or configuration key change; None: no other file has the key."""
        return self.words.get(key)

    def of(self, path: str) -> FileFacts:
        """Return what the file at `path` must know."""
        return self.files.get(path, NOTHING)

    def defines(self, name: str | None, method: str) -> bool:
        """Tell whether the qualified `name` is a class of the project with a `method` (`cuda`) of its own."""
        return name is not None and method in self.methods.get(name, ())

    def concerns(self, path: str, data: bytes) -> bool:
        """Tell whether a file may use something of CUDA that another file gives a name which does not say so."""
        return any(alias in data for alias in self.of(path).aliases)


ALONE = ProjectFacts()
"""The facts of a file that is converted by itself."""
