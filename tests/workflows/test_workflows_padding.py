"""What Headway saves of a decoder, ``transformers`` continues in batches as it continues single texts."""

import json
import sys
from pathlib import Path

import pytest
import torch
import transformers

import headway
from headway.workflows.export import export

sys.path.append(str(Path(__file__).parent.parent / "training"))
from bases import make_base

PROMPTS = ["a", "the cat sat on", "old dogs", "the cat sat on a mat while old dogs ran", "red doors and", "the"]
QUICK = {"steps": 4, "batch_tokens": 128, "threads": 1, "quiet": True}
NOUNS = ("cat", "old dog", "red door", "mat", "big sun", "small red mat", "tree")
PAIRS = "en\tfr\n" + "".join(f"the {one} {two}\tle {two} {one}\n" for one in NOUNS for two in NOUNS)


def base(kind: str, place: Path) -> Path:
    """A language model whose tokenizer has no padding token, as Llama's and GPT-2's have none."""
    make_base(kind, place)
    for name in ("tokenizer_config.json", "config.json", "generation_config.json"):
        entries = json.loads((place / name).read_text())
        (place / name).write_text(json.dumps({key: entries[key] for key in entries if not key.startswith("pad")}))
    return place


def saved(kind: str, place: Path, corpus: Path) -> Path:
    """A directory of a decoder that Headway wrote."""
    out = place / "out"
    if kind == "from scratch":
        headway.train(corpus, out=out, preset="tiny", **QUICK)
    elif kind == "a translator":
        (place / "pairs.tsv").write_text(PAIRS)
        headway.train(place / "pairs.tsv", out=out, model="decoder", layers=1, d_model=24, heads=3, length=64, **QUICK)
    else:
        family, way = kind.split(", ")
        source = base(family, place / "base")
        if way == "fine-tuned":
            headway.train(corpus, from_model=str(source), out=out, **QUICK)
        else:
            export(source, out, to="hf")
    return out


BASES = [f"{family}, {way}" for family in ("llama", "gpt2") for way in ("fine-tuned", "exported")]


@pytest.mark.parametrize("kind", ["from scratch", "a translator", *BASES])
def test_a_batch_is_continued_as_single_texts_are(kind: str, tmp_path: Path, corpus: Path):
    place = saved(kind, tmp_path, corpus)
    pipe = transformers.pipeline("text-generation", str(place), dtype=torch.float32)
    assert pipe.tokenizer.padding_side == "left" and pipe.tokenizer.pad_token_id is not None
    for name in ("config.json", "generation_config.json"):
        if (place / name).exists():
            assert json.loads((place / name).read_text())["pad_token_id"] == pipe.tokenizer.pad_token_id, name
    words = {"do_sample": False, "max_new_tokens": 9, "return_full_text": False}
    together = [found[0]["generated_text"] for found in pipe(PROMPTS, batch_size=8, **words)]
    alone = [pipe(prompt, **words)[0]["generated_text"] for prompt in PROMPTS]
    assert together == alone and any(alone)


def test_a_padding_token_changes_nothing_of_what_is_learnt(tmp_path: Path, corpus: Path):
    make_base("gpt2", tmp_path / "padded")
    found = [
        headway.train(corpus, from_model=str(source), out=tmp_path / f"run{number}", **QUICK)["val_loss"]
        for number, source in enumerate((tmp_path / "padded", base("gpt2", tmp_path / "base")))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["gpt2", "bert", "bart"])
def test_what_a_base_says_of_its_tokenizer_is_kept(kind: str, tmp_path: Path):
    """Where it is still true: tokens that the vocabulary lacks, and segments that the model lacks, are left out."""
    file = make_base(kind, tmp_path / "base") / "tokenizer_config.json"
    said = {"padding_side": "left", "truncation_side": "left", "add_prefix_space": False, "add_bos_token": False}
    entries = json.loads(file.read_text())
    special = entries.get("eos_token", "[SEP]")
    said |= {"extra_special_tokens": [special], "image_token": special}
    more = {"video_token": "<|video|>", "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    file.write_text(json.dumps({**entries, **said, **more}))
    export(tmp_path / "base", tmp_path / "out", to="hf")
    found = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert said.items() <= found.items() and "video_token" not in found
    assert ("token_type_ids" in found["model_input_names"]) == (kind == "bert")


def test_a_classifier_that_counts_positions_pads_on_the_right(tmp_path: Path, rows: Path):
    source = base("gpt2", tmp_path / "base")
    headway.train(rows, from_model=str(source), out=tmp_path / "out", **QUICK)
    pipe = transformers.pipeline("text-classification", str(tmp_path / "out"), dtype=torch.float32)
    together = pipe(PROMPTS, batch_size=8)
    assert all(
        one["label"] == pipe(prompt)[0]["label"] and abs(one["score"] - pipe(prompt)[0]["score"]) < 1e-5
        for one, prompt in zip(together, PROMPTS, strict=True)
    )
