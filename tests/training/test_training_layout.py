"""How a run is laid out: states exactly as the real tensors, activations as autograd keeps them, and what is chosen."""

import gc
import math
import re
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from headway.cli.explain import wiring_of
from headway.errors import InputError
from headway.models import size
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.size import activation_bytes, parameters
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.kernels.dispatch import cross_entropy
from headway.training.hardware.precision import autocast
from headway.training.loop.state import Training
from headway.training.optimizers import optimizers
from headway.training.options import TrainOptions
from headway.training.sizing.presets import decoder_config
from headway.workflows.train import dry_run
from headway.workflows.train.dry_run import GPU_LINK, GPU_SHARE, USABLE, Hardware, Work, lay_out, work_without_data

DEFAULT = decoder_config(257, 48, 3, 3, 31)
CONFIGS = {
    "default": DEFAULT,
    "nanochat": decoder_config(257, 48, 3, 3, 31, "nanochat"),
    "many tokens": decoder_config(2053, 48, 2, 3, 31),
    "gated, few keys": TransformerConfig(257, d_model=48, n_layers=3, n_heads=6, n_kv_heads=2, max_length=31),
    "gpt2": TransformerConfig(
        vocab_size=257,
        **{"d_model": 48, "n_layers": 3, "n_heads": 3, "max_length": 31, "positions": "learned", "norm": "layernorm"},
        **{"norm_parameters": "both", "activation": "gelu", "gated": False, "bias": ("qkv", "out", "ff")},
    ),
    "dropout": DEFAULT.but(dropout=0.1),
}
ROWS, LENGTH = 5, 31
H100 = Hardware(8, 80e9, 989e12, GPU_SHARE, GPU_LINK)
ONE = Hardware(1, 1e9, 1e9, 1.0)


def memory(work: Work, hardware: Hardware = H100, rows: int = ROWS, *, sharded=False, more=False, **wiring):
    return dry_run.memory(work, hardware, rows, sharded=sharded, checkpointed=False, more=more, **wiring)


def models():
    """Small models of each wiring."""
    for name in ("default", "nanochat", "gpt2", "gated, few keys"):
        yield f"decoder, {name}", Decoder(CONFIGS[name])
    config = CONFIGS["gpt2"]
    yield "encoder-decoder", EncoderDecoder(config, config.but(n_layers=2))
    yield "classifier", Encoder(config, ClassificationHead(config, 3))


def tensor_bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("name", [name for name, _ in models()])
def test_weights_gradients_and_states_are_those_of_real_tensors(name: str, kind: str):
    model = dict(models())[name]
    chosen = optimizers(model, kind, 1e-3, 0.0)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    for optimizer in chosen:
        optimizer.step()
    now = Training(model, chosen, None)
    now.keep_best()
    states = [t for optimizer in chosen for entry in optimizer.state.values() for t in entry.values() if t.dim()]
    work = Work(model.config, 1e6, LENGTH, ROWS * LENGTH, kind, "float32")
    found = memory(work, ONE, **wiring_of(model))
    assert found.weights == tensor_bytes(model.parameters())
    assert found.gradients == tensor_bytes(p.grad for p in model.parameters())
    assert found.optimizer == tensor_bytes(states)
    assert found.best == tensor_bytes(now.best.values())
    assert found.copies == 0


def test_matrices_are_those_that_muon_is_given():
    for name, model in models():
        (muon, *_) = optimizers(model, "muon", 1e-3, 0.0)
        counted = sum(p.numel() for group in muon.param_groups for p in group["params"])
        assert size.block_matrices(model.config, **wiring_of(model)) == counted, name


def step_of(config: TransformerConfig, precision: str, checkpointed: bool):
    """A model's parameters, and its forward pass with the loss."""
    model = Decoder(config)
    if checkpointed:
        for block in model.stack.blocks:
            block.forward = lambda x, own=block.forward, **given: checkpoint(own, x, use_reentrant=False, **given)
    ids = torch.randint(config.vocab_size, (ROWS, LENGTH + 1))

    def forward():
        with autocast(torch.device("cpu"), precision):
            return cross_entropy(model(ids[:, :-1]).float().flatten(0, -2), ids[:, 1:].flatten())

    return list(model.parameters()), forward


def kept_bytes(params, forward) -> int:
    """Bytes of the tensors that autograd keeps of a forward pass, parameters aside; each storage counts once."""
    own = {p.untyped_storage().data_ptr() for p in params}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = forward()
    assert loss.requires_grad
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_activations_are_those_that_autograd_keeps(name: str, precision: str):
    config, c = CONFIGS[name], 4 if precision == "float32" else 2
    whole = c == 2 or config.dropout > 0  # on a processor, as ``nn.attention.attend`` chooses
    kept = kept_bytes(*step_of(config, precision, False))
    found = activation_bytes(config, ROWS, LENGTH, c=c, whole_scores=whole) + size.copied_bytes(config, c, True)
    assert 0.95 < found / kept < 1.25


@pytest.mark.parametrize("name", CONFIGS)
def test_activations_with_checkpoints(name: str):
    config = CONFIGS[name]
    kept = kept_bytes(*step_of(config, "float32", True))
    again = ROWS * LENGTH * size.block_activations(config, LENGTH, 4, cross=False, whole_scores=config.dropout > 0)
    found = activation_bytes(config, ROWS, LENGTH, checkpointed=True, whole_scores=config.dropout > 0)
    assert 0.95 < (found - again) / kept < 1.25  # one block that is made again comes later, in the backward pass
    assert found < activation_bytes(config, ROWS, LENGTH, whole_scores=config.dropout > 0)


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("name", ["default", "nanochat", "many tokens", "gated, few keys"])
def test_the_highest_use_of_a_step_is_covered(name: str, checkpointed: bool):
    config = CONFIGS[name]
    params, forward = step_of(config, "float32", checkpointed)
    gc.collect()  # what earlier tests left would be counted when it goes
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        forward().backward()
    held = highest = 0
    for event in watched.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    found = activation_bytes(config, ROWS, LENGTH, checkpointed=checkpointed) + size.workspace_bytes(
        config, ROWS, LENGTH
    )
    assert 1.0 < (found + tensor_bytes(params)) / highest < 2.0  # 1.92 where products need the least memory


def test_fsdp_holds_a_part():
    work = work_without_data(1e9, None, TrainOptions())
    whole, part = (memory(work, rows=4, sharded=sharded, more=True) for sharded in (False, True))
    for name in ("weights", "gradients", "optimizer", "best"):
        assert getattr(part, name) == -(-getattr(whole, name) // 8)
    assert part.activations == whole.activations
    assert part.total == sum(vars(part).values())


def test_threads_hold_gradients_of_their_own():
    work = Work(DEFAULT, 1e6, LENGTH, ROWS * LENGTH, "adamw", "float32", shares=2)
    one, each = Hardware(1, 1e9, 1e9, 1.0, cpu=True), 4 * parameters(DEFAULT)["total"]
    assert [memory(work, one, more=more).gradients // each for more in (False, True)] == [2, 3]


def test_the_numbers_of_a_layout_belong_together():
    work = work_without_data(1e9, 3e9, TrainOptions())
    found = lay_out(work, H100)
    assert found.micro_batch * found.accumulate * 8 * work.length == work.step_tokens == 1 << 20
    assert found.steps == math.ceil(3e9 / work.step_tokens)
    assert found.memory.total <= USABLE * 80e9
    each = 3 * size.forward_flops(work.config, 1, 2048) / 2048
    assert found.flops == pytest.approx(each * 3e9)
    assert found.flops > 6 * found.parameters * 3e9
    computing, sending = each * work.step_tokens / (8 * 989e12 * GPU_SHARE), found.exchanged / GPU_LINK
    assert found.step_seconds == pytest.approx(computing + sending), "gradients are summed after the last micro-batch"
    assert found.tokens_per_second == pytest.approx(work.step_tokens / found.step_seconds)
    sharded = lay_out(work, H100, sharded=True)
    assert sharded.step_seconds == pytest.approx(max(computing, sharded.exchanged / GPU_LINK)), "both at a time"
    assert found.seconds == pytest.approx(3e9 / found.tokens_per_second)
    assert memory(work, rows=2 * found.micro_batch, more=True).total > USABLE * 80e9  # the largest that fits


def test_what_is_needed_is_chosen():
    def way(count: float, **changes):
        found = lay_out(work_without_data(count, None, TrainOptions()), Hardware(**{**vars(H100), **changes}))
        return found.sharded, found.checkpointed

    assert way(1e8, processes=1) == (False, False)
    assert way(1e9) == (False, False)
    assert way(8e9) == (True, False)
    assert way(8e9, link=20e9) == (True, True)  # larger micro-batches, so weights go round less often
    assert way(1.3e9, processes=1, memory=36e9) == (False, True)  # one process has nobody to share with
    forced = lay_out(work_without_data(1e9, None, TrainOptions()), H100, sharded=True, checkpointed=True)
    assert (forced.sharded, forced.checkpointed) == (True, True)


def test_what_does_not_fit_is_refused_with_what_would():
    work = work_without_data(8e9, None, TrainOptions())
    with pytest.raises(InputError, match=r"8,101,443,392 parameters .*--gpus 4 would be enough"):
        lay_out(work, Hardware(**{**vars(H100), "processes": 1}))
    assert lay_out(work, Hardware(**{**vars(H100), "processes": 4})).sharded
    with pytest.raises(InputError, match=r"^(?!.*would be enough).*smaller model"):
        lay_out(work, Hardware(8, 1e9, 1e12, 0.4))
    few = work_without_data(1e8, None, TrainOptions(batch_tokens=4096))
    with pytest.raises(InputError, match=r"2 sequences of 2,048, fewer than the 8 processes; --batch-tokens 16384"):
        lay_out(few, H100)


@pytest.mark.parametrize("wanted", [1e7, 1e8, 1e9, 8e9, 7e10])
def test_a_standard_shape_comes_near(wanted: float):
    width, layers = dry_run.standard_shape(wanted, 32768)
    count = parameters(decoder_config(32768, width, layers, 1, 128))["total"]
    assert abs(math.log(count / wanted)) < 0.15
    assert width % 64 == 0


def test_the_usual_step_grows():
    assert [dry_run.usual_step(n) for n in (1e8, 1.2e9, 8e9)] == [1 << 19, 1 << 20, 1 << 21]


def test_options_without_data():
    options = TrainOptions(d_model=64, layers=3, heads=2, vocab=512, length=128, batch_tokens=4096, accumulate=3)
    work = work_without_data(1e6, None, options)
    config = work.config
    assert (config.d_model, config.n_layers, config.n_heads, config.vocab_size, work.length) == (64, 3, 2, 512, 128)
    assert work.step_tokens == 3 * 4096 and work.tokens == 2e7
    assert work_without_data(1e6, None, TrainOptions(steps=7)).tokens == 7 * (1 << 19)
    with pytest.raises(InputError, match="--task needs data"):
        work_without_data(1e6, None, TrainOptions(task="classification"))
    with pytest.raises(InputError, match="no model can be made"):
        work_without_data(1e6, None, TrainOptions(d_model=64, heads=3))


def test_the_table_of_the_page_is_what_its_code_asserts():
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    asserted = re.findall(r'"(\| \d[^"]+ \|)"', page)
    assert len(asserted) == 3 and all(f"\n{row}\n" in page for row in asserted)
