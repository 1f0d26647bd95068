"""sentence-transformers: a small BERT of random weights learns which sentences belong together, under its trainer."""

import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast, TrainerCallback, set_seed

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on under mat tree fast slow".split()


class Print(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"loss {logs['loss']:.6f}")


def small_bert(folder):
    Path(folder, "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(str(Path(folder, "vocab.txt"))).save_pretrained(folder)
    configuration = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    BertModel(configuration).save_pretrained(folder)
    return Transformer(folder, max_seq_length=16)


def main():
    set_seed(0)
    data = Dataset.from_dict(
        {
            "anchor": ["the cat sat", "a dog ran", "the mat", "a tree"] * 3,
            "positive": ["a cat sat on the mat", "the dog ran fast", "a mat", "under the tree"] * 3,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        words = small_bert(folder)
        model = SentenceTransformer(modules=[words, Pooling(words.get_word_embedding_dimension())])
        arguments = SentenceTransformerTrainingArguments(
            folder,
            per_device_train_batch_size=4,
            max_steps=3,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        loss = MultipleNegativesRankingLoss(model)
        SentenceTransformerTrainer(model, arguments, data, loss=loss, callbacks=[Print()]).train()
    assert isinstance(model, torch.nn.Module)


if __name__ == "__main__":
    main()
