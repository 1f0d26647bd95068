"""Hugging Face transformers: a GPT-2 of random weights under the Trainer, which finds its device itself."""

import os
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed


class Tokens(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        tokens = (torch.arange(24) * (index + 1)) % 64
        return {"input_ids": tokens, "labels": tokens}


class Print(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"loss {logs['loss']:.6f}")


def main():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            max_steps=3,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            learning_rate=1e-3,
        )
        Trainer(model, arguments, train_dataset=Tokens(), callbacks=[Print()]).train()


if __name__ == "__main__":
    main()
