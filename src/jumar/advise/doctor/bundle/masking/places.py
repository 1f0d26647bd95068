"""Where a line names a host, a user, an address or a home folder: the expressions, and what is no address."""

from __future__ import annotations

import ipaddress
import re

Contexts = tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
"""A word begins here, also behind an escaped end of line."""
_HOST = r"(?P<host>[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*)"
HOST_CONTEXTS: Contexts = tuple(
    (marks, re.compile(form, re.IGNORECASE))
    for marks, form in (
        (
            ("host", "master", "nodename", "rdzv", "computer"),
            rf"{_START}(?:host(?:[_ ]?name)?|master[_-]?addr(?:ess)?|(?:slurmd_)?nodename|rdzv[_-]?endpoint|"
            r"computer_?name)"
            rf"\\?[\"']?\s*(?:=|:)\s*\\?[\"']?(?:https?://)?{_HOST}(?![\w(/]|\\(?![nrt\"']))",
        ),
        (
            ("://",),
            rf"[a-z][a-z0-9+.-]{{1,20}}://(?:[^\s/@\"']{{0,500}}@)?{_HOST}(?=[:/\s\"'?#),>\]]|\\[nrt\"']|$)",
        ),
        (
            ("connect", "listening", "reach", "resolve", "ping", "ssh", "scp"),
            rf"{_START}(?:connect(?:ion)? (?:to|from|with)|connected to|listening on|reach|resolve|ping|ssh|scp) "
            rf"\[?{_HOST}(?=\]?:\d{{2,5}}\b)",
        ),
        (("]:",), rf"(?<![\w.])\[{_HOST}\]:\d{{2,5}}\b"),
        (
            ("ssh", "ping", "scp"),
            rf"{_START}(?:ssh|ping|scp)\s+(?:-\S{{1,80}}\s+){{0,6}}(?:[a-z_][\w-]{{0,60}}@)?{_HOST}(?=\s|:|$)",
        ),
        (("@",), rf"{_START}[a-z_][a-z0-9_-]{{0,60}}@{_HOST}(?=\s*[:\]~$#])"),
        (("nodelist",), rf"{_START}SLURM_\w{{0,40}}NODELIST=[\"']?{_HOST}"),
    )
)
"""Where a host is named, each with words of which one is in every such line, in lower case."""
SYSLOG = re.compile(
    r"^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+)) "
    r"(?P<host>[A-Za-z][\w.-]{0,80}) [\w./@-]{1,80}(?:\[\d+\])?: "
)
DASHED = re.compile(rf"{_START}ip(?:-\d{{1,3}}){{4}}(?:\.[\w.-]*\w)?")
"""Names of cloud hosts that spell their address."""
_LABELS = r"(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.)"
DOMAIN = re.compile(
    rf"(?<![\w.@/-]){_LABELS}{{1,8}}(?:local|internal|lan|corp|intra|intranet|svc|localnet)\b(?![\w(])"
    rf"|(?<![\w.@/-])(?=[\w.-]*[\d-]){_LABELS}{{2,8}}(?:com|cn|net|org|edu|gov)\b(?![\w(.])"
)
HOME = re.compile(r"(?P<head>(?:/home/|/Users/|(?<=[\\/])[Uu]sers[\\/]{1,2}))(?P<user>[^\s/\\:\"'<>,;()\[\]{}|`]+)")
USER_CONTEXTS: Contexts = tuple(
    (marks, re.compile(form, re.IGNORECASE))
    for marks, form in (
        (
            ("user", "logname", "login"),
            rf"{_START}(?:user(?:[_ ]?name)?|logname|login)\\?[\"']?\s*[=:]\s*\\?[\"']?"
            r"(?P<user>[A-Za-z][\w.-]*)(?![\w(])",
        ),
        (("uid=",), rf"{_START}uid=\d+\((?P<user>[^()\s]+)\)"),
        (("~",), r"(?<![\w./])~(?P<user>[a-z][\w-]*)(?=/)"),
        (("@",), rf"{_START}(?P<user>[a-z_][a-z0-9_-]{{0,60}})@[A-Za-z][\w.-]*(?=\s*[:\]~$#])"),
        (
            ("ssh ", "scp ", "rsync ", "sftp "),
            r"\b(?:ssh|scp|rsync|sftp) [^\n@]{0,100}?\b(?P<user>[a-z_][a-z0-9_-]{0,60})@",
        ),
        (("user",), rf"{_START}(?:for|by|as) user[: ]+[\"']?(?P<user>[A-Za-z][\w.-]*)"),
    )
)
"""Where a user is named, each with words of which one is in every such line."""
MAIL = re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}(?![A-Za-z0-9])")
MAC = re.compile(
    r"(?<![0-9A-Fa-f:-])[0-9A-Fa-f]{2}(?:(?P<sign>[:-])[0-9A-Fa-f]{2})(?:(?P=sign)[0-9A-Fa-f]{2}){4}"
    r"(?![0-9A-Fa-f]|[:-][0-9A-Fa-f])"
)
IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d{1,3}(?!\d))")
IPV6 = re.compile(r"(?:(?<![\w:.])|(?<=\\[nrt]))[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,8}(?:%\w+)?(?![\w:])")
_VERSION_BEFORE = re.compile(
    r"(?:version\w*|\bver|release|firmware\w*|driver\w*|\bcann|toolkit|package|\bhdk|\brev|build|"
    r"[a-z][\w.]*==|[<>~!]=|\bv|\blib[\w+-]{1,40}-|\.so\.)[\s:=\"'/(\[]{0,3}v?$",
    re.IGNORECASE,
)
_NEAR, _PRIVATE = 60, 10
_HIGHEST_VERSION = 30
"""A first number above it is no version: driver releases count years."""


def is_address(text: str, before: str, after: str) -> bool:
    """Tell whether four numbers with points are the address of a machine: no loopback, no mask, no version."""
    numbers = [int(part) for part in text.split(".")]
    if max(numbers) > 255 or numbers[0] in (0, 127, 255):
        return False
    if after[:1] == ":" and after[1:3].isdigit():
        return True
    near = before[-_NEAR:]
    if numbers[0] == _PRIVATE:
        return "version" not in near.lower()
    return not (numbers[0] < _HIGHEST_VERSION and _VERSION_BEFORE.search(near))


_LEAST_FIRST_GROUP = 3


def is_address_6(text: str) -> bool:
    """Tell whether a text with colons is an IPv6 address of a machine, and no name of C++ (`c10::add`) or slice."""
    try:
        parsed = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return False
    if parsed.is_loopback or parsed.is_unspecified:
        return False
    groups = [group for group in text.partition("%")[0].split(":") if group]
    if len(groups) > 2:
        return True
    is_slice = len(text.partition(":")[0]) < _LEAST_FIRST_GROUP  # x[1::2]; addresses begin as fe80, fd00, 2001
    return not is_slice and any(map(str.isdigit, groups[-1])) and not groups[0].lower().startswith("c10")
