"""`mask_secrets`: passwords, tokens, keys and cookies in one line, by their form or by the name before them.

Where a name says that a secret follows, all of the value goes: too much is masked rather than too little. Names of
machine learning that look like secrets (`pad_token`, `max_tokens`) are left.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import Protocol

SECRET, PRIVATE_KEY = "<secret>", "<private key>"

_FORMS = re.compile(
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ABIA|ACCA)[A-Z0-9]{16}"  # AWS
    r"|hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl[a-z]{2,8}-[A-Za-z0-9_-]{16,}"  # GitHub, GitLab
    r"|(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:sk-[A-Za-z0-9_-]{16,}|[rps]k_(?:live|test)_[A-Za-z0-9]{10,})"
    r"|xox[abeoprs]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|LTAI[A-Za-z0-9]{12,}|AKLT[A-Za-z0-9]{16,}|AKID[A-Za-z0-9]{13,}"  # Chinese clouds
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dop_v1_[a-f0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|nvapi-[A-Za-z0-9_-]{20,}|r8_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{30,}|wandb_v1_[A-Za-z0-9_]{20,}"
    r"|ssh-(?:rsa|ed25519|dss) AAAA[A-Za-z0-9+/=]+|ecdsa-sha2-\S+ AAAA[A-Za-z0-9+/=]+"
    r"|https://hooks\.slack\.com/services/[A-Za-z0-9/_-]+|(?<=access_token=)[0-9a-f]{32,}"
)
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{6,}(?P<rest>(?:\.[A-Za-z0-9_-]*)+)?")
_LEAST_JWT_REST = 5
_URL = re.compile(r"(?P<head>[A-Za-z][A-Za-z0-9+.-]{1,20}://)(?P<user>[^\s/?#\"'<>]+)(?=@)")
_SCHEME = r"(?:Bearer|Basic|Digest|Token|ApiKey|Negotiate|AWS4-HMAC-SHA256)"
_HEADER = re.compile(
    r"(?P<head>(?:(?:proxy-)?authorization|(?:set-)?cookie)[\\\"']{0,3}\s*[:=]\s*[\\\"']{0,3})"
    r"(?P<value>[^\"'\r\n\\]+)",
    re.IGNORECASE,
)
_BARE_SCHEME = re.compile(r"(?P<head>\b(?:Bearer|bearer|BEARER|Basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})")
_WORDS = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|api[_. -]?key|apikey|access[_. -]?key(?:[_.-]?id)?|private[_. -]?key|"
    r"account[_.-]?key|auth[_.-]?key|encryption[_.-]?key|license[_.-]?key|(?:secret[_.-]?)?credentials?|auth[_.-]?token|"
    r"session[_.-]?(?:id|key)|jsessionid|cookies?|token|otp|x-amz-signature|x-amz-credential|awsaccesskeyid|ossaccesskeyid"
)
_NAME = (
    r"(?<![A-Za-z0-9_.-])(?<!/etc/)(?P<name>[A-Za-z0-9_.-]{0,60}"
    rf"(?:{_WORDS})(?:s|[_.-]?(?:id|key|value|base64|text))?)"
)
_QUOTED = r"\\\"(?:(?!\\\").)*\\\"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_PLAIN = r"[^\s\"']+(?:[\"'](?=[^\s,;}\])])[^\s\"']*)*"
_VALUE = rf"(?P<value>{_QUOTED}|b?{_PLAIN}|[\"'][^\"'\r\n]*)"
_PAIR = re.compile(
    rf"{_NAME}(?P<between>\\?[\"']?\]?\s*(?::\s*(?:str|bytes|Optional\[str\]|str \| None)\s*)?"
    rf"(?:=>|->|:=|==?|:|：|\bis\b|\bwas\b)\s*){_VALUE}",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"(?<![\w.-])(?P<between>--?)(?P<name>[a-z0-9-]{{0,40}}(?:{_WORDS})s?)(?P<gap>\s+){_VALUE}", re.IGNORECASE
)
_SHORT = re.compile(
    r"(?P<head>\b(?:sshpass|mysql\w{0,8}|docker login|helm registry login|wandb login|huggingface-cli login|curl|wget|"
    r"redis-cli)\b[^\n|;&]{0,300}?\s(?:-p\s?|-u\s+|-a\s+|--relogin\s+|--token\s+))(?P<value>[^\s\"'-][^\s\"']*)"
)
_LOGIN = re.compile(r"(?P<head>\bwandb login\s+(?:--\S+\s+)*)(?P<value>[A-Za-z0-9_-]{20,})")
_LISTED = re.compile(rf"(?P<head>[\"']{_NAME}[\"']\s*,\s*(?:[\"']value[\"']\s*:\s*)?){_VALUE}", re.IGNORECASE)
_TAG = re.compile(
    rf"(?P<head><{_NAME.replace('(?<![A-Za-z0-9_.-])', '')}[^<>]{{0,80}}>)(?P<value>[^<\r\n]+)(?=</(?P=name))",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"(?P<head>(?:密码|口令|密钥|令牌)\s*(?:(?:为|是)?\s*[:\uff1a=]|为|是)\s*)(?P<value>[^\s,\uff0c\u3002;\uff1b]+)"
)
_AWS_LENGTH = 40
_AWS_40 = re.compile(r"(?<![A-Za-z0-9/+=_.-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_.-])")
_ML_TOKEN = re.compile(
    r"(?:^|[_.-])(?:bos|eos|pad|unk|sep|cls|mask|next|num|max|min|new|image|video|audio|special|extra|prompt|output|input|"
    r"completion|generated?|total|per|stop|start|end|first|last|batch|draft|prefill|decode|cached?|think|tool|fim|speculative)"
    r"[_.-]?(?:\w+[_.-])?tokens?(?:[_.-]?ids?)?$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(?:none|null|nil|true|false|undefined|required|optional|str|string|int|\*+|x{3,}|<[^<>]*>|\$\{?\w+\}?|%s|\{\w*\})"
    r"[.,;:)\]}]*",
    re.IGNORECASE,
)
_LEAST_TOKEN = 6
_LOWER_WORD = re.compile(r"[a-z]+[.,;:]?")
_PLACE = re.compile(r"(?:/[\w.@+~-]+)+/?|[A-Za-z]:\\\S*")
_FIRST = re.compile(
    r"(?i:pass|pwd|secret|key|token|cred|session|cookie|otp|auth|bearer|basic|login|signature)|://|A[A-Z]{3}|hf_|gh[a-z]|github_|"
    r"gl[a-z]+-|[srp]k[-_]|xox|xapp|AIza|ya29|LTAI|npm_|pypi-|dop_|SG\.|nvapi|r8_|gsk_|eyJ|ssh|ecdsa|curl|wget|mysql|redis|wandb|"
    r"api_org|hooks|密码|口令|密钥|令牌"
)
"""One of these is in every line with a secret; the other expressions are slower."""


def mask_secrets(line: str, counts: Counter[str]) -> str:
    """Return the line without its secrets; `counts` is added to."""
    if _FIRST.search(line):
        lower = line.lower()
        for marks, form, replace in _STEPS:
            if any(mark in lower for mark in marks):
                line = form.sub(partial(replace, counts=counts), line)
        line = _FORMS.sub(lambda _: _whole(counts), line)
    return _AWS_40.sub(lambda match: _forty(match, counts), line) if len(line) >= _AWS_LENGTH else line


def is_secret_name(name: str) -> bool:
    """Tell whether a name says that its value is a secret."""
    match = re.fullmatch(_NAME, name, re.IGNORECASE)
    return match is not None and not _is_other(name)


def _whole(counts: Counter[str]) -> str:
    counts["secret"] += 1
    return SECRET


def _login(match: re.Match[str], counts: Counter[str]) -> str:
    if match["user"] == SECRET:
        return match[0]
    if "<" in match["user"]:
        return match[0]
    return match["head"] + _whole(counts)


def _jwt(match: re.Match[str], counts: Counter[str]) -> str:
    return _whole(counts) if len(match["rest"] or "") >= _LEAST_JWT_REST else match[0]


def _behind(match: re.Match[str], counts: Counter[str]) -> str:
    value = match["value"]
    if _HARMLESS.fullmatch(value.strip().strip("\"'")):
        return match[0]
    return match["head"] + _quoted_as(value, counts)


def _pair(match: re.Match[str], counts: Counter[str]) -> str:
    name, value = match["name"], match["value"]
    bare = value.strip("\\\"'")
    if (
        value.startswith(SECRET)
        or not bare
        or _HARMLESS.fullmatch(bare)
        or _is_other(name)
        or _is_place(name, bare)
        or not _is_worth(name, bare)
    ):
        return match[0]
    head = match[0][: match.start("value") - match.start()]
    return head + _quoted_as(value, counts)


def _quoted_as(value: str, counts: Counter[str]) -> str:
    for quote in ('\\"', '"', "'"):
        if value.startswith(quote):
            end = quote if value.endswith(quote) and len(value) >= 2 * len(quote) else ""
            return f"{quote}{_whole(counts)}{end}"
    return _whole(counts)


def _is_other(name: str) -> bool:
    """Tell whether a name is one of language models, or a file of users."""
    return bool(_ML_TOKEN.search(name)) or name.lower().endswith(("tokens", "token_id", "token_ids", "tokenizer"))


def _is_place(name: str, value: str) -> bool:
    """PWD is the working folder, and KEY_FILE and the like name files."""
    return name.upper() in ("PWD", "OLDPWD", "OWD") and bool(_PLACE.match(value))


def _is_worth(name: str, value: str) -> bool:
    """A bare `token` is a word of parsers and language models: only what looks like a credential is one."""
    last = name.lower()
    if last not in ("token", "tokens", "key"):
        return True
    return len(value) >= _LEAST_TOKEN and not value.replace(".", "").isdigit() and not _LOWER_WORD.fullmatch(value)


def _forty(match: re.Match[str], counts: Counter[str]) -> str:
    """A secret key of AWS has 40 characters of base64; a digest has no upper case, a path many slashes."""
    text = match[0]
    kinds = (any(map(str.isupper, text)), any(map(str.islower, text)), sum(map(str.isdigit, text)) >= 3)
    return _whole(counts) if all(kinds) and text.count("/") <= 2 else text


class _Replace(Protocol):
    def __call__(self, match: re.Match[str], counts: Counter[str]) -> str: ...


_NAMED = ("pass", "pwd", "secret", "key", "credential", "token", "cookie", "otp", "session", "signature", "x-amz")
_STEPS: tuple[tuple[tuple[str, ...], re.Pattern[str], _Replace], ...] = (
    (("://",), _URL, _login),
    (("authorization", "cookie"), _HEADER, _behind),
    (("bearer", "basic"), _BARE_SCHEME, _behind),
    (("wandb login",), _LOGIN, _behind),
    (("sshpass", "mysql", "login", "curl", "wget", "redis-cli"), _SHORT, _behind),
    (_NAMED, _LISTED, _behind),
    (("</",), _TAG, _behind),
    (("密码", "口令", "密钥", "令牌"), _CHINESE, _behind),
    (_NAMED, _PAIR, _pair),
    (_NAMED, _OPTION, _pair),
    (("eyj",), _JWT, _jwt),
)
"""Each expression with words of which one is in every line that it can match, and what it does there."""
