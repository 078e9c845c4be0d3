"""Resize the token tables of an existing model.

Letters: N old tokens, M new size, D width.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from headway.models.adapt.freeze import change_configs
from headway.models.heads import TokenHead
from headway.models.transformer import Stack


def resize_vocabulary(model: nn.Module, n: int, rows: Mapping[int, Sequence[int]]) -> nn.Module:
    """Grow every token table of a model to ``n`` rows, in place: embeddings, output matrices and their biases.

    ``rows`` maps a new token to the old tokens it was merged from: its row is the mean of theirs.  A token that maps to
    none, or is not in ``rows``, gets the mean of all old rows, which changes the probabilities of the other tokens
    least (Hewitt 2021).  ``rows`` may also name existing rows: tables often have more rows than their tokenizer has
    tokens.  Tied tables stay tied, and every configuration in the model gets the new size.  The tables record their new
    rows as ``new_rows``.  Raises ValueError for a model with tables of different sizes, for fewer rows than it has, and
    for an id outside the vocabulary.
    """
    tables, heads = _tables(model)
    sizes = {len(table.weight) for table in tables} | {head.out_features for head in heads}
    if len(sizes) != 1:
        raise ValueError(f"tables of {sorted(sizes)} tokens cannot be grown to one size")
    old = sizes.pop()
    if n < old:
        raise ValueError(f"{n} tokens are fewer than the {old} of the model")
    strange = [number for number, parts in rows.items() if not 0 <= number < n or not all(0 <= p < old for p in parts)]
    if strange:
        raise ValueError(f"token {strange[0]} and its parts {list(rows[strange[0]])} are not of {n} tokens")
    wanted = {**{number: () for number in range(old, n)}, **rows}
    grown: dict[int, nn.Parameter] = {}

    def larger(p: Tensor) -> nn.Parameter:
        if id(p) not in grown:
            before = p.detach()
            table = torch.cat([before, before.new_empty(n - old, *before.shape[1:])])  # (M, D), or (M,)
            middle = before.mean(dim=0)
            for number, parts in wanted.items():
                table[number] = before[list(parts)].mean(dim=0) if parts else middle
            grown[id(p)] = nn.Parameter(table, requires_grad=p.requires_grad)
            grown[id(p)].new_rows = sorted(wanted)  # type: ignore[attr-defined]
        return grown[id(p)]

    for table in tables:
        table.weight, table.num_embeddings = larger(table.weight), n
    for head in heads:
        head.weight, head.out_features = larger(head.weight), n
        if head.bias is not None:
            head.bias = larger(head.bias)
    change_configs(model, vocab_size=n)
    return model


def train_new_rows(model: nn.Module) -> nn.Module:
    """Train the rows of new tokens in otherwise frozen tables, since they have never been trained; in place.

    The gradient of the other rows is zero, so that an optimiser without weight decay leaves them unchanged.
    ``trained_rows`` lists the trained rows.
    """
    tables, heads = _tables(model)
    for p in dict.fromkeys([*(table.weight for table in tables), *(p for head in heads for p in head.parameters())]):
        new = getattr(p, "new_rows", None)
        if not new or p.requires_grad:
            continue
        p.requires_grad_(True)
        p.trained_rows = new  # type: ignore[attr-defined]
        p.register_hook(partial(_only, torch.tensor(new)))
    return model


def _only(rows: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of some rows, zero for the others."""
    kept = rows.to(gradient.device)
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        index, values = gradient.indices(), gradient.values()
        near = torch.isin(index[0], kept)
        kept_part = index[:, near], values[near]
        return torch.sparse_coo_tensor(*kept_part, gradient.shape, is_coalesced=True, check_invariants=False)
    return torch.zeros_like(gradient).index_copy_(0, kept, gradient.index_select(0, kept))


def _tables(model: nn.Module) -> tuple[list[nn.Embedding], list[nn.Linear]]:
    """The token embeddings, and the matrices that compute logits over tokens."""
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    embeddings = [getattr(stack.embedding, "tokens", None) for stack in stacks]
    tables = [table for table in embeddings if isinstance(table, nn.Embedding)]
    return tables, [module.matrix for module in model.modules() if isinstance(module, TokenHead)]
