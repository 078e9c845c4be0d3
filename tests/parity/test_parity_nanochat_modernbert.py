"""Our logits are transformers' logits, on weights redrawn at random, in both directions."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import ClassificationHead, MaskedTokenHead
from headway.models.transformer import Decoder, Encoder

B, T, V, C = 3, 13, 31, 5
BOUND = 1e-4
NEAR_ROPE = {"rope_type": "default", "rope_theta": 101.0}
EVERY_BIAS = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True}
CLASSIFIER = "ModernBertForSequenceClassification"
NO_IDS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
NANOCHAT = {
    "vocab_size": V, "hidden_size": 84, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 6,
    "max_position_embeddings": 29, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
MODERNBERT = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 5, "num_attention_heads": 3,
    "max_position_embeddings": 29, "local_attention": 6, "num_labels": C, **NO_IDS,
}  # fmt: skip
CASES = {
    "nanochat": ("NanoChatForCausalLM", {}),
    "nanochat, grouped": ("NanoChatForCausalLM", {"num_key_value_heads": 2, "final_logit_softcapping": 7.0}),
    "nanochat, multi-query": ("NanoChatForCausalLM", {"num_key_value_heads": 1, "rms_norm_eps": 1e-2}),
    "nanochat, tied": ("NanoChatForCausalLM", {"tie_word_embeddings": True, "final_logit_softcapping": None}),
    "nanochat, linear": (
        "NanoChatForCausalLM",
        {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 101.0}},
    ),
    "nanochat, silu": ("NanoChatForCausalLM", {"hidden_act": "silu", "rope_parameters": NEAR_ROPE}),
    "modernbert": ("ModernBertModel", {}),
    "modernbert, all near": ("ModernBertModel", {"layer_types": ["sliding_attention"] * 5, "local_attention": 2}),
    "modernbert, odd window": ("ModernBertModel", {"local_attention": 7}),
    "modernbert, itself alone": ("ModernBertModel", {"local_attention": 1}),
    "modernbert, one base given": ("ModernBertModel", {"rope_parameters": {"sliding_attention": NEAR_ROPE}}),
    "modernbert, all far": ("ModernBertModel", {"layer_types": ["full_attention"] * 5}),
    "modernbert, every bias": ("ModernBertModel", EVERY_BIAS),
    "masked": ("ModernBertForMaskedLM", {}),
    "masked, untied": ("ModernBertForMaskedLM", {"tie_word_embeddings": False, "decoder_bias": False}),
    "masked, every bias": ("ModernBertForMaskedLM", EVERY_BIAS),
    "masked, silu": ("ModernBertForMaskedLM", {"hidden_activation": "silu", "norm_eps": 1e-2}),
    "classes, first": (CLASSIFIER, {}),
    "classes, mean": (CLASSIFIER, {"classifier_pooling": "mean", "classifier_activation": "relu"}),
    "classes, every bias": (CLASSIFIER, EVERY_BIAS),
    "tokens": ("ModernBertForTokenClassification", {"classifier_activation": "relu"}),
    "tokens, every bias": ("ModernBertForTokenClassification", EVERY_BIAS),
}


def redraw(model, std=0.3):
    """Every parameter and every stored buffer from a normal, norms around one so that signals keep their size."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.normal_(float("norm" in name and name.endswith("weight")), std, generator=generator)
    return model.eval()


def theirs(name, **changes):
    """A redrawn model of transformers."""
    kind, case = CASES[name]
    config_class = getattr(transformers, kind).config_class
    sizes = NANOCHAT if config_class is transformers.NanoChatConfig else MODERNBERT
    return redraw(getattr(transformers, kind)(config_class(**{**sizes, **case, **changes})))


def inputs(side):
    """Ids, and the mask of a batch of mixed lengths; "none" is a batch without padding."""
    ids = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(B, T, dtype=torch.bool)
    for row, padding in ((1, 4), (2, 7)) if side != "none" else ():
        mask[row, slice(T - padding, None) if side == "right" else slice(padding)] = False
    return ids, mask


@torch.no_grad()
def difference(ours, other, side="none"):
    """The largest difference between the answers for real tokens; theirs must spread enough to show one."""
    ids, mask = inputs(side)
    found = ours(ids, None if side == "none" else mask)
    answer = other(input_ids=ids, attention_mask=mask.long())
    expected = answer.logits if "logits" in answer else answer.last_hidden_state
    if found.dim() == 3:
        found, expected = found[mask], expected[mask]
    assert found.shape == expected.shape
    assert expected.std() >= 1
    return float((found - expected).abs().max())


def sides(name):
    """Transformers' [CLS] pooling takes the first place, padding or not: only there is left padding not comparable."""
    return ["none", "right"] if name.startswith("classes") and "mean" not in name else ["none", "right", "left"]


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    model = theirs(name)
    model.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    assert not ours.training
    for side in sides(name):
        assert difference(ours, model, side) <= BOUND


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    """Loaded, redrawn and saved here; every weight is known there and none is missing."""
    theirs(name).save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    save_model(ours, tmp_path / "ours")
    kind = getattr(transformers, CASES[name][0])
    model, report = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for side in sides(name):
        assert difference(ours, model.eval(), side) <= BOUND
    again = load_model(tmp_path / "ours")
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), again.parameters(), strict=True))


SIZES = {"d_model": 42, "n_heads": 3, "n_layers": 3, "d_ff": 17, "max_length": 29}


def configured(kind):
    """Models as a user would configure them, that a family expresses."""
    if kind == "decoder":
        config = TransformerConfig(
            V, **SIZES, norm_parameters="none", activation="relu2", gated=False, embedding_norm=True, qk_norm=True,
            n_kv_heads=1, tied=False,
        )  # fmt: skip
        return Decoder(config)
    config = TransformerConfig(
        V, **SIZES, norm="layernorm", activation="gelu", embedding_norm=True, first_norm=False, window=(None, 3, 3),
        bias=("head", "ff"), positions=Positions("rotary", base=1009.0, window_base=101.0),
    )  # fmt: skip
    model = Encoder(config)
    if kind == "masked":
        model.head = MaskedTokenHead(config, model.stack.embedding.tokens)
    elif kind == "classes":
        model.head = ClassificationHead(config, C, pooling="mean", activation="silu", norm=True)
    return model


@pytest.mark.parametrize("kind", ["decoder", "encoder", "masked", "classes"])
def test_a_model_configured_here_is_read_there(kind, tmp_path):
    ours = redraw(configured(kind))
    save_model(ours, tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    model = getattr(transformers, written["architectures"][0]).from_pretrained(tmp_path).eval()
    assert difference(ours, model, "right") <= BOUND


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("nanochat")])
@torch.no_grad()
def test_cached_greedy_ids_equal_generate(name, tmp_path):
    model = theirs(name)
    model.save_pretrained(tmp_path)
    ours, (ids, _) = load_model(tmp_path), inputs("none")
    words = {"max_new_tokens": 11, "do_sample": False, "use_cache": True, "eos_token_id": None}
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), **words)
    state = ours.new_state()
    text = ids
    for _ in range(11):
        new = ids if text is ids else text[:, -1:]
        text = torch.cat([text, ours.next_logits(new, state=state).argmax(dim=-1, keepdim=True)], dim=1)
    assert text.tolist() == expected.tolist()


@torch.no_grad()
def test_nanochat_without_a_head(tmp_path):
    """Its vectors leave a norm without weights, so that they spread by 1 and no more."""
    model = redraw(transformers.NanoChatModel(transformers.NanoChatConfig(**NANOCHAT)))
    model.save_pretrained(tmp_path / "theirs")
    ours, (ids, mask) = load_model(tmp_path / "theirs"), inputs("right")
    save_model(ours, tmp_path / "ours")
    back, report = transformers.NanoChatModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for other in (model, back.eval()):
        answer = other(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        assert (ours(ids, mask) - answer)[mask].abs().max() <= BOUND


MUTATIONS = {
    "ε × 100": ("nanochat", {"rms_norm_eps": 1e-4}),
    "activation": ("nanochat", {"hidden_act": "relu"}),
    "GELU by tanh": ("modernbert", {"hidden_activation": "gelu_pytorch_tanh"}),
    "rotary base": ("nanochat", {"rope_parameters": {"rope_type": "default", "rope_theta": 9000.0}}),
    "near and far base swapped": (
        "modernbert",
        {"rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 160000.0},
        }},
    ),
    "window": ("modernbert", {"local_attention": 8}),
    "softcap": ("nanochat", {"final_logit_softcapping": None}),
    "pooling": ("classes, first", {"classifier_pooling": "mean"}),
}  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    """The bound is worth something: each of these, wrong by itself, exceeds it."""
    name, wrong = MUTATIONS[mutation]
    model = theirs(name)
    if mutation == "ε × 100":  # ε counts where activations are small
        with torch.no_grad():
            model.model.embed_tokens.weight.mul_(0.05)
    model.save_pretrained(tmp_path)
    assert difference(load_model(tmp_path), model) <= BOUND
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    assert difference(load_model(tmp_path), model) > BOUND


def swap_halves(ours):
    """Undo the swap by which nanochat's rotation becomes ours."""
    for block in ours.stack.blocks:
        weight = block.attention.layer.qkv.weight  # (3 H K, D), heads of K = 14
        weight.data[:168] = weight.data[:168].unflatten(0, (12, 2, 7)).flip(1).flatten(0, 2)


def post_norm(ours):
    for block in ours.stack.blocks:
        block.attention.pre = block.feedforward.pre = False


def no_head_norm(ours):
    for block in ours.stack.blocks:
        block.attention.layer.q_norm = block.attention.layer.k_norm = None


def no_embedding_norm(ours):
    ours.stack.embedding.norm = torch.nn.Identity()


@pytest.mark.parametrize("mutate", [swap_halves, post_norm, no_head_norm, no_embedding_norm])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    model = theirs("nanochat")
    model.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    mutate(ours)
    assert difference(ours, model) > BOUND


def test_a_tied_matrix_is_stored_once(tmp_path):
    ours = redraw(configured("masked"))
    save_model(ours, tmp_path)
    assert "decoder.weight" not in load_file(tmp_path / "model.safetensors")


def test_the_older_form_of_a_configuration_reads_the_same(tmp_path):
    """ModernBERT was published with two rotary bases and a rhythm of layers where lists are written today."""
    model = theirs("modernbert")
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    written = json.loads(path.read_text())
    for name in ("rope_parameters", "layer_types"):
        del written[name]
    older = {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "global_attn_every_n_layers": 3}
    path.write_text(json.dumps({**written, **older}))
    ours = load_model(tmp_path)
    assert ours.config.position == Positions("rotary", base=160000.0, window_base=10000.0)
    assert [ours.config.layer_window(layer) for layer in range(5)] == [None, 4, 4, None, 4]
    assert difference(ours, model) <= BOUND


@pytest.mark.parametrize(
    ("kinds", "every"),
    [("fsffs", None), ("fssfs", 3), ("fffff", 1), ("fssss", 5), ("sssss", None)],
)
def test_the_older_form_is_written_too(kinds: str, every: int | None, tmp_path):
    """transformers 4 reads no other one: without it, its defaults would make another model."""
    far, near = "f" in kinds, "s" in kinds
    windows = tuple({"f": None, "s": 4}[kind] for kind in kinds)
    config = TransformerConfig(
        61, d_model=24, n_layers=5, n_heads=3, d_ff=29, max_length=31, norm="layernorm", activation="gelu",
        embedding_norm=True, first_norm=False, window=windows if near else None,
        positions=Positions("rotary", base=101.0 if far else 11.0, window_base=11.0 if far and near else None),
    )  # fmt: skip
    save_model(Encoder(config), tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written.get("global_attn_every_n_layers") == every
    assert written["global_rope_theta"] == (101.0 if far else 11.0)
    assert written["local_rope_theta"] == (11.0 if near else 101.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"layer_types": ["chunked_attention"] * 5}, "layer_types has chunked_attention"),
        ({"layer_types": ["full_attention"] * 4}, "layer_types has 4"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling .* is not supported"),
        ({"classifier_activation": "mish"}, "classifier_activation is 'mish'"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(wrong, said, tmp_path):
    theirs("classes, first").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    with pytest.raises(InputError, match=said):
        load_model(tmp_path)
