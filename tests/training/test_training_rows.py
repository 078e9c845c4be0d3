"""Classifiers from a pretrained encoder: rates by layer, tables by rows, few rows, frozen vectors, adapting, seeds."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults_harness import facts_of
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression
from torch import nn

import headway
from headway.cli.explain import explain
from headway.data.batches import encoded
from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.hub.fine_tune import for_classification
from headway.models.adapt.freeze import first_blocks, freeze
from headway.models.config import TransformerConfig
from headway.models.heads import Pooler, PoolingHead
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.models.wirings import Ensemble
from headway.tasks import fitting
from headway.tasks.losses import balanced_weights
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.optimizers import RowAdam, optimizers
from headway.training.sizing import presets
from headway.workflows.evaluate import evaluate
from headway.workflows.export import export

QUICK = {"threads": 1, "precision": "float32", "quiet": True}
BERT = {
    "norm": "layernorm", "norm_order": "post", "norm_parameters": "both", "positions": "learned", "gated": False,
    "activation": "gelu", "bias": ("qkv", "out", "ff", "head"), "embedding_norm": True, "segments": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def base(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence encoder in BERT's layout that has seen nothing yet."""
    folder = tmp_path_factory.mktemp("bases") / "sentences"
    words = train_tokenizer(rows.read_text(encoding="utf-8").splitlines(), "word", 60, role="encoder")
    config = TransformerConfig(words.vocab_size, d_model=20, n_heads=2, n_layers=3, d_ff=28, max_length=64, **BERT)
    model = initialise(Encoder(config, PoolingHead("mean")), seed=1, zero_out=False)
    save_model(model, folder)
    words.save(folder, max_length=64)
    return folder


def test_a_table_trained_by_rows_is_adam_on_the_rows_that_are_read():
    ids = torch.tensor([[1, 4, 4], [2, 1, 7]])
    tables = [nn.Embedding(11, 3, sparse=sparse) for sparse in (True, False)]
    start = tables[0].weight.detach().clone()
    tables[1].load_state_dict(tables[0].state_dict())
    chosen = [RowAdam(tables[0].parameters(), lr=0.1, betas=(0.9, 0.99), eps=1e-8)]
    chosen.append(torch.optim.Adam(tables[1].parameters(), lr=0.1, betas=(0.9, 0.99), eps=1e-8))
    for _ in range(4):
        for table, optimizer in zip(tables, chosen, strict=True):
            optimizer.zero_grad()
            (table(ids) ** 3).sum().backward()
            optimizer.step()
    torch.testing.assert_close(tables[0].weight, tables[1].weight, atol=1e-6, rtol=1e-5)
    unread = [row for row in range(11) if row not in (1, 2, 4, 7)]
    assert torch.equal(tables[0].weight[unread], start[unread])


def test_each_block_has_a_part_of_the_rate_of_the_next(base: Path):
    model = load_model(base)
    model.head = nn.Linear(20, 2)
    chosen = optimizers(model, "adamw", 1e-3, 0.1, layer_decay=0.5)
    rate = {id(p): group["peak"] for o in chosen for group in o.param_groups for p in group["params"]}
    named = {name: rate[id(p)] for name, p in model.named_parameters()}
    assert named["head.weight"] == named["stack.blocks.2.attention.layer.qkv.weight"] == 1e-3
    assert named["stack.blocks.1.feedforward.norm.bias"] == 5e-4
    assert named["stack.blocks.0.feedforward.layer.up.weight"] == 2.5e-4
    assert named["stack.embedding.tokens.weight"] == 1.25e-4
    assert len(rate) == len(list(model.parameters()))


def test_frozen_parts_are_given_to_no_optimiser(base: Path):
    model = freeze(load_model(base), 2)
    chosen = optimizers(model, "adamw", 1e-3, 0.1)
    trained = {id(p) for o in chosen for group in o.param_groups for p in group["params"]}
    names = [name for name, p in model.named_parameters() if id(p) in trained]
    assert names and all(name.startswith(("stack.blocks.2.", "pooler")) for name in names)
    with pytest.raises(ValueError, match="7 blocks cannot be frozen"):
        freeze(model, 7)


def test_the_first_blocks_compute_what_they_computed_in_the_whole(base: Path):
    ids = torch.tensor([[5, 6, 7, 8]])
    model, seen = load_model(base), []
    model.head = None
    model.stack.blocks[1].register_forward_hook(lambda module, given, result: seen.append(result))
    model(ids)
    cut = first_blocks(model, 2)
    assert cut.config.n_layers == 2 and torch.equal(cut(ids), seen[0])
    with pytest.raises(ValueError, match="5 blocks cannot be kept"):
        first_blocks(cut, 5)


def test_an_ensemble_answers_with_the_mean_of_probabilities():
    class Fixed(nn.Module):
        config = None

        def __init__(self, *odds: float):
            super().__init__()
            self.logits = torch.tensor(odds).log()

        def forward(self, ids, mask=None):
            return self.logits.expand(len(ids), -1)

    answer = Ensemble([Fixed(0.9, 0.1), Fixed(0.5, 0.5)])(torch.zeros(3, 2, dtype=torch.long))
    torch.testing.assert_close(answer.softmax(-1), torch.tensor([[0.7, 0.3]]).expand(3, 2))


def test_sentences_are_made_of_labels_that_are_words():
    texts, classes = fitting.label_texts(["negative", "Very_Positive"])
    count = len(fitting.TEMPLATES)
    assert len(texts) == 2 * count and classes == [0] * count + [1] * count
    assert "this is negative" in texts and "this is very positive" in texts
    for labels in (["0", "1"], ["LABEL_0", "LABEL_1"], ["a", "b"], ["good", "GOOD!"]):
        assert fitting.label_texts(labels) == ([], [])


def test_pairs_of_one_label_are_drawn_together_and_others_apart():
    x = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0], [0.0, 0.5]])
    near = math.exp(math.sqrt(0.5) / 0.1)  # of 0 and 2, of 1 and 2, of 3 and 2; 1 and 3 are one direction
    far, same = math.exp(0.0), math.exp(1.0 / 0.1)
    first = -math.log(near / (far + near + far))  # row 0 looks for 2
    third = -math.log(near / (near + near + near))  # row 2 looks for 0
    second = -math.log(same / (far + near + same))  # rows 1 and 3 look for each other
    expected = (first + third + 2 * second) / 4
    assert fitting.pair_loss(x, torch.tensor([0, 1, 0, 1])).item() == pytest.approx(expected, rel=1e-5)
    lone = fitting.pair_loss(x, torch.tensor([0, 1, 0, 2])).item()
    assert lone == pytest.approx((first + third) / 2, rel=1e-5), "a row whose label no other has is left out"


def few(rows: Path, path: Path, n: int = 24) -> Path:
    lines = rows.read_text(encoding="utf-8").splitlines()[: n + 1]
    path.write_text("\n".join(line.replace(",neg", ",negative").replace(",pos", ",positive") for line in lines) + "\n")
    return path


@pytest.mark.parametrize("way", [{}, {"frozen": True}])
def test_few_rows_become_a_linear_classifier_by_itself(way: dict, base: Path, rows: Path, tmp_path: Path):
    data, out = few(rows, tmp_path / "few.csv"), tmp_path / "run"
    found = headway.train(data, from_model=str(base), out=out, **way, **QUICK)
    facts = facts_of(out)
    assert facts["plan"]["frozen"] and facts["plan"]["contrastive"] is not bool(way)
    assert found["steps"] == 0 and any("linear classifier" in entry["value"] for entry in facts["decisions"])
    again = headway.load(out)
    assert set(again("a lovely mat")["scores"]) == {"negative", "positive"}
    assert load_model(out).config.n_layers == fitting.kept_blocks(3) + 1 == 3, "the last takes the mean"
    assert evaluate(out)["val_loss"] == pytest.approx(found["val_loss"], abs=1e-6)
    assert json.loads((out / "config.json").read_text())["architectures"] == ["BertForSequenceClassification"]
    assert not (out / "modules.json").exists()
    trained, fitted = facts["trained_parameters"], sum(p.numel() for p in load_model(out).head.out.parameters())
    assert trained == fitted if way else fitted < trained < facts["parameters"]
    if way:  # the blocks that stay are those of the base
        ours, theirs = load_model(out).stack.state_dict(), load_model(base).stack.state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items() if "blocks.2." not in name)


@pytest.mark.parametrize(
    ("needed", "few_rows", "frozen"), [(5.0, 100, False), (60.0, 0, True), (1e4, 0, False), (1e4, 100, True)]
)
def test_many_rows_and_little_time_become_one_too(
    needed: float, few_rows: int, frozen: bool, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where the time is not enough for a pass over them, but for reading them, or for training on a few of them."""
    monkeypatch.setattr(presets, "pass_seconds", lambda *given: needed)
    monkeypatch.setattr(fitting, "FEW_ROWS", few_rows)
    monkeypatch.setattr(fitting, "STEPS", 2)
    data = tmp_path / "many.csv"
    data.write_text("text,label\n" + "".join(f"the {'cat' if i % 2 else 'dog'} {i} ran,{i % 2}\n" for i in range(250)))
    headway.train(data, from_model=str(base), time="30s", out=tmp_path / "run", **QUICK)
    facts = facts_of(tmp_path / "run")
    assert facts["plan"]["frozen"] == frozen == facts["plan"]["contrastive"]
    way = [decision["why"] for decision in facts["decisions"] if decision["what"] == "way"]
    assert bool(way) == frozen and all("s are too short to train on 2" in why for why in way)


@pytest.fixture
def six(base: Path) -> tuple[Any, list[list[int]], list[int]]:
    """A model of three classes, the tokens of six rows, and their classes."""
    texts = ["the cat sat", "old dogs ran", "red doors", "a mat and a cat", "dogs sang", "doors"]
    model = for_classification(load_model(base), 3, mean=True)
    return model, Tokenizer.load(base).encode_batch(texts), [0, 1, 2, 0, 1, 2]


def test_the_fitted_classifier_is_logistic_regression(six: tuple):
    model, ids, targets = six
    assert fitting.fit_frozen(*six, len(ids)) == len(ids)
    x = fitting.vectors(model, ids)
    x = x / np.linalg.norm(x, axis=1).mean()
    expected = LogisticRegression(C=3.0, max_iter=1000).fit(x, targets)
    with torch.no_grad():
        found = torch.cat([model(torch.tensor([row])).softmax(-1) for row in ids])
    np.testing.assert_allclose(found.numpy(), expected.predict_proba(x), atol=1e-5)


def test_a_fit_out_of_time_reads_one_row_of_each_class_at_least(six: tuple, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fitting, "TOGETHER", 1)
    assert [fitting.fit_frozen(*six, 6, seconds=seconds) for seconds in (0.0, 60.0)] == [3, 6]


def test_rows_in_the_cache_are_fitted_as_lists_are(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(encoded, "IN_MEMORY", 0)
    words, labels = Tokenizer.load(base), ["good", "poor"]
    ids = words.encode_batch(["the cat sat", "old dogs ran", "a mat", "dogs sang", "red doors"], special=True)
    stored = encoded.encoded_rows(iter(ids), vocab_size=words.vocab_size, key="k", directory=tmp_path)
    made, classes = fitting.label_texts(labels)
    rows, targets = fitting.with_label_rows(words, labels, stored, np.array([0, 1, 0, 1, 1]))
    listed = [*ids, *words.encode_batch(made, special=True)]
    assert list(rows) == listed and rows[-1] == listed[-1] and rows[3:6] == listed[3:6] and len(rows) == len(listed)
    assert targets.tolist() == [0, 1, 0, 1, 1, *classes]
    found = []
    for part, wanted in ((rows, targets), (listed, targets.tolist())):
        model = for_classification(load_model(base), 2, mean=True)
        assert fitting.fit_frozen(model, part, wanted, len(ids), seed=3) == 5
        fitting.tune_vectors(model, part, wanted, 3, lambda share, loss: None)
        found.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_balanced_classes_count_the_same_in_a_fitted_classifier(base: Path):
    words = Tokenizer.load(base)
    ids = words.encode_batch([*["the cat sat"] * 30, "old dogs ran", "the cat ran"])
    targets = [*[0] * 30, 1, 1]
    rare = []
    for weights in (None, balanced_weights(targets, 2).numpy()[targets]):
        model = for_classification(load_model(base), 2, mean=True)
        fitting.fit_frozen(model, ids, targets, len(ids), weights=weights)
        with torch.no_grad():
            rare.append(model(torch.tensor([ids[-1]])).softmax(-1)[0, 1].item())
    assert rare[1] > rare[0] + 0.1


@pytest.mark.parametrize("option", [{"average": 0.9}, {"optimizer": "muon"}, {"max_grad_norm": 3.0}, {"patience": 2}])
def test_options_of_the_loop_are_refused_with_frozen_and_train_the_whole_model_else(
    option: dict, base: Path, rows: Path, tmp_path: Path
):
    with pytest.raises(InputError, match="for training the whole model"):
        headway.train(rows, from_model=str(base), frozen=True, out=tmp_path / "no", quiet=True, **option)
    headway.train(rows, from_model=str(base), out=tmp_path / "run", time="6s", **QUICK, **option)
    assert not facts_of(tmp_path / "run")["plan"]["frozen"]


def test_a_whole_model_is_tuned_from_a_base_and_saved_as_its_familys_classifier(base: Path, rows: Path, tmp_path: Path):
    found = headway.train(rows, from_model=str(base), steps=12, out=tmp_path, **QUICK)
    plan = facts_of(tmp_path)["plan"]
    assert plan["base"] == str(base) and plan["layer_decay"] == 0.9 and not plan["frozen"]
    ours, theirs = load_model(tmp_path), load_model(base)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertForSequenceClassification"]
    assert plan["model"]["n_layers"] == ours.config.n_layers == theirs.config.n_layers + 1
    moved = [not torch.equal(a, b) for a, b in zip(ours.stack.parameters(), theirs.stack.parameters(), strict=False)]
    assert sum(moved) > len(moved) / 2
    assert evaluate(tmp_path)["val_loss"] == pytest.approx(found["val_loss"], abs=1e-6)


def test_texts_are_learnt_before_their_labels(base: Path, rows: Path, tmp_path: Path):
    headway.train(rows, from_model=str(base), steps=3, adapt=True, out=tmp_path, **QUICK)
    first = facts_of(tmp_path / "adapted")
    assert first["task"] == "masked_lm" and first["finished"]
    assert load_model(tmp_path).config.n_layers == 4, "the head is that of the base, not of what was learnt between"


def test_several_seeds_answer_together(rows: Path, tmp_path: Path, tiny: dict):
    given = {**tiny, "steps": 8, "out": tmp_path, "quiet": True}
    found = headway.train(rows, seeds=2, **given)
    facts = facts_of(tmp_path)
    assert facts["members"] == ["seed-0", "seed-1"]
    values = facts["seeds"]["val_loss"]["values"]
    assert facts["seeds"]["val_loss"]["mean"] == pytest.approx(sum(values) / 2) and values[0] != values[1]
    both = headway.load(tmp_path)
    text = "the old cat is awful"
    each = [headway.load(tmp_path / name)(text)["scores"]["neg"] for name in facts["members"]]
    assert both(text)["scores"]["neg"] == pytest.approx(sum(each) / 2, abs=1e-5)
    assert found["val_loss"] <= max(values)
    assert headway.train(rows, seeds=2, **given)["val_loss"] == found["val_loss"]
    other = tmp_path.parent / "other.csv"
    other.write_text(rows.read_text(encoding="utf-8").replace("cat", "rat"), encoding="utf-8")
    for data, seeds, said in ((rows, 3, "cannot change during a run: --seeds 2"), (other, 2, "other data")):
        with pytest.raises(InputError, match=said):
            headway.train(data, seeds=seeds, **given)


def test_where_one_model_is_wanted_of_several_the_best_is_taken_and_told(
    rows: Path, tmp_path: Path, tiny: dict, capsys: pytest.CaptureFixture
):
    headway.train(rows, **{**tiny, "steps": 2}, seeds=2, out=tmp_path / "both", quiet=True)
    found = export(tmp_path / "both", tmp_path / "out")
    assert found.member == facts_of(tmp_path / "both")["best_member"]
    assert export(tmp_path / "both" / "seed-0", tmp_path / "alone").member is None
    assert explain(headway.load(tmp_path / "both"))["members"] == 2
    assert "members" not in explain(headway.load(tmp_path / "both" / "seed-0"))
    headway.train(rows, from_model=str(tmp_path / "both"), steps=1, out=tmp_path / "on", threads=1)
    assert f"starting from the best member, {found.member}" in capsys.readouterr().err


FROZEN = {"from_model": "x", "frozen": True, "steps": None}
REFUSED = [
    ({"frozen": True}, "--frozen is for fine-tuning"),
    ({"adapt": True}, "--adapt is for fine-tuning"),
    ({**FROZEN, "epochs": 3}, "--epochs is for training the whole model"),
    ({"from_model": __file__}, "is a file, not the directory of a model"),
    ({"adapt": True, "frozen": True, "from_model": "x"}, "choose one"),
    ({"d_model": 8, "from_model": "x"}, "--d-model cannot be chosen with --from"),
    ({"layer_decay": 1.5, "from_model": "x"}, "--layer-decay is 1.5"),
    ({"from_model": " "}, "--from is empty"),
    ({**FROZEN, "seeds": 2}, "all --seeds would give the same classifier"),
    ({"from_model": "no/such/place/here"}, "--from no/such/place/here"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_cannot_be_is_refused(options: dict, said: str, rows: Path, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        headway.train(rows, out=tmp_path / "run", **{"steps": 1, **options}, **QUICK)
    assert not (tmp_path / "run").exists()


NOT_FOR = {**dict.fromkeys(("frozen", "contrastive", "adapt", "balance"), True), "token_dropout": 0.1}


@pytest.mark.parametrize(("name", "value"), {**NOT_FOR, "mlm_probability": 0.2}.items())
def test_an_option_that_the_task_does_not_read_is_refused(
    name: str, value: object, base: Path, corpus: Path, tmp_path: Path
):
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')} is for .*, but this is language_modeling"):
        headway.train(corpus, from_model=str(base), out=tmp_path / "run", **{name: value}, **QUICK)
    assert not (tmp_path / "run").exists()


def test_the_refusal_says_why_it_is_this_task(base: Path, tmp_path: Path):
    path = tmp_path / "same.csv"
    path.write_text("text,label\n" + "a fine lamp,good\na fine lamp,bad\n" * 9)
    said = (
        "but this is language_modeling.*'label' holds texts of 4 characters.*--text-column.*--label-column to classify"
    )
    with pytest.raises(InputError, match=said):
        headway.train(path, from_model=str(base), frozen=True, out=tmp_path / "run", **QUICK)


@pytest.mark.parametrize("options", [{"frozen": True}, {"contrastive": True}, {"steps": 4}], ids=str)
def test_a_classifier_is_exported_with_or_without_a_pooler(options: dict, base: Path, rows: Path, tmp_path: Path):
    model = load_model(base)
    model.pooler = Pooler(model.config)
    save_model(model, tmp_path / "base")
    Tokenizer.load(base).save(tmp_path / "base", max_length=64)
    for name, begins in (("with", tmp_path / "base"), ("without", base)):
        headway.train(rows, from_model=str(begins), out=tmp_path / name, **options, **QUICK)
        written = export(tmp_path / name, tmp_path / f"export-{name}")
        assert written.parity.passed, written.parity.problem
        config = json.loads((tmp_path / f"export-{name}" / "config.json").read_text(encoding="utf-8"))
        assert config["architectures"] == ["BertForSequenceClassification"]


def test_tuning_of_vectors_ends_with_its_time(base: Path):
    encoder = load_model(base)
    given = (encoder, [[5, 6, 7], [8, 9], [10, 11, 12], [13, 5]], [0, 0, 1, 1], 0, lambda share, loss: None)
    assert fitting.tune_vectors(*given) == fitting.STEPS
    assert fitting.tune_vectors(*given, 1e-3) < fitting.STEPS
    before = [p.clone() for p in encoder.parameters()]
    assert fitting.tune_vectors(*given, 0.0) == 0
    assert all(torch.equal(one, other) for one, other in zip(before, encoder.parameters(), strict=True))


def test_weights_that_are_no_numbers_are_named(base: Path, rows: Path, tmp_path: Path):
    file = shutil.copytree(base, tmp_path / "base") / "model.safetensors"
    weights = load_file(file)
    next(value for name, value in weights.items() if "layer.1.attention" in name)[3] = math.nan
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"model\.safetensors: \S+layer\S+1\.\S+: contains NaN or infinity"):
        headway.train(rows, from_model=str(tmp_path / "base"), steps=1, out=tmp_path / "run", **QUICK)


def test_problem_type_says_how_many_labels_a_text_has(rows: Path, base: Path, tmp_path: Path):
    headway.train(rows, from_model=str(base), steps=1, out=tmp_path / "run", **QUICK)
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    (tmp_path / "run" / "headway.json").unlink()  # which says what the file was
    path.write_text(json.dumps({**config, "problem_type": "multi_label_classification"}), encoding="utf-8")
    assert headway.load(tmp_path / "run").task == "multi_label"
    path.write_text(json.dumps({**config, "problem_type": "regression"}), encoding="utf-8")
    with pytest.raises(InputError, match="is no model for regression"):
        headway.load(tmp_path / "run")


def test_from_a_classifier_of_the_same_classes_its_head_is_kept_and_it_never_ends_worse(
    base: Path, rows: Path, tmp_path: Path
):
    first = headway.train(rows, from_model=str(base), out=tmp_path / "a", steps=25, learning_rate=3e-3, **QUICK)
    assert [line["name"] for line in first["baselines"]][:1] == ["majority class"] and len(first["baselines"]) == 2
    harmful = {"steps": 6, "learning_rate": 5.0, "evaluations": 3, **QUICK}
    second = headway.train(rows, from_model=str(tmp_path / "a"), out=tmp_path / "b", **harmful)
    before = second["baselines"][-1]
    kept = facts_of(tmp_path / "b")["kept"]
    assert before["name"] == "the model before training" and before["accuracy"] == pytest.approx(first["accuracy"])
    assert second["accuracy"] >= first["accuracy"] and kept["before"] == pytest.approx(first["val_loss"], abs=1e-5)
