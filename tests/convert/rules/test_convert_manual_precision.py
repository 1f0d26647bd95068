"""Opt-in rules about training steps: autocast and loss scaling, apex, fused optimizers, the device, shapes."""

from __future__ import annotations

import pytest
from opt_in_cases import converted_with, findings_with, outcome_with, unchanged_with

HEAD = "import torch\nimport torch.nn.functional as F\n"

STEP = """\
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        {between}
        optimizer.step()
"""


def test_a_step_in_a_function_of_its_own_gets_the_module_s_scaler() -> None:
    after = converted_with(HEAD + STEP.format(between="log(loss)"), "JM154")
    assert after.index("\nscaler = torch.amp.GradScaler('npu')\n") < after.index("def train")
    expected = """\
        optimizer.zero_grad()
        with torch.amp.autocast('npu'):
            out = model(x)
            loss = F.cross_entropy(out, y)
        scaler.scale(loss).backward()
        log(loss)
        scaler.step(optimizer)
        scaler.update()
"""
    assert after.endswith(expected)


def test_gradients_are_unscaled_before_they_are_clipped() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    after = converted_with(HEAD + STEP.format(between=clip), "JM154")
    assert f"        scaler.unscale_(optimizer)\n        {clip}\n        scaler.step(optimizer)\n" in after


def test_accumulated_gradients_step_through_the_scaler_in_their_branch() -> None:
    source = """\
    import torch
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for i, (x, y) in enumerate(loader):
        loss = loss_fn(net(x), y) / 4
        loss.backward()
        if i % 4 == 3:
            opt.step()  # now
            opt.zero_grad()
    """
    expected = """\
import torch
opt = torch.optim.SGD(net.parameters(), 0.1)
scaler = torch.amp.GradScaler('npu')
for i, (x, y) in enumerate(loader):
    with torch.amp.autocast('npu'):
        loss = loss_fn(net(x), y) / 4
    scaler.scale(loss).backward()
    if i % 4 == 3:
        scaler.step(opt)  # now
        scaler.update()
        opt.zero_grad()
"""
    assert converted_with(source, "JM154") == expected


def test_strings_and_comments_within_the_forward_pass_keep_their_text() -> None:
    source = '''\
import torch
for x in loader:
    y = model(x, """
text
""")  # why

    # a comment
    loss = criterion(y)
    loss.backward()
    optimizer.step()
'''
    after = converted_with(source, "JM155")
    assert (
        '    with torch.amp.autocast("npu", dtype=torch.bfloat16):\n        y = model(x, """\ntext\n""")  # why\n'
        in after
    )
    assert "\n\n        # a comment\n        loss = criterion(y)\n    loss.backward()\n" in after


def test_line_ends_and_tabs_stay_as_they_are() -> None:
    source = "import torch\r\nfor x in loader:\r\n\tloss = model(x)\r\n\tloss.backward()\r\n\toptimizer.step()"
    after = outcome_with(source, "JM154").after.decode()
    assert "\n" not in after.replace("\r\n", "")
    assert after.endswith("\tscaler.scale(loss).backward()\r\n\tscaler.step(optimizer)\r\n\tscaler.update()")
    assert "\r\n\twith torch.amp.autocast('npu'):\r\n\t\tloss = model(x)\r\n" in after


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (STEP.format(between="optimizer.step(closure)"), "closure"),
        (STEP.format(between="total = p.grad.norm()"), "gradients are read"),
        (STEP.format(between="other.backward()"), "several losses"),
        (STEP.format(between="pass").replace("F.cross_entropy", "F.binary_cross_entropy"), "autocast"),
        (STEP.format(between="pass").replace("loss.backward()", "F.mse_loss(out, y).backward()"), "goes backward"),
        (STEP.format(between="pass").replace("model(x)", "x").replace("F.cross_entropy", "f"), "cannot be told"),
    ],
)
def test_a_step_of_another_form_stays_and_the_reason_is_said(source: str, reason: str) -> None:
    found = unchanged_with(HEAD + source, "JM154")
    assert found
    assert all(reason in finding.message for finding in found)


@pytest.mark.parametrize(
    "line",
    [
        "from torch.amp import autocast",
        "from torch.cuda.amp import GradScaler",
        "import apex",
        "from accelerate import Accelerator",
        "import pytorch_lightning as pl",
        "from torch.distributed.fsdp import FullyShardedDataParallel",
    ],
)
def test_a_script_that_has_mixed_precision_or_leaves_it_to_a_library_is_left_alone(line: str) -> None:
    assert findings_with(HEAD + line + "\n" + STEP.format(between="pass"), "JM154") == []


def test_learning_rate_schedules_do_not_step_through_the_scaler() -> None:
    after = converted_with(HEAD + STEP.format(between="scheduler.step()"), "JM154")
    assert "        scheduler.step()\n        scaler.step(optimizer)\n" in after


def test_float16_goes_before_bfloat16() -> None:
    after = converted_with(HEAD + STEP.format(between="pass"), "JM154", "JM155")
    assert "bfloat16" not in after
    assert after.count("autocast") == 1


APEX = """\
import torch
from apex import amp  # mixed


def train(loader):
    for x, y in loader:
        loss = criterion(model(x), y)
        if args.amp:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
        optimizer.step()


def main():
    if args.amp:
        model, optimizer = amp.initialize(model, optimizer, opt_level={level}{scale})
    train(loader)
"""


def test_apex_becomes_a_scaler_that_is_disabled_where_apex_was_not_initialized() -> None:
    after = converted_with(APEX.format(level="'O1'", scale=""), "JM156")
    assert "apex" not in after
    assert "\nscaler = torch.amp.GradScaler('npu', enabled=False)\n" in after
    assert "        global scaler\n        scaler = torch.amp.GradScaler('npu')\n    train(loader)\n" in after
    expected = """\
        with torch.amp.autocast('npu', enabled=scaler.is_enabled()):
            loss = criterion(model(x), y)
        if args.amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        scaler.step(optimizer)
        scaler.update()
"""
    assert expected in after


@pytest.mark.parametrize(
    ("level", "scale", "options"),
    [
        ("'O2'", "", ""),
        ("'O0'", "", ", enabled=False"),
        ("args.opt_level", "", ", enabled=args.opt_level != 'O0'"),
        ("'O1'", ", loss_scale=1024", ", init_scale=1024.0, growth_interval=2**31 - 1"),
        ("'O1'", ", loss_scale='dynamic'", ""),
    ],
)
def test_options_of_apex_become_options_of_the_scaler(level: str, scale: str, options: str) -> None:
    after = converted_with(APEX.format(level=level, scale=scale), "JM156")
    assert f"        scaler = torch.amp.GradScaler('npu'{options})\n" in after


def test_a_computed_loss_scale_is_reported() -> None:
    found = findings_with(APEX.format(level="'O1'", scale=", loss_scale=args.scale"), "JM156")
    assert any("args.scale" in finding.message for finding in found)


@pytest.mark.parametrize(
    "line",
    [
        "amp.register_half_function(torch, 'f')",
        "amp.initialize(model, optimizer, num_losses=2)",
        "with amp.scale_loss(loss, optimizer, loss_id=1) as s:\n    s.backward()",
        "x = amp",
    ],
)
def test_apex_with_something_that_has_no_counterpart_stays_whole(line: str) -> None:
    source = APEX.format(level="'O1'", scale="") + line + "\n"
    assert "from apex import amp" in outcome_with(source, "JM156").after.decode()


def test_gradients_combined_by_apex_are_for_scripts_that_keep_it() -> None:
    source = APEX.format(level="'O1'", scale="")
    assert "opt_level='O1', combine_grad=True)" in converted_with(source, "JM163")
    assert "combine_grad" not in converted_with(source, "JM163", "JM156")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.optim.SGD(ps, 0.1, 0.9, weight_decay=1e-4)", "NpuFusedSGD(ps, 0.1, 0.9, weight_decay=1e-4)"),
        ("torch.optim.adamw.AdamW(ps, betas=(0.9, 0.95))", "NpuFusedAdamW(ps, betas=(0.9, 0.95))"),
        ("optim.RMSprop(ps, lr=1)", "NpuFusedRMSprop(ps, lr=1)"),
        ("Adam(ps)", "NpuFusedAdam(ps)"),
        ("FusedAdam(ps, lr=1)", "NpuFusedAdamW(ps, lr=1, weight_decay=0.0)"),
        ("FusedSGD(ps, lr=1)", "NpuFusedSGD(ps, lr=1)"),
    ],
)
def test_optimizers_become_fused_ones_of_the_same_rule(before: str, after: str) -> None:
    head = (
        "import torch\nimport torch.optim as optim\nfrom torch.optim import Adam\n"
        "from apex.optimizers import FusedAdam, FusedSGD\nopt = "
    )
    assert converted_with(head + before + "\n", "JM157") == head + f"torch_npu.optim.{after}\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("opt = torch.optim.SGD(ps)", "needs lr"),
        ("opt = torch.optim.SGD(ps, lr=1, maximize=True)", "maximize"),
        ("opt = torch.optim.AdamW(ps, fused=True)", "fused"),
        ("opt = torch.optim.Adam(ps, **extra)", "unpacked"),
        ("opt = torch.optim.Adam(ps)\nopt.zero_grad(set_to_none=True)", "set_to_none"),
        ("opt = torch.optim.Adam(ps)\nmodel.zero_grad()", "cleared by the model"),
        ("opt = torch.optim.Adam(ps)\nopt.add_param_group(g)", "add_param_group"),
        ("opt = torch.optim.Adam(ps)\nopt.step(closure)", "closure"),
        ("opt = torch.optim.Adam(ps)\nfor p in ps: p.grad = None", "grad"),
        ("opt = torch.optim.Adam(net.to(torch.bfloat16).parameters())", "bfloat16"),
    ],
)
def test_an_optimizer_that_the_fused_one_cannot_stand_for_stays(source: str, reason: str) -> None:
    (finding,) = unchanged_with(f"import torch\n{source}\n", "JM157")
    assert reason in finding.message


def test_fused_optimizers_are_not_for_any_accelerator() -> None:
    assert unchanged_with("import torch\nopt = torch.optim.Adam(ps)\n", "JM157", target="agnostic")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import torch\nif __name__ == '__main__':\n    model.cuda()\n",
            "import torch\nif __name__ == '__main__':\n    torch.npu.set_device(0)\n    model.npu()\n",
        ),
        (
            "import torch\ndef f(): pass\nx = y.cuda(3)\n",
            "import torch\ndef f(): pass\ntorch.npu.set_device(3)\nx = y.npu(3)\n",
        ),
        (
            "import torch\nd = 'cuda' if torch.cuda.is_available() else 'cpu'\n",
            "import torch\nif torch.npu.is_available():\n    torch.npu.set_device(0)\n"
            "d = 'npu' if torch.npu.is_available() else 'cpu'\n",
        ),
    ],
)
def test_the_device_is_set_before_it_is_used(source: str, expected: str) -> None:
    assert converted_with(source, "JM158") == expected


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.cuda.set_device(0)\nx.cuda()\n",
        "import torch\ndef f(x):\n    return x.cuda()\n",
        "import torch\nx.cuda(args.gpu)\n",
        "import torch\nx.cuda(0)\ny.cuda(1)\n",
        "import torch\nmp.spawn(f)\ntorch.distributed.init_process_group('nccl')\nx.cuda()\n",
    ],
)
def test_a_device_that_is_set_or_not_known_is_not_set_again(source: str) -> None:
    assert outcome_with(source, "JM158").after.decode().count("set_device(") == source.count("set_device(")


def test_the_compile_mode_is_said_in_the_function_that_processes_run() -> None:
    source = """\
    import torch
    import torch.multiprocessing as mp
    def work(rank):
        '''A rank.'''
        model.cuda(rank)
    if __name__ == '__main__':
        mp.spawn(work, nprocs=2)
    """
    after = converted_with(source, "JM161")
    assert "    '''A rank.'''\n    torch.npu.set_compile_mode(jit_compile=False)\n    model.npu(rank)\n" in after


@pytest.mark.parametrize(
    "line",
    [
        "y = x[x > 0]",
        "y = x[(a == 1) & (b < 2)]",
        "y = x[mask]",
        "i = torch.nonzero(x)",
        "i = x.nonzero()",
        "i = torch.where(x)",
        "b = tokenizer(texts, padding=True)",
        "b = torch.nn.utils.rnn.pad_sequence(xs)",
    ],
)
def test_shapes_that_depend_on_values_are_reported(line: str) -> None:
    assert len(unchanged_with(f"import torch\n{line}\n", "JM162")) == 1


@pytest.mark.parametrize(
    "line",
    ["y = x[0]", "y = torch.where(x > 0, x, 0)", "x[x > 0] = 0", "b = tokenizer(t, padding='max_length')", "d[k in s]"],
)
def test_shapes_that_are_fixed_are_not(line: str) -> None:
    assert unchanged_with(f"import torch\n{line}\n", "JM162") == []


def test_anomaly_detection_is_switched_off() -> None:
    head = "import torch\nfrom torch.autograd import gradcheck\n"
    source = head + "with torch.autograd.detect_anomaly(): f()\ngradcheck(f, x)\n"
    assert "with torch.autograd.set_detect_anomaly(False): f()" in converted_with(source, "JM164")
    assert len(findings_with(source, "JM164")) == 2
