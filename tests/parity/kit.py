"""What every parity test does: tiny models of transformers, redrawn at random, against ours, in both directions."""

import json

import torch
import transformers

from headway.hub.directory import load_model, save_model

B, T, V, C = 3, 13, 31, 5
BOUND = 1e-4
"""The largest difference between logits in float32."""


def redraw(model, std=0.3, seed=0):
    """Every parameter and every stored buffer from a normal, norms around one so that signals keep their size."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                around = float("norm" in name.lower() and name.endswith("weight"))
                tensor.normal_(around, std, generator=generator)
    return model.eval()


def theirs(kind, settings, std=0.3):
    """A redrawn model of transformers: the class by its name, with these settings of its configuration."""
    cls = getattr(transformers, kind)
    return redraw(cls(cls.config_class(**settings)), std)


def inputs(side="none", vocabulary=V, length=T, seed=1):
    """Ids, and the mask of a batch of mixed lengths; "none" is a batch without padding."""
    ids = torch.randint(3, vocabulary, (B, length), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones(B, length, dtype=torch.bool)
    for row, padding in ((1, 4), (2, 7)) if side != "none" else ():
        mask[row, slice(length - padding, None) if side == "right" else slice(padding)] = False
    return ids, mask


@torch.no_grad()
def difference(ours, other, side="none", vocabulary=V):
    """The largest difference between the answers for real tokens; theirs must spread enough to show one.

    Models that take a source and a target are given two batches, the source with padding on that side.
    """
    ids, mask = inputs(side, vocabulary)
    given = None if side == "none" else mask
    if other.config.is_encoder_decoder:
        target, _ = inputs("none", vocabulary, length=11, seed=2)
        found = ours(ids, target, given)
        answer = other(input_ids=ids, attention_mask=mask.long(), decoder_input_ids=target)
        mask = torch.ones_like(target, dtype=torch.bool)
    else:
        found = ours(ids, given)
        answer = other(input_ids=ids, attention_mask=mask.long())
    expected = answer.logits if "logits" in answer else answer.last_hidden_state
    if found.dim() == 3:
        found, expected = found[mask], expected[mask]
    assert found.shape == expected.shape
    assert expected.std() >= 1, f"the answers spread by {expected.std():.2f} only"
    return float((found - expected).abs().max())


def check_reads(model, directory, sides=("none", "right", "left")):
    """What they save is loaded here with the same answers."""
    model.save_pretrained(directory)
    ours = load_model(directory)
    assert not ours.training
    for side in sides:
        assert difference(ours, model, side, model.config.vocab_size) <= BOUND, side
    return ours


def check_writes(model, directory, sides=("none", "right", "left")):
    """Loaded here, changed and saved; they load it with every weight known, none missing, and the same answers."""
    model.save_pretrained(directory / "theirs")
    ours = load_model(directory / "theirs")
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    save_model(ours, directory / "ours")
    back, report = type(model).from_pretrained(directory / "ours", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    for side in sides:
        assert difference(ours, back.eval(), side, model.config.vocab_size) <= BOUND, side
    again = load_model(directory / "ours")
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), again.parameters(), strict=True))


def check_greedy(model, directory, new_tokens=11):
    """Cached greedy ids of a decoder equal those of their ``generate``; a batch of mixed lengths equals single ones."""
    model.save_pretrained(directory)
    ours, (ids, mask) = load_model(directory), inputs("left", model.config.vocab_size)
    words = {"max_new_tokens": new_tokens, "do_sample": False, "use_cache": True, "eos_token_id": None}
    for row in range(B):
        prompt = ids[row][mask[row]][None]
        expected = model.generate(prompt, attention_mask=torch.ones_like(prompt), pad_token_id=0, **words)
        state, text = ours.new_state(), prompt
        for _ in range(new_tokens):
            new = prompt if text is prompt else text[:, -1:]
            text = torch.cat([text, ours.next_logits(new, state=state).argmax(dim=-1, keepdim=True)], dim=1)
        assert text.tolist() == expected.tolist()


def edit_config(directory, **changes):
    """Change a saved configuration."""
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def check_mutation(model, directory, **wrong):
    """The bound is worth something: the right configuration keeps it, a wrong number in it does not."""
    check_reads(model, directory, sides=("none",))
    edit_config(directory, **wrong)
    assert difference(load_model(directory), model, "none", model.config.vocab_size) > BOUND
