"""A model is saved when its files were loaded again and are the same model: changed ones are refused."""

import pytest
import torch
from hub_kit import edit
from torch import nn

import headway
from headway import Decoder, Encoder, EncoderDecoder, TransformerConfig
from headway.errors import InputError
from headway.hub.directory import load_model, save_any
from headway.hub.safe import weights as stored
from headway.models.baselines import BaselineConfig
from headway.models.config import Positions
from headway.models.heads import ClassificationHead, PoolingHead
from headway.models.transformer import block
from headway.models.wirings import build_model
from headway.nn.block import Block
from headway.nn.positions import PositionEncoding

CONFIG = TransformerConfig(97, d_model=24, n_heads=3, n_layers=2, max_length=31)
NO_FAMILY = {"norm_order": "post", "positions": "alibi"}
ENCODER = CONFIG.but(norm="layernorm", activation="gelu", embedding_norm=True, first_norm=False)


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


class ParallelBlock(Block):
    """The example of docs/block.md."""

    def forward(self, x, *, mask=None, causal=False, rotation=None, cache=None, **source):
        heads = self.attention.layer(self.attention.norm(x), mask=mask, causal=causal, rotation=rotation, cache=cache)
        return self.feedforward(x) + self.attention.dropout(heads)


class Fading(PositionEncoding):
    """The example of docs/positions.md."""

    def bias(self, queries, keys):
        return -0.1 * (queries[:, None, :, None] - keys[:, None, None, :]).abs()


class Summed(nn.Module):
    """Attention without a softmax."""

    def __init__(self, layer):
        super().__init__()
        self.qkv, self.out = layer.qkv, layer.out

    def forward(self, x, **_):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(torch.tril(q @ k.transpose(1, 2)) @ v)


def parallel(model):
    blocks = [block(model.config, layer, None, ParallelBlock) for layer in range(model.config.n_layers)]
    model.stack.blocks = nn.ModuleList(blocks)


def faded(model):
    model.stack.embedding.position = Fading()


def later(model):
    """A part that counts after many tokens."""
    model.head.register_forward_hook(lambda module, given, y: torch.cat([y[:, :200], 2 * y[:, 200:]], dim=1))


def summed(model):
    model.stack.blocks[1].attention.layer = Summed(model.stack.blocks[1].attention.layer)


def louder(model):
    """Another head, of the same weights."""
    before = type(model.head)
    loud = {"forward": lambda self, x, *more: 2 * before.forward(self, x, *more)}
    model.head.__class__ = type("Louder", (before,), loud)


def classifier():
    head = ClassificationHead(ENCODER, 5, pooling="mean", dense=False)
    return Encoder(ENCODER, head)


@pytest.mark.parametrize("change", [parallel, faded, summed, louder])
@pytest.mark.parametrize("name", ["decoder", "own format", "classifier", "embedder"])
def test_a_changed_model_is_refused_and_nothing_is_written(name, change, tmp_path):
    torch.manual_seed(3)
    plain = MODELS[name]()
    save_any(plain, tmp_path / "model")
    before = files(tmp_path / "model")
    model = MODELS[name]()
    change(model)
    for save in (headway.save_model, save_any):
        with pytest.raises(ValueError):
            save(model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"another one, whose answer to a short input differs by \d"):
        save_any(model, tmp_path / "model")
    assert files(tmp_path / "model") == before
    with pytest.raises(ValueError):
        save_any(model, tmp_path / "deep" / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (later, "whose answer to a short input differs"),
        (
            lambda model: model.stack.blocks.__setitem__(1, model.stack.blocks[0]),
            r"another one .*missing .*shared",
        ),
        (lambda model: model.stack.blocks.__delitem__(1), "shared, removed or added"),
        (lambda model: model.register_parameter("gain", nn.Parameter(torch.ones(()))), "no such weights: gain"),
        (lambda model: model.to("meta"), "the weights have shapes but no numbers"),
    ],
)
def test_what_a_changed_model_is_refused_for(change, says, tmp_path):
    model = Decoder(CONFIG.but(max_length=300))
    change(model)
    with pytest.raises(ValueError, match=says):
        headway.save_model(model, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_what_is_no_model_is_refused_and_a_compiled_one_is_saved(tmp_path):
    with pytest.raises(ValueError, match="Linear is not a model of Headway"):
        headway.save_model(nn.Linear(2, 3), tmp_path / "a")
    model = Decoder(CONFIG)
    headway.save_model(torch.compile(model), tmp_path / "b")
    found = headway.load_model(tmp_path / "b")
    assert all(map(torch.equal, model.parameters(), found.parameters()))


MODELS = {
    "decoder": lambda: Decoder(CONFIG),
    "own format": lambda: Decoder(CONFIG.but(**NO_FAMILY)),
    "classifier": classifier,
    "encoder-decoder": lambda: EncoderDecoder(CONFIG.but(positions=Positions("relative"), norm_eps=1e-6)),
    "embedder": lambda: Encoder(ENCODER, PoolingHead("mean")),
    "lstm": lambda: build_model(BaselineConfig("lstm", 97, 24, 2, 31), "encoder-decoder"),
    "cnn": lambda: build_model(BaselineConfig("cnn", 97, 24, 1, 31), "encoder", 3),
}


@pytest.mark.parametrize("name", MODELS)
def test_saving_changes_nothing_of_the_model_and_of_the_callers_random_numbers(name, tmp_path, monkeypatch):
    """What is compared shares the weights of the model: the memory of a large one is not needed twice."""
    torch.manual_seed(5)
    model, loaded = MODELS[name]().train(), []

    def watched(*given, **more):
        loaded.append(load_model(*given, **more))
        return loaded[-1]

    monkeypatch.setattr("headway.hub.directory.load_model", watched)
    next(model.children()).eval()
    modes, weights = [one.training for one in model.modules()], [p.clone() for p in model.parameters()]
    random = torch.get_rng_state()
    save_any(model, tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), random) and [one.training for one in model.modules()] == modes
    assert all(map(torch.equal, model.parameters(), weights)) and all(p.requires_grad for p in model.parameters())
    assert not list(tmp_path.rglob(".*"))
    (again,) = loaded
    here = {p.data_ptr() for p in model.parameters()}
    own = [p for name, p in again.named_parameters() if not name.startswith("head.")]
    assert own and all(p.data_ptr() in here for p in own)


def test_a_weight_that_is_not_what_was_written_is_refused(tmp_path, monkeypatch):
    def damaged(weights, file, *, write=stored.save_file, **more):
        weights["model.norm.weight"] = weights["model.norm.weight"] + 1e-3
        write(weights, file, **more)

    model = Decoder(CONFIG)
    headway.save_model(model, tmp_path / "a")
    before = (tmp_path / "a" / "model.safetensors").read_bytes()
    monkeypatch.setattr(stored, "save_file", damaged)
    with pytest.raises(InputError, match=rf"^{tmp_path}/a/model\.safetensors: .*norm.weight is not what was saved"):
        headway.save_model(model, tmp_path / "a")
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_weights_of_other_types_are_saved_in_float32_with_a_word(dtype, tmp_path):
    model = Decoder(CONFIG).to(dtype)
    with pytest.warns(UserWarning, match=rf"tokens\.weight is {dtype}: the model is saved, .* in float32"):
        headway.save_model(model, tmp_path / "a")
    saved = headway.load_model(tmp_path / "a")
    assert all(map(torch.equal, saved.parameters(), (weight.float() for weight in model.parameters())))


def test_labels_may_be_named_like_keys_of_a_configuration(tmp_path):
    """Their numbers are no layers and no code: "players" ends like n_layers."""
    labels = [f"label {number}" for number in range(599)] + ["players", "auto_map"]
    model = Encoder(ENCODER, ClassificationHead(ENCODER, 601, dense=False))
    names = {"id2label": {str(number): label for number, label in enumerate(labels)}}
    headway.save_model(model, tmp_path / "a", **names, label2id={label: number for number, label in enumerate(labels)})
    assert load_model(tmp_path / "a").kept["config.json"]["label2id"]["players"] == 599  # type: ignore[index, union-attr]
    edit(tmp_path / "a" / "config.json", auto_map={"AutoModel": "x.X"})
    with pytest.raises(InputError, match="auto_map"):
        load_model(tmp_path / "a")
