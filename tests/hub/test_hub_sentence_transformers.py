"""The layout of sentence-transformers, both ways, and what of it is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import headway
from headway.errors import InputError
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
HEADS: dict[str, Callable[[], nn.Module]] = {
    "mean": lambda: PoolingHead(),
    "first": lambda: PoolingHead("first"),
    "last": lambda: PoolingHead("last", normalise=False),
    "dense": lambda: PoolingHead(normalise=False, dense=nn.Linear(24, 7), activation="tanh"),
    "dense, then length 1": lambda: PoolingHead(dense=nn.Linear(24, 7, bias=False)),
    "classes": lambda: ClassificationHead(CONFIG, 3, dense=False, normalise=True),
    "classes of vectors of any length": lambda: ClassificationHead(CONFIG, 3, pooling="first", dense=False),
    "classes without a bias": lambda: ClassificationHead(CONFIG, 3, dense=False, normalise=True, out_bias=False),
}


def encoder(head: nn.Module | None, seed: int = 3) -> Encoder:
    torch.manual_seed(seed)
    model = Encoder(CONFIG, head)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3) if p.dim() > 1 else nn.init.uniform_(p, 0.5, 1.5)
    return model.eval()


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    def save(head: nn.Module | None, **entries: object) -> Path:
        save_model(encoder(head), tmp_path, **entries)
        TOKENIZER.save(tmp_path, max_length=19, segments=True)
        return tmp_path

    return save


@pytest.mark.parametrize("name", HEADS)
def test_what_is_written_is_read_back(name: str, saved: Callable[..., Path], tmp_path: Path):
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
def test_sentence_transformers_reads_what_is_written(name: str, saved: Callable[..., Path]):
    theirs = pytest.importorskip("sentence_transformers")
    directory = saved(HEADS[name]())
    ours = headway.load(directory)
    assert isinstance(ours, Embedder)
    model = theirs.SentenceTransformer(str(directory), device="cpu")
    assert model.max_seq_length == ours.max_length == 19
    np.testing.assert_allclose(ours(TEXTS), model.encode(TEXTS, show_progress_bar=False), atol=1e-5)


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken"])
def test_what_sentence_transformers_writes_is_read(mode: str, saved: Callable[..., Path], tmp_path: Path):
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


def test_a_classifier_is_one_whose_labels_have_their_names(saved: Callable[..., Path], tmp_path: Path):
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


def test_a_dense_layer_right_after_the_pooling_is_a_classifier_where_the_classes_are_named(
    saved: Callable[..., Path],
):
    directory = saved(PoolingHead(normalise=False, dense=nn.Linear(24, 3)))
    assert isinstance(headway.load(directory), Embedder)
    edit(directory / "config.json", id2label={"0": "ant", "1": "bee", "2": "cow"})
    assert headway.load(directory).labels == ["ant", "bee", "cow"]


def test_the_longest_text_is_kept(saved: Callable[..., Path], tmp_path: Path):
    directory = saved(PoolingHead())
    assert sequence_length(load_model(directory)) == 19
    edit(directory / "sentence_bert_config.json", max_seq_length=11)
    model = load_model(directory)
    assert sequence_length(model) == 11 and headway.load(directory).max_length == 11
    save_model(model, tmp_path / "twice")
    assert sequence_length(load_model(tmp_path / "twice")) == 11
    edit(directory / "sentence_bert_config.json", max_seq_length=512)
    assert sequence_length(load_model(directory)) == 19, "no more than the model has positions"


def test_a_head_of_another_kind_over_such_a_directory_leaves_nothing_behind(saved: Callable[..., Path]):
    directory = saved(PoolingHead("first"))
    save_model(encoder(None), directory)
    assert not (directory / "modules.json").exists() and load_model(directory).head is None


def test_the_model_that_is_saved_keeps_its_head(tmp_path: Path):
    model = encoder(PoolingHead())
    save_model(model, tmp_path)
    assert isinstance(model.head, PoolingHead)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (lambda: ClassificationHead(CONFIG, 3, normalise=True), "no dense layer"),
        (lambda: PoolingHead(dense=nn.Linear(24, 3), activation="gelu"), "gelu"),
        (lambda: Pooler(CONFIG), "it has no Pooler"),
    ],
)
def test_heads_without_a_word_in_the_layout(head: Callable[[], nn.Module], said: str, tmp_path: Path):
    with pytest.raises(ValueError, match=said):
        save_model(encoder(head()), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def edit(path: Path, **entries: object) -> None:
    found = json.loads(path.read_text())
    path.write_text(json.dumps({key: v for key, v in {**found, **entries}.items() if v is not ...}))


def edit_module(number: int, **entries: object) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        modules = json.loads((directory / "modules.json").read_text())
        modules[number] = {key: v for key, v in {**modules[number], **entries}.items() if v is not ...}
        (directory / "modules.json").write_text(json.dumps(modules))

    return change


def replace_modules(text: str) -> Callable[[Path], None]:
    return lambda directory: (directory / "modules.json").write_text(text)


def edit_file(name: str, **entries: object) -> Callable[[Path], None]:
    return lambda directory: edit(directory / name, **entries)


def edit_weights(**weights: torch.Tensor) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = directory / "2_Dense/model.safetensors"
        found = {**load_file(path), **{name.replace("_", "."): w for name, w in weights.items()}}
        save_file({name: w for name, w in found.items() if w.numel()}, path)

    return change


def move_out(directory: Path) -> None:
    shutil.move(directory / "1_Pooling", directory.parent / "elsewhere")
    (directory / "1_Pooling").symlink_to(directory.parent / "elsewhere")


DENSE, MODULES, POOLING = "2_Dense/config.json", "modules.json", "1_Pooling/config.json"
SPOILED: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no list": (replace_modules("{}"), MODULES, "expected a list"),
    "an empty list": (replace_modules("[]"), MODULES, "expected a list"),
    "no JSON": (replace_modules("[1,"), MODULES, "not JSON"),
    "more than a list": (replace_modules('[], "other": []'), MODULES, "expected a list"),
    "a path that leaves": (edit_module(1, path="../1_Pooling"), MODULES, "name of a folder"),
    "an absolute path": (edit_module(1, path="/etc"), MODULES, "name of a folder"),
    "the directory itself": (edit_module(1, path="."), MODULES, "name of a folder"),
    "a path that is no text": (edit_module(1, path=3), MODULES, "name of a folder"),
    "a link that leaves": (move_out, "1_Pooling", "link"),
    "one folder twice": (edit_module(2, path="1_Pooling"), MODULES, "twice"),
    "the model elsewhere": (edit_module(0, path="0_Transformer"), MODULES, "directory itself"),
    "code of the directory": (edit_module(1, type="custom.Pooling"), MODULES, "is not run"),
    "an unknown module": (edit_module(1, type="sentence_transformers.models.CNN"), MODULES, "expected Transformer"),
    "another order": (edit_module(1, type="sentence_transformers.models.Normalize"), MODULES, "expected one of"),
    "a wrong number": (edit_module(1, idx=3), MODULES, "idx"),
    "an unknown key": (edit_module(1, device="cuda"), MODULES, "expected idx"),
    "maxima": (edit_file(POOLING, pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True), POOLING, "max"),
    "two ways at once": (edit_file(POOLING, pooling_mode_cls_token=True), POOLING, "expected one of mean, cls"),
    "another way by name": (edit_file(POOLING, pooling_mode="weightedmean"), POOLING, "weightedmean"),
    "another width": (edit_file(POOLING, word_embedding_dimension=25), POOLING, "expected 24"),
    "without the prompt": (edit_file(POOLING, include_prompt=False), POOLING, "include_prompt"),
    "an unknown way": (edit_file(POOLING, temperature=2), POOLING, "temperature"),
    "an activation": (edit_file(DENSE, activation_function="torch.nn.modules.activation.GELU"), DENSE, "GELU"),
    "an activation of another's": (edit_file(DENSE, activation_function="os.system"), DENSE, "os.system"),
    "a residual": (edit_file(DENSE, use_residual=True), DENSE, "use_residual"),
    "another input": (edit_file(DENSE, in_features=7), DENSE, "in_features"),
    "no output": (edit_file(DENSE, out_features=0), DENSE, "out_features"),
    "vectors of tokens": (edit_file(DENSE, module_input_name="token_embeddings"), DENSE, "token_embeddings"),
    "no bias": (edit_file(DENSE, bias=False), "2_Dense/model.safetensors", "linear.bias"),
    "weights of another shape": (
        edit_weights(linear_weight=torch.ones(7, 23)), "2_Dense/model.safetensors", "linear.weight",
    ),
    "weights missing": (edit_weights(linear_bias=torch.ones(0)), "2_Dense/model.safetensors", "linear.bias"),
    "no file": (lambda directory: (directory / DENSE).unlink(), DENSE, "no such file"),
    "lowercase": (edit_file("sentence_bert_config.json", do_lower_case=True), "sentence_bert_config.json", "lower"),
    "length": (edit_file("sentence_bert_config.json", max_seq_length=-1), "sentence_bert_config.json", "max_seq"),
    "a prompt": (
        lambda directory: (directory / "config_sentence_transformers.json").write_text('{"default_prompt_name": "q"}'),
        "config_sentence_transformers.json", "prompt",
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", SPOILED)
def test_what_is_damaged_or_unknown_is_refused(problem: str, saved: Callable[..., Path], tmp_path: Path):
    spoil, file, said = SPOILED[problem]
    home = tmp_path / "home"
    shutil.copytree(saved(PoolingHead(dense=nn.Linear(24, 7), activation="tanh")), home)
    assert isinstance(load_model(home).head, PoolingHead)
    spoil(home)
    with pytest.raises(InputError) as caught:
        load_model(home)
    message = str(caught.value)
    assert message.startswith(f"{home / file}: ") and said in message and "\n" not in message


def test_the_cache_of_the_hub_with_its_links_is_read(saved: Callable[..., Path], tmp_path: Path):
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


def test_the_advice_about_a_prompt_can_be_followed(saved: Callable[..., Path], tmp_path: Path):
    home = Path(shutil.copytree(saved(PoolingHead()), tmp_path / "home"))
    prompts = {"prompts": {"query": "search: "}, "default_prompt_name": "query"}
    (home / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with pytest.raises(
        InputError, match=r"puts 'search: ' before every text\. Set it to null .*, and write the prompt"
    ):
        load_model(home)
    (home / "config_sentence_transformers.json").write_text(json.dumps({**prompts, "default_prompt_name": None}))
    assert isinstance(load_model(home).head, PoolingHead)
