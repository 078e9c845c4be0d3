"""Lengths beyond those of training, and how far back a model remembers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headway.data.records.corpus import Corpus
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Decoder
from headway.science.long_texts import (
    DIGITS,
    DISTANCES,
    FARTHEST,
    LETTERS,
    NEAREST,
    held_out_tokens,
    loss_by_length,
    recall_by_distance,
    recall_text,
)
from headway.text.train import train_tokenizer
from headway.training.options import TrainOptions
from headway.workflows.input import read_input


def test_the_text_asks_for_letters_at_all_distances():
    text = recall_text(40_000, seed=5)
    tasks = [task for task in text.split("=") if task]
    distances = [len(task) - 1 for task in tasks]
    for task in tasks:
        assert task[0] == task[-1] and task[0] in LETTERS and task[-2] == "?" and set(task[1:-2]) <= set(DIGITS)
    assert min(distances) >= NEAREST and max(distances) <= FARTHEST and max(distances) > 400
    middle = (NEAREST * FARTHEST) ** 0.5
    short = sum(len(task) + 1 for task in tasks if len(task) - 1 <= middle)
    assert short / len(text) == pytest.approx(0.5, abs=0.1), "short tasks fill as much of the text as long ones"
    assert recall_text(40_000, seed=5) == text != recall_text(40_000, seed=6)


class Remembers(nn.Module):
    """Answers with the letter that it reads at most ``reach`` tokens before the question."""

    def __init__(self, letters: list[int], reach: int, vocab: int):
        super().__init__()
        self.letters, self.reach, self.vocab = letters, reach, vocab

    def forward(self, ids: Tensor) -> Tensor:
        logits = torch.zeros(*ids.shape, self.vocab)
        for row, line in enumerate(ids.tolist()):
            seen = [one for one in line[-self.reach :] if one in self.letters]
            if seen:
                logits[row, -1, seen[-1]] = 9.0
        return logits


def test_recall_is_measured_at_its_distance():
    tokenizer = train_tokenizer([recall_text(5000)], "char", None, role="decoder", out_of=5000)
    letters = [tokenizer.encode(letter)[0] for letter in LETTERS]
    for reach in (8, 64, 512):
        found = recall_by_distance(Remembers(letters, reach, tokenizer.vocab_size), tokenizer, 1 << 20)
        assert [one["distance"] for one in found] == list(DISTANCES)
        for one in found:
            if one["distance"] <= reach:
                assert one["accuracy"] == 1.0
            else:
                assert one["accuracy"] == pytest.approx(1 / len(LETTERS), abs=0.06)
    short = recall_by_distance(Remembers(letters, 8, tokenizer.vocab_size), tokenizer, 64)
    assert [one["distance"] for one in short] == [8, 16, 32], "no more than the model reads"


def test_loss_at_lengths_is_of_the_same_tokens(corpus: Path):
    source: Any = read_input([str(corpus)], TrainOptions())[0]
    assert isinstance(source, Corpus)
    tokenizer = train_tokenizer([corpus.read_text()], "char", None, role="decoder", out_of=9000)
    tokens = held_out_tokens(source, None, tokenizer)
    assert tokenizer.decode(tokens[:400]) in corpus.read_text()[-len(tokens) - 10 :]
    config = TransformerConfig(vocab_size=tokenizer.vocab_size, d_model=16, n_layers=2, n_heads=2, max_length=8)
    model = initialise(Decoder(config), 0, embedding_std=1.0, zero_out=False).eval()
    found = loss_by_length(model, tokens, 8, 1 << 20)
    assert [one["length"] for one in found] == [8, 16, 32]
    count = (len(tokens) - 1) // 32 * 32
    ids = torch.from_numpy(np.asarray(tokens[: count + 1]).astype(np.int64))
    for one in found:
        logits = model(ids[:-1].reshape(-1, one["length"])).log_softmax(-1).flatten(0, 1)
        assert one["loss"] == pytest.approx(-logits[torch.arange(count), ids[1:]].mean().item(), abs=1e-5)
    assert [one["loss"] is None for one in loss_by_length(model, tokens, 8, 16)] == [False, False, True]
    assert all(one["loss"] is None for one in loss_by_length(model, tokens[:90], 8, 1 << 20)), "too short a text"
    named = held_out_tokens(source, source, tokenizer)
    assert len(named) > 8 * len(tokens)
