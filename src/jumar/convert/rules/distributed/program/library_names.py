"""Names of PyTorch and of libraries beside it that matter to a training with ranks."""

from __future__ import annotations

import re

WRITES = frozenset(
    {
        "torch.save", "torch.jit.save", "pickle.dump", "joblib.dump", "json.dump", "yaml.dump", "yaml.safe_dump",
        "safetensors.torch.save_file", "safetensors.torch.save_model", "torchvision.utils.save_image", "numpy.save",
        "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "scipy.io.savemat", "imageio.imwrite",
        "imageio.mimsave", "cv2.imwrite", "matplotlib.pyplot.savefig", "matplotlib.pyplot.show",
        "matplotlib.image.imsave", "os.mkdir", "os.makedirs", "os.remove", "os.unlink", "os.rename", "os.replace",
        "os.rmdir", "os.system", "os.symlink", "shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.copytree",
        "shutil.rmtree", "shutil.move", "wandb.log", "wandb.save", "wandb.watch", "wandb.finish", "wandb.log_artifact",
        "mlflow.log_metric", "mlflow.log_metrics", "mlflow.log_param", "mlflow.log_params", "mlflow.log_artifact",
        "mlflow.start_run", "mlflow.end_run", "neptune.log_metric"
    }
)  # fmt: skip
"""Functions that write something and whose result nobody needs."""
WRITING_METHODS = frozenset(
    {
        "mkdir", "write_text", "write_bytes", "unlink", "to_csv", "to_json", "to_pickle", "to_excel", "to_parquet",
        "save_pretrained", "savefig", "save_weights", "push_to_hub"
    }
)  # fmt: skip
"""Methods that write something."""
WRITERS = frozenset(
    {
        "torch.utils.tensorboard.SummaryWriter", "torch.utils.tensorboard.writer.SummaryWriter",
        "tensorboardX.SummaryWriter"
    }
)  # fmt: skip
"""Classes whose objects write event files."""
BARS = frozenset(
    {
        "tqdm.tqdm", "tqdm.trange", "tqdm.auto.tqdm", "tqdm.auto.trange", "tqdm.notebook.tqdm", "tqdm.std.tqdm"
    }
)  # fmt: skip
"""Progress bars."""
FETCHES = re.compile(
    r"torch\.hub\.(load|load_state_dict_from_url|download_url_to_file)|torch\.utils\.model_zoo\.load_url"
    r"|torchvision\.datasets\.utils\.download\w*|urllib\.request\.urlretrieve|wget\.download|gdown\.download\w*"
    r"|nltk\.download|datasets\.load_dataset|huggingface_hub\.\w*download\w*|timm\.create_model"
    r"|transformers\.\w+\.from_pretrained|kagglehub\.\w+"
)
"""Functions that download."""
PRETRAINED = frozenset({"pretrained", "weights", "weights_backbone", "pretrained_backbone"})
"""Arguments that make a model download its weights."""
READS = frozenset({"torch.load", "torch.jit.load", "safetensors.torch.load_file", "joblib.load"})
"""Functions that read what a rank may have written."""
MODULE_METHODS = frozenset(
    {
        "add_module", "apply", "bfloat16", "buffers", "children", "compile", "cpu", "cuda", "double", "eval",
        "extra_repr", "float", "forward", "get_buffer", "get_parameter", "get_submodule", "half", "load_state_dict",
        "modules", "named_buffers", "named_children", "named_modules", "named_parameters", "npu", "parameters",
        "register_backward_hook", "register_buffer", "register_forward_hook", "register_forward_pre_hook",
        "register_full_backward_hook", "register_module", "register_parameter", "requires_grad_", "share_memory",
        "state_dict", "to", "to_empty", "train", "type", "xpu", "zero_grad", "ipu", "mtia", "set_extra_state",
        "get_extra_state", "no_sync", "join", "register_comm_hook"
    }
)  # fmt: skip
"""Methods of every module and of DistributedDataParallel. None of them computes a loss."""
