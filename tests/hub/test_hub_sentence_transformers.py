"""The layout of sentence-transformers, both ways, and what of it is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hub_kit import check_refused, edit, edited, read_json, reweighed
from safetensors.torch import load_file
from torch import nn

import headway
from headway.hub.directory import load_model, save_model
from headway.hub.sentence_transformers import sequence_length
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, Pooler, PoolingHead
from headway.models.transformer import Encoder
from headway.tasks.classification.task import Classifier
from headway.tasks.embedding.task import Embedder
from headway.text.train import train_tokenizer

WORDS = ["the cat sat on a mat while old dogs ran past red doors"] * 9
TEXTS = ["the cat sat", "old dogs ran past red doors while a cat sat", "mat", ""]
TOKENIZER = train_tokenizer(WORDS, "wordpiece", 80, role="encoder")
CONFIG = TransformerConfig(
    TOKENIZER.vocab_size, d_model=24, n_layers=2, n_heads=3, d_ff=29, max_length=19, norm="layernorm",
    norm_parameters="both", norm_order="post", norm_eps=1e-12, positions="learned", activation="gelu", gated=False,
    embedding_norm=True, bias=("qkv", "out", "ff", "head"), tied=True, segments=2,
)  # fmt: skip
HEADS = {
    "mean": lambda: PoolingHead(),
    "first": lambda: PoolingHead("first"),
    "last": lambda: PoolingHead("last", normalise=False),
    "dense": lambda: PoolingHead(normalise=False, dense=nn.Linear(24, 7), activation="tanh"),
    "dense, then length 1": lambda: PoolingHead(dense=nn.Linear(24, 7, bias=False)),
    "classes": lambda: ClassificationHead(CONFIG, 3, dense=False, normalise=True),
    "classes of vectors of any length": lambda: ClassificationHead(CONFIG, 3, pooling="first", dense=False),
    "classes without a bias": lambda: ClassificationHead(CONFIG, 3, dense=False, normalise=True, out_bias=False),
}


def encoder(head, seed=3):
    torch.manual_seed(seed)
    model = Encoder(CONFIG, head)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3) if p.dim() > 1 else nn.init.uniform_(p, 0.5, 1.5)
    return model.eval()


@pytest.fixture
def saved(tmp_path):
    def save(head, **entries):
        save_model(encoder(head), tmp_path, **entries)
        TOKENIZER.save(tmp_path, max_length=19, segments=True)
        return tmp_path

    return save


@pytest.mark.parametrize("name", HEADS)
def test_what_is_written_is_read_back(name, saved, tmp_path):
    directory = saved(HEADS[name]())
    model, again = encoder(HEADS[name]()), load_model(directory)
    assert type(again.head) is type(model.head)
    assert (again.head.pooling, again.head.normalise) == (model.head.pooling, model.head.normalise)
    with torch.no_grad():
        for own, other in zip(model.parameters(), again.parameters(), strict=True):
            own.copy_(other)
        ids = torch.tensor([[2, 7, 11, 13, 3], [2, 17, 3, 0, 0]])
        mask = ids != 0
        assert torch.equal(model(ids, mask), again(ids, mask))
    save_model(again, tmp_path / "twice")
    for file in ("modules.json", "config.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        assert (tmp_path / "twice" / file).read_bytes() == (directory / file).read_bytes()
    assert load_file(tmp_path / "twice/model.safetensors").keys() == load_file(directory / "model.safetensors").keys()
    assert all(p.requires_grad for p in again.parameters())


@pytest.mark.parametrize("name", ["mean", "first", "last", "dense", "dense, then length 1"])
def test_sentence_transformers_reads_what_is_written(name, saved):
    theirs = pytest.importorskip("sentence_transformers")
    directory = saved(HEADS[name]())
    ours = headway.load(directory)
    assert isinstance(ours, Embedder)
    model = theirs.SentenceTransformer(str(directory), device="cpu")
    assert model.max_seq_length == ours.max_length == 19
    np.testing.assert_allclose(ours(TEXTS), model.encode(TEXTS, show_progress_bar=False), atol=1e-5)


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken"])
def test_what_sentence_transformers_writes_is_read(mode, saved, tmp_path):
    theirs = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    saved(None)
    transformer = modules.Transformer(str(tmp_path), max_seq_length=13)
    pooling, dense = modules.Pooling(24, mode), modules.Dense(24, 5, activation_function=nn.Tanh())
    model = theirs.SentenceTransformer(modules=[transformer, pooling, dense, modules.Normalize()], device="cpu")
    model.save(str(tmp_path / "theirs"))
    ours = headway.load(tmp_path / "theirs")
    assert isinstance(ours, Embedder) and ours.width == 5 and ours.max_length == 13
    np.testing.assert_allclose(ours(TEXTS), model.encode(TEXTS, show_progress_bar=False), atol=1e-5)


def test_a_classifier_is_one_whose_labels_have_their_names(saved, tmp_path):
    names = ["ant", "bee", "cow"]
    labels = {"id2label": dict(zip("012", names, strict=True)), "label2id": {n: i for i, n in enumerate(names)}}
    classify = headway.load(saved(HEADS["classes"](), **labels))
    assert isinstance(classify, Classifier) and classify.labels == names
    found = classify("the cat sat")
    assert set(found["scores"]) == set(names) and sum(found["scores"].values()) == pytest.approx(1.0)
    model = classify.model
    ids = torch.tensor([TOKENIZER.encode("the cat sat", special=True)])
    with torch.no_grad():
        vector = nn.functional.normalize(model.stack(ids).mean(dim=1), dim=-1)
        expected = (vector @ model.head.out.weight.T + model.head.out.bias).softmax(-1)[0]
    assert list(found["scores"].values()) == pytest.approx(expected.tolist(), abs=1e-5)
    save_model(model, tmp_path / "twice")
    TOKENIZER.save(tmp_path / "twice")
    assert headway.load(tmp_path / "twice").labels == names, "labels are kept"


def test_a_dense_layer_right_after_the_pooling_is_a_classifier_where_the_classes_are_named(saved):
    directory = saved(PoolingHead(normalise=False, dense=nn.Linear(24, 3)))
    assert isinstance(headway.load(directory), Embedder)
    edit(directory / "config.json", id2label={"0": "ant", "1": "bee", "2": "cow"})
    assert headway.load(directory).labels == ["ant", "bee", "cow"]


def test_the_longest_text_is_kept(saved, tmp_path):
    directory = saved(PoolingHead())
    assert sequence_length(load_model(directory)) == 19
    edit(directory / "sentence_bert_config.json", max_seq_length=11)
    model = load_model(directory)
    assert sequence_length(model) == 11 and headway.load(directory).max_length == 11
    save_model(model, tmp_path / "twice")
    assert sequence_length(load_model(tmp_path / "twice")) == 11
    edit(directory / "sentence_bert_config.json", max_seq_length=512)
    assert sequence_length(load_model(directory)) == 19, "no more than the model has positions"


def test_a_head_of_another_kind_over_such_a_directory_leaves_nothing_behind(tmp_path):
    model = encoder(PoolingHead("first"))
    save_model(model, tmp_path)
    assert isinstance(model.head, PoolingHead), "the model that is saved keeps its head"
    save_model(encoder(None), tmp_path)
    assert not (tmp_path / "modules.json").exists() and load_model(tmp_path).head is None


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (lambda: ClassificationHead(CONFIG, 3, normalise=True), "no dense layer"),
        (lambda: PoolingHead(dense=nn.Linear(24, 3), activation="gelu"), "gelu"),
        (lambda: Pooler(CONFIG), "it has no Pooler"),
    ],
)
def test_heads_without_a_word_in_the_layout(head, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        save_model(encoder(head()), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def module(number, **entries):
    """Another entry of a module in the list of these."""

    def change(directory):
        modules = read_json(directory / MODULES)
        modules[number] |= entries
        (directory / MODULES).write_text(json.dumps(modules))

    return change


def modules(text):
    return lambda directory: (directory / MODULES).write_text(text)


def move_out(directory):
    shutil.move(directory / "1_Pooling", directory.parent / "elsewhere")
    (directory / "1_Pooling").symlink_to(directory.parent / "elsewhere")


DENSE, MODULES, POOLING = "2_Dense/config.json", "modules.json", "1_Pooling/config.json"
LINEAR, SBERT = "2_Dense/model.safetensors", "sentence_bert_config.json"
MAXIMA = {"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}
SPOILED = {
    "no list": (modules("{}"), MODULES, "expected a list"),
    "an empty list": (modules("[]"), MODULES, "expected a list"),
    "no JSON": (modules("[1,"), MODULES, "not JSON"),
    "more than a list": (modules('[], "other": []'), MODULES, "expected a list"),
    "a path that leaves": (module(1, path="../1_Pooling"), MODULES, "name of a folder"),
    "an absolute path": (module(1, path="/etc"), MODULES, "name of a folder"),
    "the directory itself": (module(1, path="."), MODULES, "name of a folder"),
    "a path that is no text": (module(1, path=3), MODULES, "name of a folder"),
    "a link that leaves": (move_out, "1_Pooling", "link"),
    "one folder twice": (module(2, path="1_Pooling"), MODULES, "twice"),
    "the model elsewhere": (module(0, path="0_Transformer"), MODULES, "directory itself"),
    "code of the directory": (module(1, type="custom.Pooling"), MODULES, "is not run"),
    "an unknown module": (module(1, type="sentence_transformers.models.CNN"), MODULES, "expected Transformer"),
    "another order": (module(1, type="sentence_transformers.models.Normalize"), MODULES, "expected one of"),
    "a wrong number": (module(1, idx=3), MODULES, "idx"),
    "an unknown key": (module(1, device="cuda"), MODULES, "expected idx"),
    "maxima": (edited(POOLING, **MAXIMA), POOLING, "max"),
    "two ways at once": (edited(POOLING, pooling_mode_cls_token=True), POOLING, "expected one of mean, cls"),
    "another way by name": (edited(POOLING, pooling_mode="weightedmean"), POOLING, "weightedmean"),
    "another width": (edited(POOLING, word_embedding_dimension=25), POOLING, "expected 24"),
    "without the prompt": (edited(POOLING, include_prompt=False), POOLING, "include_prompt"),
    "an unknown way": (edited(POOLING, temperature=2), POOLING, "temperature"),
    "an activation": (edited(DENSE, activation_function="torch.nn.modules.activation.GELU"), DENSE, "GELU"),
    "an activation of another's": (edited(DENSE, activation_function="os.system"), DENSE, "os.system"),
    "a residual": (edited(DENSE, use_residual=True), DENSE, "use_residual"),
    "another input": (edited(DENSE, in_features=7), DENSE, "in_features"),
    "no output": (edited(DENSE, out_features=0), DENSE, "out_features"),
    "vectors of tokens": (edited(DENSE, module_input_name="token_embeddings"), DENSE, "token_embeddings"),
    "no bias": (edited(DENSE, bias=False), LINEAR, "linear.bias"),
    "another shape": (reweighed(lambda w: w.update({"linear.weight": torch.ones(7, 23)}), LINEAR), LINEAR, "r.weight"),
    "weights missing": (reweighed(lambda w: w.pop("linear.bias"), LINEAR), LINEAR, "linear.bias"),
    "no file": (lambda directory: (directory / DENSE).unlink(), DENSE, "no such file"),
    "lowercase": (edited(SBERT, do_lower_case=True), SBERT, "lower"),
    "length": (edited(SBERT, max_seq_length=-1), SBERT, "max_seq"),
}


@pytest.mark.parametrize("problem", SPOILED)
def test_what_is_damaged_or_unknown_is_refused(problem, saved, tmp_path):
    spoil, file, said = SPOILED[problem]
    home = tmp_path / "home"
    shutil.copytree(saved(PoolingHead(dense=nn.Linear(24, 7), activation="tanh")), home)
    assert isinstance(load_model(home).head, PoolingHead)
    spoil(home)
    check_refused(home, file, said)


def test_the_cache_of_the_hub_with_its_links_is_read(saved, tmp_path):
    """Files are links into ``blobs``, beside ``snapshots``."""
    directory = saved(PoolingHead(dense=nn.Linear(24, 7)))
    home = tmp_path / "models--some--one"
    snapshot = home / "snapshots" / "0123abc"
    (home / "blobs").mkdir(parents=True)
    for number, path in enumerate(sorted(p for p in directory.rglob("*") if p.is_file() and home not in p.parents)):
        place = snapshot / path.relative_to(directory)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, home / "blobs" / str(number))
        place.symlink_to(Path(*[".."] * len(place.relative_to(home).parents[:-1])) / "blobs" / str(number))
    found, expected = headway.load(snapshot)(TEXTS), headway.load(directory)(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_advice_about_a_prompt_can_be_followed(saved, tmp_path):
    home = Path(shutil.copytree(saved(PoolingHead()), tmp_path / "home"))
    prompts = {"prompts": {"query": "search: "}, "default_prompt_name": "query"}
    file = home / "config_sentence_transformers.json"
    file.write_text(json.dumps(prompts))
    check_refused(home, file.name, "puts 'search: ' before every text. Set it to null ")
    file.write_text('{"default_prompt_name": "q"}')
    check_refused(home, file.name, "prompt")
    file.write_text(json.dumps({**prompts, "default_prompt_name": None}))
    assert isinstance(load_model(home).head, PoolingHead)
