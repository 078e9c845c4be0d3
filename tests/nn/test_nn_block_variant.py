"""A variant of the block is a subclass with a forward of its own: the model around it does not know."""

from typing import Any

import torch
from torch import Tensor, nn

from headway.generation.decode import decode
from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder, block
from headway.nn.block import Block

CONFIG = TransformerConfig(23, d_model=20, n_heads=5, n_layers=3, max_length=64)


class ParallelBlock(Block):
    """x + attention(norm(x)) + feedforward(norm(x)) (Chowdhery et al. 2022)."""

    def forward(self, x: Tensor, *, mask=None, causal=False, rotation=None, cache=None, **source: Any) -> Tensor:
        heads = self.attention.layer(self.attention.norm(x), mask=mask, causal=causal, rotation=rotation, cache=cache)
        return self.feedforward(x) + self.attention.dropout(heads)


def models() -> tuple[Decoder, Decoder]:
    """A plain decoder, and one of parallel blocks with the same weights."""
    torch.manual_seed(3)
    plain, variant = Decoder(CONFIG).eval(), Decoder(CONFIG).eval()
    variant.stack.blocks = nn.ModuleList(block(CONFIG, layer, None, ParallelBlock) for layer in range(CONFIG.n_layers))
    variant.load_state_dict(plain.state_dict())
    return plain, variant.eval()


def test_its_forward_is_the_one_that_is_computed():
    plain, variant = models()
    x = torch.randn(2, 7, 20)
    first: Any = variant.stack.blocks[0]
    norms = first.attention.norm(x), first.feedforward.norm(x)
    expected = x + first.attention.layer(norms[0], causal=True) + first.feedforward.layer(norms[1])
    torch.testing.assert_close(first(x, causal=True), expected)
    ids = torch.randint(23, (2, 7))
    assert (plain(ids) - variant(ids)).abs().max() > 1e-3


def test_it_writes_with_the_cache_and_learns():
    _, variant = models()
    prompts = [[1, 2, 3], [4]]
    texts = [list(prompt) for prompt in prompts]
    for step in decode(variant, prompts, Sampling(temperature=0), max_tokens=9, context=64):
        for row, token in step.items():
            texts[row].append(token)
    for text, prompt in zip(texts, prompts, strict=True):
        best = variant(torch.tensor([text[:-1]]))[0].argmax(dim=-1).tolist()
        assert best[len(prompt) - 1 :] == text[len(prompt) :]
    variant(torch.tensor([texts[0]])).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in variant.parameters())
