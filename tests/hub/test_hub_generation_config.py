"""What a directory says of tokens and targets: read from either file, kept by a loaded model, written again."""

import json
import warnings

import pytest
from hub_kit import edit, read_json

from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.hub.generation_config import TargetRules, target_rules, warn_of_settings
from headway.models.config import Positions, TransformerConfig
from headway.models.transformer import EncoderDecoder

V = 31


def write(directory, name, **entries):
    (directory / name).write_text(json.dumps(entries))


def bart_like(**changes):
    config = TransformerConfig(
        V, d_model=14, n_heads=2, n_layers=2, d_ff=11, max_length=17, positions=Positions("learned", start=2),
        norm="layernorm", norm_parameters="both", norm_order="post", activation="gelu", gated=False,
        bias=("qkv", "out", "ff", "head"), embedding_norm=True, **changes,
    )  # fmt: skip
    return EncoderDecoder(config)


@pytest.mark.parametrize(
    ("config", "generation", "rules"),
    [
        ({"model_type": "bart"}, None, TargetRules((2,), (2,))),
        ({"model_type": "bart", "forced_bos_token_id": 5}, None, TargetRules((2, 5), (2,))),
        ({"model_type": "bart", "forced_bos_token_id": 5}, {"eos_token_id": [3, 7]}, TargetRules((2,), (3, 7))),
        ({"model_type": "t5", "pad_token_id": 3}, {"max_length": 20}, TargetRules((3,), (1,), max_length=20)),
        ({"model_type": "marian"}, {"bad_words_ids": [[58100], [1, 2]]}, TargetRules((58100,), (0,), (58100,))),
        ({"model_type": "m2m_100"}, {"forced_bos_token_id": 9, "eos_token_id": 4}, TargetRules((2, 9), (4,))),
        ({"model_type": "t5"}, {"decoder_start_token_id": 8, "eos_token_id": None}, TargetRules((8,), ())),
    ],
)
def test_rules(config, generation, rules, tmp_path):
    write(tmp_path, "config.json", **config)
    if generation is not None:
        write(tmp_path, "generation_config.json", **generation)
    assert target_rules(tmp_path, 58_101) == rules


def test_settings_that_are_not_followed_are_named(tmp_path):
    quiet = {"num_beams": 4, "max_length": 56, "no_repeat_ngram_size": 0, "typical_p": 1.0, "suppress_tokens": []}
    quiet |= {"min_length": None, "bad_words_ids": [[3]], "forced_eos_token_id": 2, "temperature": 0.6}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_settings(tmp_path)  # without the file
        write(tmp_path, "generation_config.json", **quiet)
        warn_of_settings(tmp_path)
    write(tmp_path, "generation_config.json", **quiet | {"no_repeat_ngram_size": 3, "bad_words_ids": [[1, 2]]})
    with pytest.warns(UserWarning, match=r"no_repeat_ngram_size, bad_words_ids of several tokens are not supported"):
        warn_of_settings(tmp_path)


@pytest.mark.parametrize(
    ("config", "generation", "said"),
    [
        ({"model_type": "bart", "eos_token_id": "</s>"}, {}, "'</s>' is not the id of a token"),
        ({"model_type": "none"}, {}, "no decoder_start_token_id"),
        ({"model_type": "bart"}, {"bad_words_ids": [[999_999]]}, r"names the token 999,999, but the model has 31"),
        ({"model_type": "bart"}, {"decoder_start_token_id": V}, "names the token 31, but the model has 31, from 0 on"),
        ({"model_type": "bart"}, {"forced_bos_token_id": 40}, "names the token 40, but the model has 31"),
    ],
)
def test_what_is_no_id_or_one_that_the_model_does_not_have_is_refused(config, generation, said, tmp_path):
    write(tmp_path, "config.json", **config)
    if generation:
        write(tmp_path, "generation_config.json", eos_token_id=2, **generation)
    with pytest.raises(InputError, match=said):
        target_rules(tmp_path, V)


def test_a_loaded_model_keeps_what_its_files_say(tmp_path):
    ids = {"pad_token_id": 6, "eos_token_id": 7, "decoder_start_token_id": 8, "forced_eos_token_id": None}
    save_model(bart_like(), tmp_path / "one", **ids)
    old = {"task_specific_params": {"summarization": {"num_beams": 4}}, "transformers_version": "4.1", "num_beams": 4}
    edit(tmp_path / "one" / "config.json", **old)
    write(tmp_path / "one", "generation_config.json", decoder_start_token_id=8, num_beams=5)
    model = load_model(tmp_path / "one")
    save_model(model, tmp_path / "two")
    written = read_json(tmp_path / "two" / "config.json")
    assert {**written, **ids, **old, "transformers_version": None} == {**written, "transformers_version": None}
    assert "transformers_version" not in written
    said = {"decoder_start_token_id": 8, "num_beams": 5}  # other programs look for the ids of config.json there alone
    assert read_json(tmp_path / "two" / "generation_config.json") == {**said, "pad_token_id": 6, "eos_token_id": 7}
    save_model(model, tmp_path / "three", decoder_start_token_id=9)
    assert read_json(tmp_path / "three" / "config.json")["decoder_start_token_id"] == 9
    assert target_rules(tmp_path / "three", V).start == (9,)


def test_ids_that_were_assumed_are_written_out(tmp_path):
    """A new model has none; one from a directory that leaves them out has those of its family."""
    save_model(bart_like(), tmp_path)
    path = tmp_path / "config.json"
    assert read_json(path)["eos_token_id"] is None
    edit(path, **{key: ... for key in read_json(path) if key.endswith("_token_id")})
    save_model(load_model(tmp_path), tmp_path)
    written = read_json(path)
    assert (written["pad_token_id"], written["eos_token_id"], written["decoder_start_token_id"]) == (1, 2, 2)


def test_what_no_family_expresses_is_refused(tmp_path):
    model = bart_like()
    apart = EncoderDecoder(model.config, shared=False)
    with pytest.raises(ValueError, match="bart: its encoder and decoder share one table"):
        save_model(apart, tmp_path)
    with pytest.raises(ValueError, match="marian would change"):
        save_model(EncoderDecoder(model.config.but(positions="alibi")), tmp_path)
    save_model(model, tmp_path)
    edit(tmp_path / "config.json", tie_word_embeddings=False)
    with pytest.raises(InputError, match="tie_word_embeddings False is not supported"):
        load_model(tmp_path)
