"""What every parity test does: tiny models of transformers, redrawn at random, against ours, in both directions."""

import json

import torch
import transformers

from headway.generation.beam import beam_search
from headway.generation.decode import Conditional, decode
from headway.generation.sampling import Sampling
from headway.hub.directory import load_model, save_model
from headway.hub.generation_config import target_rules

B, T, V, C = 3, 13, 31, 5
BOUND = 1e-4
"""The largest difference between logits in float32."""


def redraw(model, std=0.3, seed=0):
    """Every parameter and every stored buffer from a normal, norms around one so that signals keep their size."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                around = float(("norm" in name.lower() or ".ln_" in f".{name}") and name.endswith("weight"))
                tensor.normal_(around, std, generator=generator)
    return model.eval()


def theirs(kind, settings, std=0.3):
    """A redrawn model of transformers: the class by its name, with these settings of its configuration."""
    cls = getattr(transformers, kind)
    return redraw(cls(cls.config_class(**settings)), std)


def inputs(side="none", vocabulary=V, length=T, seed=1, pad=None):
    """Ids, and the mask of a batch of mixed lengths; "none" is a batch without padding.

    With ``pad`` the ids say so too, for models that tell positions by them; else padding is ids like any others.
    """
    ids = torch.randint(3, vocabulary, (B, length), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones(B, length, dtype=torch.bool)
    for row, padding in ((1, 4), (2, 7)) if side != "none" else ():
        mask[row, slice(length - padding, None) if side == "right" else slice(padding)] = False
    return (ids if pad is None else ids.masked_fill(~mask, pad)), mask


@torch.no_grad()
def difference(ours, other, side="none", vocabulary=V):
    """The largest difference between the answers for real tokens; theirs must spread enough to show one.

    Models that take a source and a target are given two batches, the source with padding on that side.
    """
    counts_ids = other.config.model_type in ("roberta", "xlm-roberta", "m2m_100") or hasattr(other, "score")
    ids, mask = inputs(side, vocabulary, pad=other.config.pad_token_id if counts_ids else None)
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


def check_writes(model, directory, sides=("none", "right", "left"), exact=True):
    """Loaded here, changed and saved; they load it with every weight known, none missing, and the same answers.

    Read here again, weights are what they were; to rounding, where the table of names multiplies some (not ``exact``).
    """
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
    near = 0.0 if exact else 1e-6
    assert all(torch.allclose(a, b, near, 0.0) for a, b in zip(ours.parameters(), again.parameters(), strict=True))


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


def check_decode(model, directory, new_tokens=11, together=True):
    """Cached greedy ids by headway.generation, for a batch of prompts of mixed lengths, equal those of ``generate``.

    Of theirs, each prompt is continued alone, and (``together``) in a batch.
    """
    model.save_pretrained(directory)
    ours, (ids, mask) = load_model(directory), inputs("left", model.config.vocab_size)
    rows = [ids[row][mask[row]][None] for row in range(B)]
    context = ids.shape[1] + new_tokens
    prompts = [row[0].tolist() for row in rows]
    steps = list(decode(ours, prompts, Sampling(temperature=0), max_tokens=new_tokens, context=context))
    found = [[step[row] for step in steps] for row in range(B)]
    words = {"max_new_tokens": new_tokens, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    alone = [model.generate(row, attention_mask=torch.ones_like(row), **words)[0, row.shape[1] :] for row in rows]
    assert found == [row.tolist() for row in alone]
    if together:
        assert found == model.generate(ids, attention_mask=mask.long(), **words)[:, ids.shape[1] :].tolist()


def check_targets(model, directory, new_tokens=11, **settings):
    """Cached greedy targets of an encoder-decoder equal those of ``generate``; a batch of mixed lengths, single ones.

    ``settings`` are of the generation; the directory tells them, and what is saved here makes ``generate`` do the same.
    Random models say one token again and again; a penalty makes them say others.
    """
    settings = {"repetition_penalty": 9.0, **settings}
    sampling = Sampling(temperature=0, repetition_penalty=settings["repetition_penalty"])
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(directory / "theirs")
    ours, rows = load_model(directory / "theirs"), model.config.vocab_size
    rules = target_rules(directory / "theirs", rows)
    save_model(ours, directory / "ours")
    assert target_rules(directory / "ours", rows) == rules
    back = type(model).from_pretrained(directory / "ours").eval()
    (ids, mask), (end,) = inputs("right", model.config.vocab_size), rules.end
    sources = [ids[row][mask[row]].tolist() for row in range(B)]
    forced = (model.generation_config.forced_eos_token_id is not None) + len(rules.start) - 1
    words = {"max_tokens": new_tokens - forced, "context": new_tokens + 1, "end": end, "forbidden": rules.forbidden}

    def targets(sources):
        starts = [rules.start] * len(sources)
        found = [[] for _ in sources]
        for step in decode(Conditional(ours, sources), starts, sampling, **words):
            for row, token in step.items():
                found[row].append(token)
        return found

    expected, limits = [], {"max_new_tokens": new_tokens, "do_sample": False}
    for source in sources:
        written = [writer.generate(torch.tensor([source]), **limits) for writer in (model, back)]
        assert torch.equal(*written)
        whole = written[0][0].tolist()
        assert tuple(whole[: len(rules.start)]) == rules.start
        new = whole[len(rules.start) :]
        expected.append(new[: new.index(end)] if end in new else new)
    assert len({token for target in expected for token in target}) > 8, "too monotonous to show anything"
    assert expected[0] != expected[1] != expected[2], "the source does not show"
    assert [targets([source])[0] for source in sources] == expected
    assert targets(sources) == expected


def check_beams(model, directory, beam=4, new_tokens=13, length_penalty=1.0, n_best=None):
    """Hypotheses of a beam search with their scores are those of ``generate``; sources of mixed lengths, together.

    As many as the beam is wide, or ``n_best``.  Gives their lengths.
    """
    n_best = n_best or beam
    model.generation_config.update(repetition_penalty=1.0, forced_eos_token_id=None, max_length=None)
    model.save_pretrained(directory)
    ours = load_model(directory)
    rules = target_rules(directory, ours.config.vocab_size)
    ids, mask = inputs("right", model.config.vocab_size)
    sources = [ids[row][mask[row]].tolist() for row in range(B)]
    width = {"beam": beam, "n_best": n_best, "max_tokens": new_tokens, "length_penalty": length_penalty}
    starts = [rules.start] * B
    found = beam_search(Conditional(ours, sources), starts, end=rules.end, forbidden=rules.forbidden, **width)
    lengths = set()
    for source, hypotheses in zip(sources, found, strict=True):
        answer = model.generate(
            torch.tensor([source]), num_beams=beam, num_return_sequences=n_best, max_new_tokens=new_tokens,
            do_sample=False, length_penalty=length_penalty, early_stopping=False, output_scores=True,
            return_dict_in_generate=True,
        )  # fmt: skip
        written = [row.tolist()[len(rules.start) :] for row in answer.sequences]
        written = [row[: row.index(rules.end[0])] if rules.end[0] in row else row for row in written]
        assert [list(one.ids) for one in hypotheses] == written
        scores = answer.sequences_scores.tolist()
        assert all(abs(one.score - score) <= BOUND for one, score in zip(hypotheses, scores, strict=True))
        lengths |= {len(one.ids) for one in hypotheses}
    return lengths


def edit_config(directory, **changes):
    """Change a saved configuration."""
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def check_mutation(model, directory, **wrong):
    """The bound is worth something: the right configuration keeps it, a wrong number in it does not."""
    check_reads(model, directory, sides=("none",))
    edit_config(directory, **wrong)
    assert difference(load_model(directory), model, "none", model.config.vocab_size) > BOUND
