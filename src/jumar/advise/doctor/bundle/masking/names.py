"""`Names`: hosts, users and addresses that were seen, each with its alias; `Own`: what this machine is called."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

PUBLIC = re.compile(
    r"(?:[\w-]+\.)*(?:github|githubusercontent|gitcode|gitee|gitlab|pytorch|python|pypi|huggingface|hf-mirror|modelscope|hiascend|"
    r"huaweicloud|huawei|mindspore|tensorflow|nvidia|readthedocs|docker|quay|ghcr|kernel|ubuntu|debian|openeuler|apache|wikipedia|"
    r"google|googleapis|pythonhosted|pypa|anaconda|conda|amazonaws|aliyun|tuna\.tsinghua|ustc|stackoverflow|microsoft|wandb|ray|vllm|w3|example)\."
    r"(?:com|org|io|cn|net|ai|co|edu|edu\.cn)",
    re.IGNORECASE,
)
"""Sites that everybody knows. What stands before a cloud's name may be a bucket of yours, so only whole names count."""
_ALIAS = re.compile(r"(?:host|user|address|mail)-\d+")
_ORDINARY = frozenset(
    [
        "localhost",
        "localdomain",
        "root",
        "user",
        "users",
        "admin",
        "test",
        "train",
        "training",
        "worker",
        "master",
        "node",
        "server",
        "host",
        "model",
        "data",
        "work",
        "python",
        "torch",
        "rank",
        "local",
        "none",
        "null",
        "unknown",
        "default",
        "ubuntu",
        "debian",
        "centos",
        "docker",
        "container",
        "main",
        "build",
        "cache",
        "share",
        "shared",
        "public",
        "home",
        "tmp",
        "error",
        "warning",
        "info",
        "failed",
        "device",
        "driver",
        "ascend",
        "npu",
        "cpu",
        "memory",
        "hwhiaiuser",
        "nobody",
        "www-data",
        "runner",
        "jenkins",
        "all",
        "self",
        "true",
        "false",
        "ipv4",
        "ipv6",
        "http",
        "https",
        "tcp",
        "udp",
        "file",
    ]
)
_LEAST = 4
"""Shorter names are masked where the context names them, and not as words anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What this machine and its user are called."""

    host_names: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    addresses: frozenset[str] = frozenset()


@dataclass(slots=True)
class Names:
    """Aliases by kind, in the order in which names were seen."""

    ordinary: frozenset[str] = frozenset()
    """Words that known errors are made of, in lower case: no name that is one of these is masked as a word."""
    _aliases: dict[tuple[str, str], str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _words: dict[str, str] = field(default_factory=dict)
    _pattern: re.Pattern[str] | None = None

    def alias(self, kind: str, name: str) -> str:
        """Return the alias of a name: `host-1`."""
        if _ALIAS.fullmatch(name):
            return name
        key = (kind, name.lower())
        if key not in self._aliases:
            self._numbers[kind] = self._numbers.get(kind, 0) + 1
            self._aliases[key] = f"{kind}-{self._numbers[kind]}"
        return self._aliases[key]

    def host(self, name: str) -> str:
        """Return the alias of a host; a name with a domain is the host of the first part, where that is known."""
        first = name.partition(".")[0].lower()
        if first != name.lower() and ("host", first) in self._aliases:
            return self._aliases["host", first]
        return self.alias("host", name)

    def learn(self, kind: str, name: str) -> None:
        """Remember a name; as a word it is masked everywhere, where it is no ordinary word and not short."""
        if _ALIAS.fullmatch(name) or not name:
            return
        alias = self.host(name) if kind == "host" else self.alias(kind, name)
        lower = name.lower()
        if len(name) >= _LEAST and lower not in _ORDINARY and lower not in self.ordinary and not name.isdigit():
            self._words[lower] = alias
            self._pattern = None

    def is_of_system(self, name: str) -> bool:
        """Tell whether a name says nothing about anybody: `root`, `localhost`."""
        return name.lower() in _ORDINARY or bool(_ALIAS.fullmatch(name))

    def is_ordinary(self, name: str) -> bool:
        """Tell whether a name is one of these, or a word that errors are made of."""
        return self.is_of_system(name) or name.lower() in self.ordinary

    def mask_words(self, line: str) -> tuple[str, int]:
        """Return the line with learned names replaced, and how many were."""
        if not self._words:
            return line, 0
        if self._pattern is None:
            named = "|".join(re.escape(word) for word in sorted(self._words, key=len, reverse=True))
            self._pattern = re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:{named})(?![A-Za-z0-9])", re.IGNORECASE)
        return self._pattern.subn(lambda match: self._words[match[0].lower()], line)
