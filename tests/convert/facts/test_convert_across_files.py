"""Rules that know what other files of the project define, and what those take from this one."""

from __future__ import annotations

from pathlib import Path

from convert_cases import IMPORT

from jumar.convert import ConvertOptions, convert_tree

BOX = "class Box:\n    def cuda(self):\n        return self\n"


def converted(folder: Path, options: ConvertOptions | None = None, **files: str) -> dict[str, str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    found = convert_tree(folder, options, cache=False)
    return {Path(file.path).stem: file.after.decode().replace(IMPORT, "") for file in found.files}


def test_a_cuda_method_of_a_class_of_another_file_keeps_its_name(tmp_path: Path) -> None:
    main = (
        "import torch\nfrom box import Box\nbox = Box()\nbox.cuda()\n"
        "class Sub(Box):\n    pass\nSub().cuda()\ndef f(box: Box):\n    return box.cuda()\n"
    )
    after = converted(tmp_path, box=BOX, main=main + "torch.ones(1).cuda()\n")
    assert after == {"box": BOX, "main": main + "torch.ones(1).npu()\n"}


def test_a_name_that_other_files_take_keeps_its_signature(tmp_path: Path) -> None:
    amp, use = "from torch.cuda.amp import autocast\n", "from mixed import autocast\nwith autocast(True):\n    pass\n"
    after = converted(tmp_path, mixed=amp + "with autocast():\n    pass\n", use=use)
    assert after == {"mixed": "from torch_npu.npu.amp import autocast\nwith autocast():\n    pass\n", "use": use}


def test_a_block_whose_statements_all_go_keeps_a_pass(tmp_path: Path) -> None:
    source = (
        "import torch\nimport torch.backends.cudnn as cudnn\nnet = torch.nn.Linear(2, 2)\n"
        "if torch.cuda.is_available():\n    net = torch.nn.DataParallel(net)\n    cudnn.benchmark = True\n"
    )
    after = converted(tmp_path, ConvertOptions(similar=True), main=source)["main"]
    assert after.endswith("if torch.npu.is_available():\n    pass\n")
