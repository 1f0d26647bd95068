"""Masking: planted secrets never remain, names keep one alias, and the doctor's answer stays the same."""

from __future__ import annotations

import json
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.bundle.gather import ordinary_words
from jumar.advise.doctor.bundle.masking import Masker, Own
from jumar.advise.doctor.entries import known_errors
from jumar.advise.doctor.entries.check import ordinary_lines

OWN = Own(
    host_names=("gpu-node-17", "gpu-node-17.train.corp"),
    users=("zhangwei",),
    homes=("/data/zhangwei",),
    addresses=frozenset({"10.20.30.40"}),
)


def masked(text: str, own: Own = OWN) -> str:
    return Masker(own, ordinary=ordinary_words()).mask_text(text)


ALNUM = string.ascii_letters + string.digits


def word(size: int, alphabet: str = ALNUM) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=size)


FORMS = st.one_of(
    word(16, string.ascii_uppercase + string.digits).map("AKIA{}".format),
    word(34).map("hf_{}".format),
    word(36).map("ghp_{}".format),
    word(40, ALNUM + "_").map("github_pat_{}".format),
    word(40).map("sk-{}".format),
    word(40).map("sk-proj-{}".format),
    word(20).map("glpat-{}".format),
    word(24).map("xoxb-{}".format),
    st.tuples(word(20), word(24), word(30)).map(lambda parts: "eyJ{}.eyJ{}.{}".format(*parts)),
)
"""Secrets that are known by their form, wherever they stand."""
BEFORE = st.sampled_from(
    ["", " ", "x=", "'", '"', "(", "[", "token ", "cannot use ", "2026-01-01 00:00:00 INFO ", "é", "{'a': '", "\\n"]
)
AFTER = st.sampled_from(["", " ", "'", '"', ")", ",", ".", ";", " was refused", "\\n", "\t", "}]"])


@given(BEFORE, FORMS, AFTER)
def test_a_secret_with_a_form_never_remains(before, secret, after):
    assert secret not in masked(f"{before}{secret}{after}")


VALUES = st.text(ALNUM + "!@#%^*_+-.:~/?", min_size=8, max_size=30).filter(
    lambda text: (
        not re.fullmatch(r"(?i)\W+|x+|\*+|(?:undefined|required|optional)\W*", text)
        and any(map(str.isalpha, text))
        and text[0] in ALNUM
    )
)
CONTEXTS = [
    "password={}",
    "PASSWORD: {}",
    "export WANDB_API_KEY={}",
    "export HF_TOKEN='{}'",
    "HUGGING_FACE_HUB_TOKEN={} python train.py",
    '{{"password": "{}", "rank": 3}}',
    "{{'db_password': '{}', 'x': 1}}",
    '{{\\"secret_key\\": \\"{}\\"}}',
    "--password {}",
    "--api-key={}",
    "--hf-token {} --model x",
    "Authorization: Bearer {}",
    'curl -H "Authorization: token {}" https://api.github.com',
    "'Authorization': 'Basic {}'",
    "X-Auth-Token: {}",
    "Cookie: session={}; path=/",
    "Set-Cookie: id={}",
    "https://user:{}@proxy.corp:8080",
    "http_proxy=http://bob:{}@10.9.8.7:3128",
    "postgresql://u:{}@db/x",
    "GET /api?access_token={}&x=1",
    "aws_secret_access_key = {}",
    "Namespace(lr=0.1, api_key='{}', epochs=3)",
    "password: str = '{}'",
    "<password>{}</password>",
    "('password', '{}')",
    '{{"name": "HF_TOKEN", "value": "{}"}}',
    "- name: DB_PASSWORD\n  value: {}",
    "sshpass -p {} ssh node",
    "client_secret=>{}",
    "密码:{}",
    "口令是 {}",
    "passphrase is {}",
    "redis://:{}@cache:6379/0",
]


@pytest.mark.parametrize("context", CONTEXTS)
@settings(max_examples=25)
@given(VALUES)
def test_a_value_behind_a_secrets_name_never_remains(context, value):
    if "://" in context and any(sign in value for sign in "/?#@"):
        return  # such signs are written as %2F in an address
    if "<" in context and "<" in value:
        return
    text = masked(context.format(value))
    assert value not in text


def test_a_private_key_is_masked_line_by_line():
    lines = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA1234567890abcdef", "INFO x: Zm9vYmFyYmF6cXV4MTIzNA==",
             "-----END RSA PRIVATE KEY-----", "step 12 loss 0.5"]  # fmt: skip
    assert masked("\n".join(lines)).split("\n") == [
        lines[0], "<private key>", "INFO x: <private key>", lines[3], "step 12 loss 0.5"
    ]  # fmt: skip
    spoken = (
        "a file with -----BEGIN PRIVATE KEY----- is refused\nStreamLaunchKernel failed at step 12\nMIIEpAIBAAKCAQEA123"
    )
    assert masked(spoken) == spoken
    one = "key='-----BEGIN PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA123\\n-----END PRIVATE KEY-----'"
    assert "MIIEpAIBAAKCAQEA123" not in masked(one)


@given(
    st.ip_addresses(v=4),
    st.sampled_from(["{}", "connect to {}:29500", "ip={}", "[{}]", "http://{}/x", "host_{}_log", "{}/24", "{},"]),
)
def test_an_address_never_remains(address, context):
    text = str(address)
    if address.packed[0] in (0, 127, 255):
        return
    assert not re.search(rf"(?<!\d){re.escape(text)}(?!\d)", masked(context.format(text)))


@given(st.ip_addresses(v=6), st.sampled_from(["{}", "[{}]:29500", "inet6 {}/64", "addr={}", "from {}, to"]))
@example("fe80::fc:ff:fe00:1", "inet6 {}/64")
def test_an_address_of_ipv6_never_remains(address, context):
    text = str(address)
    if text in ("::", "::1") or "." in text:
        return
    if len([group for group in text.split(":") if group]) < 3:
        return
    assert text not in masked(context.format(text))


@given(st.lists(st.integers(0, 255), min_size=6, max_size=6), st.sampled_from(":-"), st.booleans())
def test_a_hardware_address_never_remains(numbers, sign, upper):
    text = sign.join(f"{number:02x}" for number in numbers)
    text = text.upper() if upper else text
    assert text not in masked(f"link/ether {text} brd ff")


@pytest.mark.parametrize(
    "line",
    [
        "torch 2.6.0.post1 and CANN version 8.0.1.1",
        "Version=7.7.0.1.231",
        "driver 25.0.1.1 firmware 7.5.0.1",
        "numpy==1.26.4.1",
        "listening on 127.0.0.1:29500",
        "bind 0.0.0.0, netmask 255.255.255.0",
        "at::native::add, c10::Error, std::vector, c10::add",
        "undefined symbol: foo@GLIBCXX_3.4.29, memcpy@@GLIBC_2.14",
        "x[..., ::2, 1::2], c10::ed2",
        "the host: nothing is copied; user: the one who asked; owner = found",
        "12:34:56 step 3, 2026-01-01T12:34:56.123",
        "0000:C1:00.0 is the bus",
        "max_tokens=4096, eos_token: </s>, pad_token_id=0, tokens: 1024",
        "/etc/passwd: No such file",
        "PWD=/work/project",
        "password=None, token: null, api_key=***",
        "unexpected token: }",
        "git commit 1f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c",
        "pip install from https://pypi.org/simple and github.com/pytorch/pytorch",
        'File "/usr/lib/python3/site-packages/torch/nn/modules/module.py", line 1518, in _call_impl',
    ],
)
def test_what_is_no_secret_stays(line):
    assert masked(line) == line


def test_a_host_has_one_alias_everywhere_so_that_ranks_stay_tellable():
    text = masked(
        "Jan  1 00:00:00 gpu-node-17 kernel: x\n"
        "[rank3]: connect to [gpu-node-17.train.corp]:29500 failed\n"
        "hostname: gpu-node-18\n"
        "rank_gpu-node-18_3.log on gpu-node-17"
    )
    assert text.split("\n") == [
        "Jan  1 00:00:00 host-1 kernel: x",
        "[rank3]: connect to [host-1]:29500 failed",
        "hostname: host-2",
        "rank_host-2_3.log on host-1",
    ]


def test_users_and_home_folders_are_masked_and_system_users_are_not():
    text = masked(
        "/home/zhangwei/a.py /data/zhangwei/b /home/lihua/c C:\\Users\\lihua\\d ~lihua/e user=lihua /root/f zhangwei"
    )
    assert "zhangwei" not in text
    assert "lihua" not in text
    assert "/home/user-1/a.py /home/user-1/b /home/user-2/c" in text
    assert "/root/f" in text


def test_names_behind_an_escaped_line_end_are_masked():
    text = masked('{"log": "x\\ngpu-node-17 says\\nhostname=gpubox9\\nzhangwei\\nfe80::1:2:3:4\\n10.9.8.7"}')
    assert not re.search("gpu-node-17|gpubox9|zhangwei|fe80|10.9.8.7", text)


def test_a_name_that_is_learned_later_is_masked_before_too():
    text = "starting on gpubox7\nHOSTNAME=gpubox7"
    assert masked(text) == "starting on host-3\nHOSTNAME=host-3".replace(
        "host-3", masked("HOSTNAME=gpubox7").partition("=")[2]
    )
    assert "gpubox7" not in masked(text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("scp: user: Permission denied", "scp: user: Permission denied"),
        ("/home/launch/a.py", "/home/user-1/a.py"),
        ("USER=permission", "USER=user-1"),
        ("fe80::1 and fd00::2 and 2001:db8::3", "address-1 and address-2 and address-3"),
        ("connect to node-2:29500", "connect to host-1:29500"),
        ("ssh alice@node-2 uptime", "ssh user-1@host-1 uptime"),
        (
            "http://mirror.inner.lan/simple and https://pypi.org/simple",
            "http://host-1/simple and https://pypi.org/simple",
        ),
        ("alice@node-2:~$ python train.py", "user-1@host-1:~$ python train.py"),
    ],
)
def test_words_of_errors_are_names_only_where_nothing_else_can_stand(line, expected):
    assert masked(line, Own()) == expected


def test_mail_addresses_are_masked():
    assert masked("mail zhang.wei+x@corp.example.com, or <a@b.cn>.") == "mail <mail-1>, or <<mail-2>>."


@given(st.lists(st.text(max_size=60), max_size=8))
@settings(max_examples=60)
def test_lines_stay_lines_and_masking_twice_changes_nothing(lines):
    text = "\n".join(line.replace("\n", " ") for line in lines)
    masker = Masker(OWN, ordinary=ordinary_words())
    once = masker.mask_text(text)
    assert once.count("\n") == text.count("\n")
    assert masker.mask_text(once) == once


@pytest.mark.parametrize("context", CONTEXTS)
def test_masking_a_secret_twice_changes_nothing(context):
    once = masked(context.format("Tr0ub4dor&3xyz"))
    assert masked(once) == once


def test_json_stays_json():
    line = json.dumps({"msg": "password=abc123xyz", "rank": 3, "auth": "Bearer abcdefghijkl", "host": "gpu-node-17"})
    assert json.loads(masked(line)) == {
        "msg": "password=<secret>",
        "rank": 3,
        "auth": "Bearer <secret>",
        "host": "host-1",
    }


def test_the_examples_of_all_known_errors_keep_their_diagnosis():
    names = {}
    for state in ("plain", "masked"):
        for signature in known_errors().signatures:
            text = f"{signature.example}\n"
            line = text if state == "plain" else masked(f"hostname: gpu-node-17 zhangwei\n{text}").partition("\n")[2]
            found = list(known_errors().searcher(line.encode()).search(line))
            names.setdefault(signature.name, []).append(
                [match.signature.name if match.signature else match.code for match in found]
            )
    assert [name for name, (before, after) in names.items() if before != after] == []


LOG = """\
Jan 01 00:00:00 gpu-node-17 train[123]: hostname: gpu-node-17
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/zhangwei/train.py", line 10, in <module>
[rank3]:     connect("10.20.30.41", password="hunter2hunter2")
[rank3]: RuntimeError: call aclnnAdd failed, error code is 507018
EI0006: Getting socket times out. The remote 10.20.30.41 did not answer.
"""


def test_the_diagnosis_of_a_masked_log_is_the_same(tmp_path):
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.log").write_text(masked(LOG))
    before, after = (diagnose_logs([tmp_path / name]) for name in ("a.log", "b.log"))
    assert [(one.code, one.where.line) for one in before.findings] == [
        (one.code, one.where.line) for one in after.findings
    ]
    assert [one.action for one in before.findings] == [one.action for one in after.findings]
    assert not any(
        name in (tmp_path / "b.log").read_text() for name in ("gpu-node-17", "zhangwei", "10.20.30.41", "hunter2")
    )


def test_ordinary_lines_of_good_runs_are_changed_in_addresses_and_buckets_only():
    changed = [line for line in ordinary_lines() if masked(line) != line]
    assert all("://" in line or re.search(r"\d+\.\d+\.\d+\.\d+", line) for line in changed)
