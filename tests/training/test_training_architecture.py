"""``--config-overrides``: Transformers of other parts, trained, saved in their family's format or our own, used."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import facts_of

import headway
from headway.errors import InputError
from headway.hub.directory import has_family, load_model, save_any, save_model
from headway.hub.own_format import load_own, save_own
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.models.wirings import build_model
from headway.science.comparison import HEADS, PARTS
from headway.training.options import TrainOptions
from headway.training.sizing.architecture import FIELDS, architecture, built, read_overrides
from headway.training.sizing.presets import decoder_plan
from headway.workflows.export import export

OPTIONS: dict[str, Any] = {"d_model": 32, "steps": 8, "batch_tokens": 256, "evaluations": 1, "threads": 1}
ODD = TransformerConfig(vocab_size=31, d_model=24, n_layers=3, n_heads=2, positions="alibi", gated=False, d_ff=40)


@pytest.mark.parametrize("changes", [value for part in PARTS.values() for value in part.values()])
def test_every_part_is_trained_saved_and_read_again(changes: str, corpus: Path, tmp_path: Path):
    found = headway.train(
        corpus, out=tmp_path / "run", config_overrides=changes, length=16, layers=2, quiet=True, **OPTIONS
    )
    pipe = headway.load(tmp_path / "run")
    config = pipe.model.config
    for name, value in read_overrides(changes).items():
        assert (config.position.kind if name == "positions" else getattr(config, name)) == value
    assert headway.train(corpus, out=tmp_path / "run", **found_options(changes))["val_loss"] == found["val_loss"]
    kind = json.loads((tmp_path / "run" / "config.json").read_text())["model_type"]
    said = [one["value"] for one in facts_of(tmp_path / "run")["decisions"]]
    assert (kind == "headway-transformer") == ("headway-transformer" in said) == (not has_family(pipe.model))
    assert changes in said
    text = pipe("the", max_tokens=5, temperature=0.0)
    assert text == "".join(pipe.stream("the", max_tokens=5, temperature=0.0))


def found_options(changes: str) -> dict[str, Any]:
    return {**OPTIONS, "config_overrides": changes, "length": 16, "layers": 2, "quiet": True}


def test_classifiers_and_translators_have_other_parts_too(rows: Path, tmp_path: Path):
    options = {**OPTIONS, "quiet": True, "config_overrides": "positions=learned,norm_order=post,gated=false"}
    headway.train(rows, out=tmp_path / "rows", **options)
    classifier = headway.load(tmp_path / "rows")
    assert classifier.model.config.norm_order == "post" and classifier.model.config.first_norm
    assert set(classifier("a word")["scores"]) == {"pos", "neg"}
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("en\tde\n" + "\n".join(f"word {i}\tWORD {i}" for i in range(60)))
    more = {"task": "translation", "tokenizer": "char", "config_overrides": "positions=relative,gated=true"}
    headway.train(pairs, out=tmp_path / "pairs", **{**options, **more})
    translator = headway.load(tmp_path / "pairs")
    assert translator.model.config.gated and isinstance(translator("word 3"), str)
    headway.train(pairs, out=tmp_path / "alone", **{**options, **more, "model": "decoder"})
    assert headway.load(tmp_path / "alone").model.config.position.kind == "relative"


def test_a_gate_does_not_change_the_number_of_parameters(corpus: Path, tmp_path: Path):
    counts = [
        headway.train(corpus, out=tmp_path / gated, config_overrides=f"gated={gated}", quiet=True, **OPTIONS)
        for gated in ("true", "false")
    ]
    assert counts[0]["parameters"] == pytest.approx(counts[1]["parameters"], rel=0.02)


def made(model: Any) -> Any:
    return initialise(model, 3, embedding_std=1.0, zero_out=False).eval()


@pytest.mark.parametrize("wiring", ["decoder", "encoder", "encoder-decoder"])
def test_our_own_format_gives_the_model_back(wiring: str, tmp_path: Path):
    model = made(build_model(ODD, wiring, 5 if wiring == "encoder" else None))
    save_own(model, tmp_path, {"eos_token_id": 3})
    again = load_model(tmp_path)
    assert type(again) is type(model) and again.config == model.config and not again.training
    ids = torch.arange(14).reshape(2, 7)
    given = (ids, ids) if wiring == "encoder-decoder" else (ids,)
    assert torch.equal(again(*given), model(*given))
    assert json.loads((tmp_path / "config.json").read_text())["eos_token_id"] == 3


def test_what_a_family_has_is_saved_as_the_family_has_it(tmp_path: Path):
    known = made(Decoder(TransformerConfig(vocab_size=31, d_model=24, n_layers=2, n_heads=2)))
    save_any(known, tmp_path / "known")
    assert json.loads((tmp_path / "known" / "config.json").read_text())["model_type"] == "llama"
    with pytest.raises(ValueError, match="no Hugging Face family"):
        save_model(made(Decoder(ODD)), tmp_path / "odd")
    with pytest.raises(ValueError, match="configuration of its own"):
        save_own(made(EncoderDecoder(ODD, ODD.but(n_layers=2))), tmp_path / "two", {})
    with pytest.raises(ValueError, match="not a model of Headway"):
        save_own(torch.nn.Linear(2, 2), tmp_path / "other", {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_layers": 10**8}, "n_layers is 100000000, but there are"),
        ({"vocab_size": 1 << 40}, "does not fit config.json"),
        ({"d_model": 26}, "does not fit config.json|must be"),
        ({"d_ff": 1 << 50}, "does not fit config.json|Storage size|overflow|invalid"),
        ({"wiring": "both"}, "wiring is 'both'"),
        ({"num_labels": True}, "num_labels is True"),
        ({"num_labels": 3}, "are for an encoder"),
        ({"positions": {"kind": "morse"}}, "morse"),
        ({"norm": None}, "norm is None"),
        ({"gated": "REMOVED"}, "'gated' is missing"),
    ],
)
def test_a_file_that_cannot_be_is_refused(change: dict[str, Any], said: str, tmp_path: Path):
    save_own(made(Decoder(ODD)), tmp_path, {})
    written = json.loads((tmp_path / "config.json").read_text())
    values = {**written, **change}
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v != "REMOVED"}))
    with pytest.raises(InputError, match=said):
        load_own(tmp_path, json.loads((tmp_path / "config.json").read_text()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=red", "expected NAME=VALUE"),
        ("norm", "norm cannot be ''|norm is ''"),
        ("gated=maybe", "gated cannot be 'maybe'"),
        ("norm_eps=inf", "norm_eps cannot be 'inf'"),
        ("logit_softcap=1e400", "logit_softcap cannot be '1e400'"),
        ("norm=rmsnorm,norm=layernorm", "each name once"),
        ("positions=morse", "must be one of"),
        ("n_kv_heads=7", "a divisor of n_heads"),
        ("d_model=7", "expected NAME=VALUE"),
        ("", "expected NAME=VALUE"),
    ],
)
def test_overrides_that_cannot_be(text: str, said: str, corpus: Path, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        headway.train(corpus, out=tmp_path / "run", config_overrides=text, quiet=True, **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_overrides_are_for_transformers_from_scratch(corpus: Path, lm_run: Path, tmp_path: Path):
    for more, said in (
        ({"model": "lstm"}, "--model lstm has none"),
        ({"from_model": str(lm_run)}, "the model has its own"),
        ({"task": "masked_lm"}, "is for classification and language_modeling and"),
    ):
        with pytest.raises(InputError, match=said):
            headway.train(corpus, out=tmp_path / "run", config_overrides="norm=rmsnorm", **{**OPTIONS, **more})


def test_positions_begin_where_they_favour_nothing_and_weigh_as_tokens_do():
    options = TrainOptions(steps=4, d_model=64, config_overrides="positions=relative")
    for vocab, std in ((90, 1.0), (2000, 0.02)):  # untied and tied
        for kind in ("relative", "learned", "sinusoidal"):
            chosen = options.but(config_overrides=f"positions={kind}")
            plan = architecture(decoder_plan(chosen, vocab, 9000, None, 4), chosen, "decoder")
            stack: Any = built(plan, "decoder").stack
            tables = [p for name, p in stack.named_parameters() if name.endswith("table.weight")]
            scaled = kind == "sinusoidal" and vocab == 2000
            assert plan.config.embedding_scale == scaled
            tokens = stack.embedding.tokens.weight.std().item() * (8.0 if scaled else 1.0)
            assert tokens == pytest.approx(1.0 if scaled else std, rel=0.05)
            if kind == "relative":
                assert len(tables) == 1 and not tables[0].any()
            elif kind == "learned":
                assert tables[0].std().item() == pytest.approx(std, rel=0.05)


def test_all_fields_are_read():
    assert read_overrides("bias=qkv+out, window=none ,logit_softcap=2.5") == {
        "bias": ("qkv", "out"), "window": None, "logit_softcap": 2.5,
    }  # fmt: skip
    assert set(FIELDS) < {field for field in TransformerConfig.__dataclass_fields__}
    assert max(HEADS) == 8 and isinstance(build_model(ODD, "encoder", 3), Encoder)


def test_a_run_of_own_format_is_gone_on_from_and_not_exported(corpus: Path, tmp_path: Path):
    headway.train(corpus, out=tmp_path / "run", config_overrides="positions=none", quiet=True, **OPTIONS)
    after = {"steps": 4, "batch_tokens": 256, "threads": 1, "quiet": True}
    headway.train(corpus, out=tmp_path / "more", from_model=str(tmp_path / "run"), **after)
    assert headway.load(tmp_path / "more").model.config.position.kind == "none"
    with pytest.raises(InputError, match="no Hugging Face family"):
        export(tmp_path / "run", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
