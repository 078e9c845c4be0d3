"""Every field that ``transformers`` writes into ``config.json``: read, without effect, or refused by name.

A field is set to other values that are sensible for its type.  Where ``transformers`` builds that model, ours gives its
answers or says InputError; never others.
"""

import copy
import json
import math
import time

import pytest
import torch
import transformers
from kit import BOUND, redraw

from headway.errors import InputError
from headway.hub.build_model import own_weights
from headway.hub.directory import load_model
from headway.hub.families import FAMILIES

V, T = 31, 17
ENCODER = {
    **{"vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "num_labels": 5},
    **{"intermediate_size": 7, "max_position_embeddings": 23, "pad_token_id": 0},
}
DECODER = {**ENCODER, "num_key_value_heads": 3, "head_dim": 4}
BOTH = {
    **{"vocab_size": V, "d_model": 12, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 3},
    **{"decoder_attention_heads": 2, "encoder_ffn_dim": 7, "decoder_ffn_dim": 5, "max_position_embeddings": 23},
    **{"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2},
}
SETTINGS = {
    "nanochat": {**DECODER, "eos_token_id": 2, "bos_token_id": 2},
    "modernbert": {**ENCODER, "num_hidden_layers": 4, "local_attention": 6, "cls_token_id": 1, "sep_token_id": 2},
    **dict.fromkeys(("bert", "roberta", "xlm-roberta"), ENCODER),
    "distilbert": {
        **{"vocab_size": V, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 7, "max_position_embeddings": 23},
        **{"num_labels": 5},
    },
    "vit": {**ENCODER, "image_size": 14, "patch_size": 7, "pooler_output_size": 12},
    "gpt2": {"vocab_size": V, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 23, "pad_token_id": 0},
    **dict.fromkeys(("llama", "qwen2", "qwen3"), DECODER),
    "mistral": {**DECODER, "sliding_window": 4},
    "t5": {
        **{"vocab_size": V, "d_model": 12, "d_kv": 4, "d_ff": 7, "num_layers": 1, "num_decoder_layers": 2},
        **{"num_heads": 3, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9},
    },
    **dict.fromkeys(("bart", "m2m_100"), BOTH),
    "marian": {**BOTH, "decoder_vocab_size": V},
}
CLASSES = {
    **{"modernbert": "ModernBertForSequenceClassification", "bert": "BertForSequenceClassification"},
    **{"distilbert": "DistilBertForSequenceClassification", "vit": "ViTForImageClassification"},
    **{"gpt2": "GPT2ForSequenceClassification", "roberta": "RobertaForMaskedLM"},
}
"""The class that reads most of a family's fields, where it is not the first."""
ROPE = [
    {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    {"rope_type": "yarn", "rope_theta": 500.0, "factor": 3.0, "original_max_position_embeddings": 7},
    {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0},
    {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 3.0},
    {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    {"sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}},
    {
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        "full_attention": {"rope_type": "default", "rope_theta": 999.0},
    },
]
WORDS = {
    "classifier_pooling": ["mean", "max", "last"],
    "feed_forward_proj": ["gated-gelu", "gated-silu", "gelu"],
    "dense_act_fn": ["silu", "gelu"],
    "rope_parameters": ROPE,
    "layer_types": [["sliding_attention"] * 2, ["sliding_attention", "full_attention"] * 2, []],
    "problem_type": ["multi_label_classification", "regression"],
    "local_attention": [1, 2, 5],
}
MORE = {
    **{"is_causal": [True, False], "head_dim": [6], "rope_theta": [500.0], "partial_rotary_factor": [0.5]},
    **{"rope_scaling": [{"rope_type": "linear", "factor": 3.0}], "position_embedding_type": ["relative_key"]},
    **{"pruned_heads": [{"0": [1]}], "use_bidirectional_attention": [True], "tie_encoder_decoder": [True]},
    **{"normalize_before": [True], "global_attn_every_n_layers": [2], "sliding_window": [3]},
    **{"use_sliding_window": [True], "is_decoder": [True]},
}
"""Fields that are in no configuration's list and that code of ``transformers`` asks for, today or in older versions."""
FORM = {"return_dict", "output_attentions", "output_hidden_states", "is_encoder_decoder", "chunk_size_feed_forward"}
"""Fields that change the form of what ``transformers`` returns, or split its work; ours has none of that."""
SIZES_OF_INPUTS = {"vocab_size", "decoder_vocab_size"}


def others(name, value):
    """Other values that are sensible for a field, by the type of the one it has."""
    if name in WORDS:
        return WORDS[name]
    if name in ("max_position_embeddings", "n_positions"):
        return [value + 1, 2 * value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value, 3]
    if isinstance(value, float):
        return [value / 2 + 0.25, None]
    if isinstance(value, str):
        return ["relu", "gelu_pytorch_tanh", "quick_gelu"] if "act" in name else ["other"]
    if value is None:
        return [True, 3, 0.5]
    return [value[::-1]] if isinstance(value, list) else []


def written(family):
    """The class of a family's model, and all that its configuration writes."""
    name = CLASSES.get(family.model_type, next(iter(family.classes.values())))
    cls = getattr(transformers, name)
    settings = {"architectures": [name], **SETTINGS[family.model_type]}
    return cls, json.loads(cls.config_class(**settings).to_json_string(use_diff=False))


def saved(model, config, directory):
    """As ``save_pretrained``, with that configuration to the letter."""
    model.save_pretrained(directory)
    (directory / "config.json").write_text(json.dumps(config))


def build(cls, config):
    """Their model of a configuration, redrawn; None where they refuse it."""
    try:
        model = cls(cls.config_class.from_dict(copy.deepcopy(config))).float().eval()
    except Exception:
        return None
    tables = {name: tensor.clone() for name, tensor in model.state_dict().items() if "embed_positions" in name}
    redraw(model)
    if cls.config_class.model_type == "marian":  # sinusoids, which are computed
        with torch.no_grad():
            for name, tensor in tables.items():
                model.state_dict()[name].copy_(tensor)
    return model


def batch(ours, theirs):
    """What ours is given, what theirs is given, and where the answers have tokens."""
    draw = torch.Generator().manual_seed(1)
    if getattr(ours, "patches", None) is not None:
        images = torch.randn(2, ours.patches.channels, *ours.patches.image_size, generator=draw)
        return [images], {"pixel_values": images}, None
    rows = min(ours.config.vocab_size, getattr(ours, "encoder_config", ours.config).vocab_size)
    pad = theirs.config.pad_token_id
    ids, mask = torch.randint(0, rows, (2, T), generator=draw), torch.ones(2, T, dtype=torch.bool)
    if pad is not None:
        ids, mask[1, T - 5 :] = ids.masked_fill(ids == pad, (pad + 1) % rows), False
        ids = ids.masked_fill(~mask, pad)
    elif hasattr(theirs, "score"):
        ids, mask = ids[:1], mask[:1]
    given = {"input_ids": ids, "attention_mask": mask.long()}
    if hasattr(ours, "encoder_config"):
        target = ids[:1, :11].expand(len(ids), -1)
        return [ids, target, mask], {**given, "decoder_input_ids": target}, torch.ones_like(target, dtype=torch.bool)
    return [ids, mask], given, mask


@torch.no_grad()
def difference(ours, theirs):
    """The largest difference between the answers to a padded batch; None where theirs answers nothing."""
    ours_given, given, mask = batch(ours, theirs)
    try:
        answer = theirs(**given)
    except Exception:
        return None
    expected = answer.logits if "logits" in answer else answer.last_hidden_state
    found = ours(*ours_given)
    return _apart(found[mask], expected[mask]) if found.dim() == 3 and mask is not None else _apart(found, expected)


def _apart(found, expected):
    return float((found - expected).abs().max()) if found.shape == expected.shape else math.inf


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)
def test_every_field_is_read_or_without_effect_or_refused(family, tmp_path):
    cls, config = written(family)
    fields = {name: others(name, value) for name, value in config.items() if name not in ("model_type", *FORM)}
    fields = {name: values for name, values in fields.items() if name not in ("architectures", *SIZES_OF_INPUTS)}
    fields |= {name: values + fields.get(name, []) for name, values in MORE.items()}
    wrong, equal = [], 0
    for name, values in {"model_type": [family.model_type], **fields}.items():
        for value in values:
            changed = {**config, name: value}
            if name in ("rope_theta", "rope_scaling", "partial_rotary_factor"):
                changed.pop("rope_parameters", None)
            if name == "global_attn_every_n_layers":
                changed.pop("layer_types", None)
            theirs = build(cls, changed)
            if theirs is None:
                continue
            saved(theirs, changed, tmp_path)
            try:
                found = difference(load_model(tmp_path), theirs)
            except InputError as error:
                assert str(tmp_path) in str(error) and "\n" not in str(error), error
                continue
            equal += found is not None
            if found is not None and not found <= BOUND:
                wrong.append(f"{name} = {value!r}: {found:.3g}")
    assert not wrong, wrong
    assert equal > 20


SENSELESS = [-1, 0, 1.5, True, "seven", [], [3], {}, {"a": 1}, 10**9, 1e300, float("nan"), float("-inf"), 2**70]


class Recorded(dict):
    """A configuration that knows which of its fields were asked for."""

    asked: set[str]

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)
def test_a_senseless_value_of_a_field_that_is_read_is_one_message_soon(family, tmp_path):
    """What is accepted all the same must not change an answer: a NaN or a text is never taken for a number."""
    cls, config = written(family)
    theirs = build(cls, config)
    saved(theirs, config, tmp_path)
    recorded = Recorded(config)
    recorded.asked = set()
    model = family.build(recorded, set(own_weights(load_model(tmp_path))))
    assert model is not None
    family.encoder_config(recorded), family.rows(recorded), family.special(recorded)
    read = sorted(recorded.asked & set(config) - {"model_type"})
    assert len(read) > 10
    taken, slow = [], []
    for name in read:
        for value in SENSELESS:
            (tmp_path / "config.json").write_text(json.dumps({**config, name: value}))
            began = time.monotonic()
            try:
                load_model(tmp_path)
                if not _of_its_kind(value, config[name]):
                    taken.append(f"{name} = {value!r}, where {config[name]!r} was")
            except InputError as error:
                assert "\n" not in str(error) and len(str(error)) < 1000, (name, value)
            slow += [f"{name} = {value!r}"] if time.monotonic() - began > 2 else []
    assert not taken and not slow


def _of_its_kind(value, known):
    """Whether a value may stand where another was: a finite number for a number, and so on."""
    if isinstance(known, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return known is None or type(value) is type(known)


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        ("modernbert", {"classifier_pooling": "max"}, "classifier_pooling is 'max'"),
        ("modernbert", {"classifier_pooling": 1}, "classifier_pooling is 1"),
        ("modernbert", {"local_attention": 0}, "local_attention is 0"),
        ("modernbert", {"local_attention": -6}, "local_attention is -6"),
        ("modernbert", {"norm_bias": "no"}, "norm_bias is 'no'"),
        ("modernbert", {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "rope_parameters has factor"),
        ("llama", {"is_causal": False}, "is_causal False is not supported"),
        ("t5", {"dense_act_fn": "silu"}, "dense_act_fn is 'silu'"),
        ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ("nanochat", {"final_logit_softcapping": "15"}, "final_logit_softcapping is '15'"),
    ],
)
def test_the_message_names_file_and_field(kind, wrong, said, tmp_path):
    family = next(family for family in FAMILIES if family.model_type == kind)
    cls, config = written(family)
    saved(build(cls, config), {**config, **wrong}, tmp_path)
    with pytest.raises(InputError) as raised:
        load_model(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'config.json'}: {said}")
