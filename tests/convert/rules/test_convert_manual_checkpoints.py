"""Opt-in rules about checkpoints: the scaler's state, keys with the prefix of a wrapper."""

from __future__ import annotations

import pytest
from opt_in_cases import converted_with, findings_with, unchanged_with

SCRIPT = """\
import torch
scaler = torch.amp.GradScaler('npu')
optimizer = torch.optim.SGD(ps, 0.1)
def resume(path):
    ckpt = torch.load(path, map_location='cpu')
    optimizer.load_state_dict(ckpt['optimizer'])  # state
def save(path):
    torch.save({
        'model': model.state_dict(),
        'optimizer': optimizer.state_dict(),
    }, path)
"""


def test_the_scaler_is_saved_and_read_back_where_the_checkpoint_has_it() -> None:
    expected = SCRIPT.replace(
        "  # state\n", "  # state\n    if 'amp' in ckpt:\n        scaler.load_state_dict(ckpt['amp'])\n"
    ).replace(
        "'optimizer': optimizer.state_dict(),\n",
        "'optimizer': optimizer.state_dict(),\n        'amp': scaler.state_dict(),\n",
    )
    assert converted_with(SCRIPT, "JM159") == expected


def test_a_scaler_that_is_saved_already_is_left_alone() -> None:
    source = SCRIPT.replace("'model'", "'scaler': scaler.state_dict(), 'model'")
    assert unchanged_with(source, "JM159") == []


def test_a_script_without_scaler_is_left_alone() -> None:
    assert unchanged_with(SCRIPT.replace("scaler = torch.amp.GradScaler('npu')\n", ""), "JM159") == []


def test_a_scaler_that_has_no_name_there_is_reported() -> None:
    source = SCRIPT.replace("scaler = torch", "def make():\n    scaler = torch")
    found = findings_with(source, "JM159")
    assert [finding.evidence.get("applied") for finding in found] == [None, None]
    assert all("not known here" in finding.message for finding in found)


def test_a_scaler_that_mixed_precision_adds_is_saved_in_the_same_run() -> None:
    source = """\
    import torch
    def train(model, loader, optimizer):
        for x in loader:
            loss = model(x)
            loss.backward()
            optimizer.step()
    def main():
        optimizer = torch.optim.SGD(ps, 0.1)
        ckpt = torch.load('x', map_location='cpu')
        optimizer.load_state_dict(ckpt['optimizer'])
        torch.save({'optimizer': optimizer.state_dict()}, 'x')
    """
    after = converted_with(source, "JM154", "JM159")
    assert "{'optimizer': optimizer.state_dict(), 'amp': scaler.state_dict()}" in after
    assert "    if 'amp' in ckpt:\n        scaler.load_state_dict(ckpt['amp'])\n" in after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "for key, v in old.items():\n    key = key[7:]\n",
            "for key, v in old.items():\n    key = key.removeprefix('module.')\n",
        ),
        (
            "new = {k[7:]: v for k, v in old.items()}\n",
            "new = {k.removeprefix('module.'): v for k, v in old.items()}\n",
        ),
        (
            "for k in state_dict:\n    new[k[7:]] = 1\n",
            "for k in state_dict:\n    new[k.removeprefix('module.')] = 1\n",
        ),
    ],
)
def test_keys_lose_the_prefix_they_have_and_nothing_else(before: str, after: str) -> None:
    head = "import torch\nold = torch.load(p, map_location='cpu')\n"
    assert converted_with(head + before, "JM160") == head + after


@pytest.mark.parametrize(
    "line",
    [
        "new = {k[7:] if k.startswith('module.') else k: v for k, v in old.items()}",
        "new = {k[7:]: v for k, v in old.items() if 'module.' in k}",
        "for line in lines: print(line[7:])",
        "x = y[7:]",
        "new = {k[7:9]: v for k, v in old.items()}",
        "new = {v[7:]: k for k, v in old.items()}",
    ],
)
def test_what_is_cut_with_reason_or_is_no_key_stays(line: str) -> None:
    assert unchanged_with(f"import torch\nold = torch.load(p, map_location='cpu')\n{line}\n", "JM160") == []


LOAD = """\
import torch
model = Net()
{wrap}ckpt = torch.load(p, map_location='cpu')
model.load_state_dict(ckpt['state_dict'])
"""


def test_a_model_that_is_not_wrapped_takes_checkpoints_of_both_kinds() -> None:
    consume = "torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(ckpt['state_dict'], 'module.')\n"
    assert converted_with(LOAD.format(wrap=""), "JM160") == LOAD.format(wrap="").replace(
        "model.load", consume + "model.load"
    )


def test_a_model_that_is_wrapped_loads_what_it_saved() -> None:
    assert unchanged_with(LOAD.format(wrap="model = torch.nn.parallel.DistributedDataParallel(model)\n"), "JM160") == []


def test_prefixes_that_are_cut_out_anywhere_are_reported() -> None:
    (finding,) = unchanged_with(
        "import torch\nstate_dict = {k.replace('module.', ''): v for k, v in s.items()}\n", "JM160"
    )
    assert "wherever" in finding.message
