"""`Masker`: learns the names in texts, then masks them line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from jumar.advise.doctor.bundle.masking import places
from jumar.advise.doctor.bundle.masking.names import PUBLIC, Names, Own
from jumar.advise.doctor.bundle.masking.secrets import PRIVATE_KEY, SECRET, is_secret_name, mask_secrets

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PGP MESSAGE)[A-Z ]*-----")
_END = re.compile(r"-----END [A-Z0-9 ]*-----")
_KEY_LINE = re.compile(
    r"(?:^(?=[A-Za-z0-9+/]*[A-Z0-9+/])[A-Za-z0-9+/]+={0,2}|(?<=[\s|:])(?=[A-Za-z0-9+/]*[0-9+/=])[A-Za-z0-9+/]{16,}={0,2}|"
    r"(?<=[\s|:])[A-Za-z0-9+/]{40,}|(?<=[\s|:])[A-Za-z0-9+/]+={1,2})[\s\"',]*$"
)
"""Base64 at the end of a line, whatever a logger put before it."""
_BODY = re.compile(r"[A-Za-z0-9+/]{16,}")
_KEY_HEAD = re.compile(r"(?:Proc-Type|DEK-Info|Version|Comment): .*")
_YAML_NAME = re.compile(r"^\s*-?\s*name:\s*[\"']?(?P<name>[\w.-]+)[\"']?\s*$")
_YAML_VALUE = re.compile(r"^(?P<head>\s*value:\s*)(?P<value>\S.*)$")
_FILE = re.compile(
    r".*\.(?:py|cc|cpp|c|h|hpp|so|o|json|log|txt|ya?ml|sh|pt|onnx|om|md|whl|tar|gz|git|html?)", re.IGNORECASE
)
_MOST_KEY_LINES = 200
_MOST_ROUNDS = 6
"""An alias can make clear what stands beside it; two rounds are nearly always enough."""
_NUMBERED = re.compile(r"\d|-\w")
"""A name with a number or a hyphen is no word of a language."""
_HOST_NAME = re.compile(r"host_?name|(?:slurmd_)?nodename|computer_?name|master[_-]?addr", re.IGNORECASE)
_SIGNS_OF_MAC, _SIGNS_OF_IPV6 = 5, 7
_DOMAINS = (".local", ".internal", ".lan", ".corp", ".intra", ".svc", ".com", ".cn", ".net", ".org", ".edu", ".gov")


class Masker:
    """Masks lines; the same name has the same alias in all of them.

    Lines are masked one by one, so their number stays. Masking what is masked changes nothing.
    """

    def __init__(self, own: Own | None = None, *, ordinary: frozenset[str] = frozenset()) -> None:
        self.counts: Counter[str] = Counter()
        """How many places were masked, by kind."""
        self._own = own or Own()
        self._names = Names(ordinary=ordinary)
        self._key_lines = 0
        """Lines of a private key that may still come."""
        self._is_value = False
        """The line above was a name of a secret, and this one may hold its value."""
        self._own_user = self._own.users[0] if self._own.users else "own home"
        for name in self._own.host_names:
            self._names.learn("host", name)
        for user in self._own.users:
            self._names.learn("user", user)

    def learn(self, line: str) -> None:
        """Remember the names of hosts and users in a line, where it is certain that they are names."""
        for host, is_certain in _hosts_in(line):
            if self._names.is_of_system(host) or PUBLIC.fullmatch(host) or _FILE.fullmatch(host):
                continue
            if is_certain or _NUMBERED.search(host):
                self._names.learn("host", host)
        for user in _users_in(line):
            if not self._names.is_of_system(user):
                self._names.learn("user", user)

    def begin(self) -> None:
        """Begin a new text: what the last one left open is over."""
        self._key_lines, self._is_value = 0, False

    def mask(self, line: str) -> str:
        """Return the line without secrets, names and addresses."""
        line = self._mask_key(line)
        line = self._mask_yaml(line)
        for _ in range(_MOST_ROUNDS):
            before, line = line, self._mask_once(line)
            if line == before:
                break
        return line

    def _mask_once(self, line: str) -> str:
        line = mask_secrets(line, self.counts)
        if "@" in line:
            line = places.MAIL.sub(self._mail, line)
        if line.count(":") >= _SIGNS_OF_MAC or line.count("-") >= _SIGNS_OF_MAC:
            line = places.MAC.sub(self._mac, line)
        if line.count(".") >= 3:
            line = places.IPV4.sub(self._address, line)
        if "::" in line or line.count(":") >= _SIGNS_OF_IPV6:
            line = places.IPV6.sub(self._address_6, line)
        line = self._mask_homes(line)
        return self._mask_names(line)

    def mask_text(self, text: str) -> str:
        """Learn from a whole text, and return it masked."""
        self.begin()
        lines = text.split("\n")
        for line in lines:
            self.learn(line)
        return "\n".join(self.mask(line) for line in lines)

    def _mask_key(self, line: str) -> str:
        begins = _BEGIN.search(line)
        if begins:
            head, rest = line[: begins.end()], line[begins.end() :]
            ends = _END.search(rest)
            self._key_lines = 0 if ends else _MOST_KEY_LINES
            tail = rest[ends.start() :] if ends else ""
            inner = rest[: ends.start()] if ends else rest
            return head + (self._key() if _BODY.search(inner) and PRIVATE_KEY not in inner else inner) + tail
        if not self._key_lines:
            return line
        self._key_lines -= 1
        if _END.search(line):
            self._key_lines = 0
            return line
        if _KEY_HEAD.fullmatch(line.strip()) or not line.strip():
            return line
        body = _KEY_LINE.search(line)
        if body is None:  # no line of a key: it was only spoken of
            self._key_lines = 0
            return line
        return line[: body.start()] + self._key() + line[body.end() :]

    def _key(self) -> str:
        self.counts["private key"] += 1
        return PRIVATE_KEY

    def _mask_yaml(self, line: str) -> str:
        """Mask `value: …` below `name: HF_TOKEN`, as containers are described."""
        value = _YAML_VALUE.match(line) if self._is_value else None
        name = _YAML_NAME.match(line)
        self._is_value = name is not None and is_secret_name(name["name"])
        if value is None or SECRET in value["value"]:
            return line
        self.counts["secret"] += 1
        return value["head"] + SECRET

    def _mail(self, match: re.Match[str]) -> str:
        self.counts["e-mail"] += 1
        return f"<{self._names.alias('mail', match[0])}>"

    def _mac(self, match: re.Match[str]) -> str:
        self.counts["hardware address"] += 1
        return f"<{self._names.alias('mac', match[0])}>"

    def _address(self, match: re.Match[str]) -> str:
        text = match[0]
        before, after = match.string[: match.start()], match.string[match.end() :]
        is_own = text in self._own.addresses and not text.startswith("127.")
        if not is_own and not places.is_address(text, before, after):
            return text
        self.counts["address"] += 1
        return self._names.alias("address", text)

    def _address_6(self, match: re.Match[str]) -> str:
        if not places.is_address_6(match[0]):
            return match[0]
        self.counts["address"] += 1
        return self._names.alias("address", match[0])

    def _mask_homes(self, line: str) -> str:
        for home in self._own.homes:
            if home in line and len(home) > 1 and home != "/root":
                number = line.count(home)
                line = line.replace(home, f"/home/{self._names.alias('user', self._own_user)}")
                self.counts["home folder"] += number
        return places.HOME.sub(self._home, line)

    def _home(self, match: re.Match[str]) -> str:
        user = match["user"]
        if self._names.is_of_system(user):
            return match[0]
        self.counts["home folder"] += 1
        return match["head"] + self._names.alias("user", user)

    def _mask_names(self, line: str) -> str:
        lower = line.lower()
        for marks, form in places.HOST_CONTEXTS:
            if any(mark in lower for mark in marks):
                line = form.sub(self._host, line)
        line = places.SYSLOG.sub(self._host, line)
        if "ip-" in lower:
            line = places.DASHED.sub(self._host_name, line)
        if any(domain in lower for domain in _DOMAINS):
            line = places.DOMAIN.sub(self._host_name, line)
        for marks, form in places.USER_CONTEXTS:
            if any(mark in lower for mark in marks):
                line = form.sub(self._user, line)
        line, number = self._names.mask_words(line)
        self.counts["name"] += number
        return line

    def _host(self, match: re.Match[str]) -> str:
        host = match["host"]
        if self._is_other(match[0], host) or PUBLIC.fullmatch(host) or _FILE.fullmatch(host) or not _is_name(host):
            return match[0]
        self.counts["name"] += 1
        return _with(match, "host", self._names.host(host))

    def _is_other(self, text: str, name: str) -> bool:
        """Tell whether a name is none: `user: denied`. Behind `=` and `://`, and with numbers, each is one."""
        is_certain = "=" in text or "://" in text or bool(_NUMBERED.search(name))
        return self._names.is_of_system(name) if is_certain else self._names.is_ordinary(name)

    def _host_name(self, match: re.Match[str]) -> str:
        if PUBLIC.fullmatch(match[0]) or _FILE.fullmatch(match[0]):
            return match[0]
        self.counts["name"] += 1
        return self._names.host(match[0])

    def _user(self, match: re.Match[str]) -> str:
        if self._is_other(match[0], match["user"]):
            return match[0]
        self.counts["name"] += 1
        return _with(match, "user", self._names.alias("user", match["user"]))


def _with(match: re.Match[str], group: str, text: str) -> str:
    """Return what matched, with a group replaced."""
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + text + match[0][end:]


def _hosts_in(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the hosts in a line, and whether what stands before each allows nothing else."""
    for match in _found(places.HOST_CONTEXTS, line):
        if _is_name(match["host"]):
            yield match["host"], "=" in match[0] and bool(_HOST_NAME.match(match[0]))
    syslog = places.SYSLOG.match(line)
    if syslog and _is_name(syslog["host"]):
        yield syslog["host"], False


def _users_in(line: str) -> Iterator[str]:
    """Yield the users that home folders, `user=` and `uid=` name."""
    yield from (match["user"] for match in places.HOME.finditer(line))
    yield from (match["user"] for match in _found(places.USER_CONTEXTS, line) if "=" in match[0] or "@" in match[0])


def _found(contexts: places.Contexts, line: str) -> Iterator[re.Match[str]]:
    lower = line.lower()
    for marks, form in contexts:
        if any(mark in lower for mark in marks):
            yield from form.finditer(line)


def _is_name(host: str) -> bool:
    """A single word of letters is a host only where nothing else can stand; numbers and parts make a name certain."""
    return any(sign in host for sign in "-.") or any(map(str.isdigit, host)) or len(host) > 2
