"""A model of many languages writes the one that is chosen, is trained for it, and says so when none is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

import headway
from headway.errors import InputError
from headway.text import Tokenizer

TINY = {
    **{"d_model": 24, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 17},
    **{"decoder_attention_heads": 3, "decoder_ffn_dim": 17, "max_position_embeddings": 61},
}


@pytest.fixture
def many(family_directory: Callable[[str], Path], tmp_path: Path) -> Path:
    """A tiny M2M-100 of random weights for which no target language was chosen."""
    words = Tokenizer.load(family_directory("m2m100"))
    folder = tmp_path / "many"
    config = transformers.M2M100Config(vocab_size=words.vocab_size + 7, **TINY)
    torch.manual_seed(3)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    words.save(folder)
    path = folder / "tokenizer_config.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in known.items() if name != "tgt_lang"}))
    return folder


def test_a_language_must_be_chosen_and_then_begins_every_target(many: Path, in_process: Callable):
    pipe = headway.load(many)
    with pytest.raises(InputError, match="choose one: --target-language af or am or ar or one of 97"):
        pipe("the fox")
    french = pipe.between(source="en", target="fr")
    assert french.rules.start == (2, pipe.tokenizer.languages["fr"]) and isinstance(french("the fox"), str)
    status, out, _ = in_process("translate", many, "the fox", "--target-language", "fr", "--source-language", "en")
    assert (status, out.rstrip("\n")) == (0, french("the fox"))
    with pytest.raises(InputError, match="target language: found 'xx'"):
        pipe.between(target="xx")
    (many / "tokenizer_config.json").write_text(json.dumps({"tgt_lang": "xx"}))
    with pytest.raises(InputError, match=r"tokenizer_config\.json: target language: found 'xx'"):
        headway.load(many)


def test_training_for_a_language_is_kept_in_the_run(many: Path, tmp_path: Path):
    for side, text in (("src", "the fox\n"), ("tgt", "the brown fox\n")):
        (tmp_path / f"t.{side}").write_text("".join(f"{i} {text}" for i in range(31)))
    pair = [tmp_path / "t.src", tmp_path / "t.tgt"]
    options = {
        "from_model": str(many),
        "task": "translation",
        "steps": 2,
        "quiet": True,
        "threads": 1,
        "precision": "float32",
    }
    with pytest.raises(InputError, match="choose one with --target-language"):
        headway.train(pair, out=tmp_path / "none", **options)
    headway.train(pair, out=tmp_path / "run", source_language="de", target_language="ja", **options)
    pipe = headway.load(tmp_path / "run")
    japanese = pipe.tokenizer.languages["ja"]
    assert pipe.rules.start == (2, japanese)
    assert pipe.tokenizer.encode("a", special=True)[0] == pipe.tokenizer.languages["de"]
    known = json.loads((tmp_path / "run" / "generation_config.json").read_text())
    assert known["forced_bos_token_id"] == japanese and known["decoder_start_token_id"] == 2
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run").eval()
    ids = torch.tensor([pipe.tokenizer.encode("the fox", special=True)])
    written = theirs.generate(ids, num_beams=1, max_new_tokens=12)[0].tolist()
    assert written[:2] == [2, japanese]
