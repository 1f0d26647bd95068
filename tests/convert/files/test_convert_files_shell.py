"""Shell and launcher scripts, Makefiles: environment, arguments, tools, here-documents."""

from __future__ import annotations

import pytest
from file_cases import converted_file, file_findings, left_in_file, outcome_of_file

from jumar.base.findings import Severity
from jumar.convert.model.outcome import Skip
from jumar.convert.model.project import ProjectFacts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("CUDA_VISIBLE_DEVICES=0 python a.py\n", "ASCEND_RT_VISIBLE_DEVICES=0 python a.py\n"),
        ("export CUDA_VISIBLE_DEVICES=3,1 # two\n", "export ASCEND_RT_VISIBLE_DEVICES=1,3 # two\n"),
        ('CUDA_VISIBLE_DEVICES="2, 10, 1" ./a.py\n', 'ASCEND_RT_VISIBLE_DEVICES="1,2,10" ./a.py\n'),
        ("env -u X CUDA_VISIBLE_DEVICES='1,0' ./a.sh\n", "env -u X ASCEND_RT_VISIBLE_DEVICES='0,1' ./a.sh\n"),
        ("export CUDA_LAUNCH_BLOCKING=1", "export ASCEND_LAUNCH_BLOCKING=1"),
        ("mpirun -x NCCL_SOCKET_IFNAME=^lo,docker0 a\n", "mpirun -x HCCL_SOCKET_IFNAME=^lo,docker0 a\n"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING=1 a\n", "TORCH_HCCL_ASYNC_ERROR_HANDLING=1 a\n"),
        ("NCCL_ASYNC_ERROR_HANDLING=1 a\n", "TORCH_HCCL_ASYNC_ERROR_HANDLING=1 a\n"),
        ("export DS_ACCELERATOR=cuda\n", "export DS_ACCELERATOR=npu\n"),
        (
            "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,garbage_collection_threshold:0.8\n",
            "export PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:128,garbage_collection_threshold:0.8\n",
        ),
        ('srun bash -c "CUDA_VISIBLE_DEVICES=0 python a"\n', 'srun bash -c "ASCEND_RT_VISIBLE_DEVICES=0 python a"\n'),
        ("A=$(CUDA_VISIBLE_DEVICES=0 python a)\n", "A=$(ASCEND_RT_VISIBLE_DEVICES=0 python a)\n"),
        ("if CUDA_VISIBLE_DEVICES=0 a; then b; fi\n", "if ASCEND_RT_VISIBLE_DEVICES=0 a; then b; fi\n"),
        ("nvidia-smi\n", "npu-smi info\n"),
        ("watch -n 1 nvidia-smi\n", "watch -n 1 npu-smi info\n"),
        ("nvidia-smi -L\n", "npu-smi info -l\n"),
    ],
)
def test_environment_and_plain_tools_are_converted(before: str, after: str) -> None:
    assert converted_file(before, "run.sh") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("python a.py --device cuda\n", "python a.py --device npu\n"),
        ("python a.py --device=cuda:1 --x\n", "python a.py --device=npu:1 --x\n"),
        ("python a.py --device 'cuda:0' # c\n", "python a.py --device 'npu:0' # c\n"),
        ("torchrun a.py \\\n  --dist-backend nccl \\\n  --y\n", "torchrun a.py \\\n  --dist-backend hccl \\\n  --y\n"),
        ("torchrun --nproc_per_node=gpu a.py\n", "torchrun --nproc_per_node=npu a.py\n"),
        ("python a.py model.device=cuda\n", "python a.py model.device=npu\n"),
        ("DEVICE=cuda\npython a.py --device $DEVICE\n", "DEVICE=npu\npython a.py --device $DEVICE\n"),
        ("ARGS=(\n  --device cuda\n  --x\n)\n", "ARGS=(\n  --device npu\n  --x\n)\n"),
        ('ARGS="--backend nccl --y"\n', 'ARGS="--backend hccl --y"\n'),
        ("python a.py --backend cpu:gloo,cuda:nccl\n", "python a.py --backend cpu:gloo,npu:hccl\n"),
    ],
)
def test_device_and_back_end_arguments_are_converted(before: str, after: str) -> None:
    assert converted_file(before, "run.sh") == after


@pytest.mark.parametrize(
    "line",
    [
        "echo 'CUDA_VISIBLE_DEVICES=0 python a.py --device cuda'",
        "cd cuda && ls nccl",
        "conda install cuda",
        "git clone x --branch cuda",
        "# CUDA_VISIBLE_DEVICES=0",
        "python a.py --impl cuda",
        "python cuda.py",
        'USAGE="use --device cuda here"',
        "CUDA_VISIBLE_DEVICES=$GPUS python a.py",
        "CUDA_VISIBLE_DEVICES= python a.py",
        "CUDA_VISIBLE_DEVICES=-1 python a.py",
        "CUDA_VISIBLE_DEVICES=GPU-1a2b python a.py",
        "CUDA_VISIBLE_DEVICES=0,0 python a.py",
        "NCCL_ASYNC_ERROR_HANDLING=3 a",
        "NCCL_BUFFSIZE=4194304 a",
        "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync a",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64 a",
        "nvidia-smi | grep MiB",
        "N=$(nvidia-smi -L | wc -l)",
        "nvidia-smi > log.txt",
        "srun --gres=gpu:8 a",
        "NCCL_IB_TIMEOUT=22 a",
    ],
)
def test_what_is_not_certain_stays(line: str) -> None:
    assert converted_file(f"{line}\n", "run.sh") == f"{line}\n"


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        ("CUDA_VISIBLE_DEVICES=$GPUS python a", "JM120", "known only when the script runs"),
        ("CUDA_VISIBLE_DEVICES= python a", "JM120", "hides every device"),
        ("NCCL_DEBUG=INFO a", "JM120", "no effect"),
        ("NCCL_BUFFSIZE=4194304 a", "JM120", "no effect"),
        ("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync a", "JM120", "no option backend"),
        ("nvidia-smi --query-gpu=memory.used --format=csv", "JM122", "output may be read"),
        ("nsys profile python a", "JM122", "tool for CUDA"),
        ("module load cuda/11.8", "JM122", "NVIDIA's software"),
        ("docker run --gpus all x", "JM122", "container runtime"),
        ("#SBATCH --gres=gpu:8", "JM122", "asks the scheduler"),
        ("srun --gpus-per-node=4 a", "JM122", "asks the scheduler"),
        ("export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH", "JM122", "folders of CUDA"),
        ("python a.py --tf32 True", "JM129", "TF32"),
        ("python a.py --attn_implementation flash_attention_2", "JM129", "CUDA code of its own"),
        ("python a.py --optim paged_adamw_8bit", "JM129", "CUDA code of its own"),
        ("python a.py --load_in_4bit", "JM129", "bitsandbytes"),
        ("python a.py --gpus 4", "JM121", "counts or chooses GPUs"),
        ("python a.py --use-cuda", "JM121", "named after CUDA"),
        ("python a.py --impl cuda", "JM121", "not clear"),
        ("pip install flash-attn", "JM125", "belongs to CUDA"),
        ("python -c 'import torch; print(torch.cuda.is_available())'", "JM128", "names CUDA"),
        ("python a.py 'open", "JM128", "not closed"),
    ],
)
def test_what_stays_is_reported(line: str, code: str, part: str) -> None:
    text = f"{line}\nnccl=$X" if "not closed" in part else f"{line}\n"
    (finding,) = left_in_file(text, "run.sh", code)
    assert part in finding.message
    assert finding.where.line == 1


def test_a_changed_order_of_devices_is_said() -> None:
    (finding,) = file_findings("CUDA_VISIBLE_DEVICES=3,1 python a\n", "run.sh", "JM120")
    assert "had device 3 first now has 1 first" in finding.message
    assert finding.severity is Severity.ADVICE


def test_reads_follow_the_assignment() -> None:
    text = 'export CUDA_VISIBLE_DEVICES=0,1\nIFS=, read -ra G <<< "${CUDA_VISIBLE_DEVICES:-0}"\n'
    assert converted_file(text, "a.sh") == text.replace("CUDA_VISIBLE", "ASCEND_RT_VISIBLE")
    kept = 'export CUDA_VISIBLE_DEVICES=$1\necho "$CUDA_VISIBLE_DEVICES"\nexport CUDA_VISIBLE_DEVICES\n'
    assert converted_file(kept, "a.sh") == kept
    assert converted_file(kept, "a.sh", unsafe=True) == kept.replace("CUDA_VISIBLE", "ASCEND_RT_VISIBLE")


def test_an_assignment_that_cannot_be_renamed_keeps_the_variable_everywhere() -> None:
    text = "export CUDA_VISIBLE_DEVICES=0\nexport CUDA_VISIBLE_DEVICES=GPU-1\necho $CUDA_VISIBLE_DEVICES\n"
    assert converted_file(text, "a.sh") == text


def test_the_agnostic_target_sets_the_counterpart_beside() -> None:
    text = "export CUDA_VISIBLE_DEVICES=3,1\nCUDA_LAUNCH_BLOCKING=1 python a.py --device cuda\nnvidia-smi\n"
    after = (
        "export CUDA_VISIBLE_DEVICES=3,1 ASCEND_RT_VISIBLE_DEVICES=1,3\n"
        "CUDA_LAUNCH_BLOCKING=1 ASCEND_LAUNCH_BLOCKING=1 python a.py --device cuda\nnvidia-smi\n"
    )
    assert converted_file(text, "a.sh", target="agnostic") == after
    assert converted_file("torchrun --nproc_per_node gpu a\n", "a.sh", target="agnostic").endswith("auto a\n")
    assert left_in_file(text, "a.sh", "JM121", target="agnostic")


def test_here_documents_are_read_by_who_gets_them() -> None:
    text = (
        "cat > run.sh <<'EOF'\nCUDA_VISIBLE_DEVICES=0 python a\nEOF\n"
        "python - <<'EOF'\nimport torch\nx = torch.ones(1).cuda()\nEOF\n"
        "cat > a.txt <<EOF\nCUDA_VISIBLE_DEVICES=0\nEOF\n"
    )
    after = converted_file(text, "a.sh")
    assert "ASCEND_RT_VISIBLE_DEVICES=0 python a\nEOF" in after
    assert "x = torch.ones(1).npu()" in after
    assert "import torch_npu" in after
    assert after.endswith("CUDA_VISIBLE_DEVICES=0\nEOF\n")
    (finding,) = left_in_file(text, "a.sh", "JM128")
    assert finding.where.line == 9


def test_findings_of_python_in_a_here_document_have_the_lines_of_the_file() -> None:
    text = "set -e\npython3 <<'X'\nimport torch\nif 1:\n    torch.cuda.synchronize()\nX\n"
    (finding,) = file_findings(text, "a.sh", "JM101")
    assert finding.where.line == 5
    assert finding.where.path == "a.sh"
    assert finding.edit is not None
    assert finding.edit.start_line == 5


def test_a_python_here_document_that_the_shell_expands_stays() -> None:
    text = "python <<X\nimport torch\ntorch.ones($N).cuda()\nX\n"
    assert converted_file(text, "a.sh") == text
    assert left_in_file(text, "a.sh", "JM128")


def test_the_project_decides_about_a_word_that_others_read() -> None:
    line = "python a.py --device cuda --pick cuda\n"
    kept = outcome_of_file(line, "a.sh", project=ProjectFacts(words={"device": False}))
    assert kept.after == line.encode()
    changed = outcome_of_file(line, "a.sh", project=ProjectFacts(words={"pick": True}))
    assert changed.after == b"python a.py --device npu --pick npu\n"


def test_unsafe_edits_are_made_when_asked_for() -> None:
    assert converted_file("NCCL_IB_TIMEOUT=22 a\n", "a.sh", unsafe=True) == "HCCL_RDMA_TIMEOUT=22 a\n"
    text = "python a.py --attn_implementation flash_attention_2 --tf32 True\n"
    assert converted_file(text, "a.sh", unsafe=True) == "python a.py --attn_implementation sdpa --tf32 False\n"


def test_pip_in_scripts_loses_the_cuda_build() -> None:
    text = "pip install torch==2.1.0+cu118 --index-url https://download.pytorch.org/whl/cu118\n"
    after = "pip install torch==2.1.0 --index-url https://download.pytorch.org/whl/cpu\n"
    assert converted_file(text, "a.sh") == after
    assert converted_file(text, "a.sh", target="agnostic") == text


def test_own_variables_named_after_cuda_are_no_finding() -> None:
    assert isinstance(outcome_of_file('CUDA_FLAG=""\nfoo $CUDA_FLAG\n', "a.sh"), Skip)


def test_makefiles_are_read_line_by_line() -> None:
    text = (
        "export CUDA_VISIBLE_DEVICES=1,0\n"
        "train: data\n\t@CUDA_VISIBLE_DEVICES=0 python a.py --device cuda --n $(N) \\\n\t  --dist-backend nccl\n"
        "\t$(foreach x,$(XS),echo $x;)\n"
        "data:\n\tfor i in 1 2; do echo $$i; done\n"
    )
    after = converted_file(text, "Makefile")
    assert after == (
        "export ASCEND_RT_VISIBLE_DEVICES=0,1\n"
        "train: data\n\t@ASCEND_RT_VISIBLE_DEVICES=0 python a.py --device npu --n $(N) \\\n\t  --dist-backend hccl\n"
        "\t$(foreach x,$(XS),echo $x;)\n"
        "data:\n\tfor i in 1 2; do echo $$i; done\n"
    )


def test_scripts_without_suffix_are_known_by_their_first_line() -> None:
    text = "#!/usr/bin/env bash\nCUDA_VISIBLE_DEVICES=0 a\n"
    assert outcome_of_file(text, "bin/launch").changed


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "utf-8-sig", "utf-16"])
def test_encodings_and_line_ends_survive(encoding: str) -> None:
    text = "# 训练，诶\\\r\nexport A='诶'\r\nexport CUDA_VISIBLE_DEVICES=1,0\r\n# 完"
    after = outcome_of_file(text.encode(encoding), "a.sh").after
    assert after == text.replace("CUDA_VISIBLE_DEVICES=1,0", "ASCEND_RT_VISIBLE_DEVICES=0,1").encode(encoding)


def test_every_row_of_the_table_says_where_it_comes_from() -> None:
    from jumar.convert.files.draft.environment import judge, variables

    for name, row in variables().items():
        assert row.source, name
        assert row.npu or row.note, name
        judgement = judge(name, None)
        assert judgement.name in (None, row.npu)


def test_only_requests_for_gpus_are_found_in_the_lines_for_a_scheduler() -> None:
    text = "#!/bin/bash\n#SBATCH --job-name=gpu_test\n#SBATCH --gres gpu:a100:2 -p gpu\n#SBATCH -G 4\n#SBATCH -n 2\n"
    found = left_in_file(text, "a.sbatch", "JM122")
    assert [(finding.where.line, finding.where.column) for finding in found] == [(3, 9), (3, 27), (4, 9)]


@pytest.mark.parametrize(
    "script",
    [
        "export NCCL_SOCKET_IFNAME=eth0\n./all_reduce_perf -b 8\n",
        "NCCL_SOCKET_IFNAME=lo ./build/all_reduce_perf -g 8\n",
        "export CUDA_VISIBLE_DEVICES=0\nmpirun -np 8 -x NCCL_SOCKET_IFNAME build/train_gpt2cu -i x.bin\n",
        "CUDA_VISIBLE_DEVICES=1 NCCL_SOCKET_IFNAME=lo timeout 9 $HOME/bin/bench\n",
        "export NCCL_SOCKET_IFNAME=eth0\nfor n in 1 2; do srun -n $n ./a.out; done\n",
    ],
)
def test_the_variables_of_compiled_programs_stay(script: str) -> None:
    assert converted_file(script, "run.sh") == script
    found = left_in_file(script, "run.sh", "JM120")
    assert found
    assert all("compiled program" in each.message for each in found)


def test_variables_for_a_compiled_program_and_for_python_are_not_renamed_without_asking() -> None:
    script = "export NCCL_SOCKET_IFNAME=eth0\n./build/all_reduce_perf\npython train.py\n"
    assert converted_file(script, "run.sh") == script
    assert [each.severity.label for each in left_in_file(script, "run.sh", "JM120")] == ["warning"]


def test_an_entry_for_the_npu_keeps_cudas_in_a_configuration() -> None:
    text = (
        "device: cuda\nbackends: {cuda: nccl, npu: hccl}\ntable:\n  cuda:\n    device: cuda\n  npu:\n    device: npu\n"
    )
    assert converted_file(text, "c.yaml") == text.replace("device: cuda\nb", "device: npu\nb")


def test_what_starts_horovods_processes_is_named() -> None:
    (finding,) = left_in_file("horovodrun -np 8 python train.py\n", "run.sh", "JM122")
    assert "RANK_ID" in finding.action
