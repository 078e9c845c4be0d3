"""A row of a table without a token, beyond the tokenizer or in a hole of it, is never chosen, however likely."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from headway.hub.directory import load_model
from headway.hub.generation_config import TargetRules
from headway.models.adapt.vocabulary import resize_vocabulary
from headway.tasks.text_to_text.pipeline import Translator
from headway.text.tokenizer import Tokenizer

sys.path.append(str(Path(__file__).parent.parent / "training"))
from bases import V, make_base


def likely(kind, bias, place):
    """A base in which the rows without a token are by far the likeliest, one of them a hole; and their ids."""
    make_base(kind, place)
    spec = json.loads((place / "tokenizer.json").read_text())
    last = max(spec["model"]["vocab"], key=spec["model"]["vocab"].get)
    spec["model"]["vocab"][last] = V - 1  # and its old place is a hole
    (place / "tokenizer.json").write_text(json.dumps(spec))
    silent = {number for number, token in enumerate(Tokenizer.load(place).tokens) if not token}
    assert silent
    file = place / "model.safetensors"
    tensors = load_file(file)
    tensors[bias] = torch.zeros(1, V) if kind == "bart" else torch.zeros(V)
    tensors[bias].view(-1)[sorted(silent)] = 50.0
    save_file(tensors, file, metadata={"format": "pt"})
    return place, silent


@pytest.mark.parametrize("beam", [1, 5])
def test_a_translator_never_writes_them(beam, tmp_path):
    place, silent = likely("bart", "final_logits_bias", tmp_path)
    pipe = headway.load(str(place), task="translation")
    (found,) = pipe.runtime.search(pipe.sources_of("the cat"), pipe.rules, beam=beam)
    assert found and not any(silent.intersection(one.ids) for one in found)


def test_a_decoder_that_translates_never_writes_them(tmp_path):
    """Each token has a second row here, which is half as likely again and has no token."""
    nouns = ("cat", "old dog", "red door", "mat", "big sun", "small red mat", "tree")
    pairs = "".join(f"the {one} {two}\tle {two} {one}\n" for one in nouns for two in nouns)
    (tmp_path / "pairs.tsv").write_text(f"en\tfr\n{pairs}")
    words = {"layers": 1, "d_model": 24, "heads": 3, "length": 64, "threads": 1, "quiet": True}
    headway.train(tmp_path / "pairs.tsv", out=tmp_path / "run", model="decoder", steps=30, **words)
    pipe = headway.load(tmp_path / "run")
    rows = pipe.tokenizer.vocab_size
    model = resize_vocabulary(load_model(tmp_path / "run"), 2 * rows, {rows + n: [n] for n in range(rows)})
    model.head.matrix.weight.data[rows:] *= 1.5
    padded = Translator(model, pipe.tokenizer, TargetRules(start=(), end=pipe.rules.end))
    assert padded("the cat", beam=1) == pipe("the cat", beam=1) != ""


def test_a_mask_is_never_filled_with_them(tmp_path):
    place, silent = likely("bert", "cls.predictions.bias", tmp_path)
    found = headway.load(str(place))("the [MASK] sat", k=300)
    assert len(found) <= V - len(silent) and all(one["token"] for one in found)
