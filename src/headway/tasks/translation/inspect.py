"""What a translator attends to: in its source, in its target, and from the one to the other."""

from headway.models.transformer import Decoder
from headway.tasks.common.inside import Inside
from headway.tasks.common.inspection import check_length, check_text, look, rows, token_names
from headway.tasks.translation.pipeline import Translator


def inspect(pipe: Translator, text: str, target: str | None) -> Inside:
    """The attention over a source and its target, by default the translation that greedy search finds.

    Raises InputError where a language is to be chosen first, and for a text or target that has no tokens or too many.
    """
    check_text(pipe, text)
    pipe.hypotheses([])  # says when a language is to be chosen first
    source = pipe.tokenizer.encode(text, special=True) if text.strip() else []
    check_length("text", source, pipe.longest_source)
    if target is None:
        written = pipe.runtime.search([source], pipe.rules, beam=1)[0][0].ids
        target = pipe.tokenizer.target.decode(written)
    else:
        written = tuple(pipe.tokenizer.target.encode(target))
    before, end = [*pipe.rules.start, *written], pipe.rules.end[0]
    if isinstance(pipe.model, Decoder):  # which goes on from the source itself
        both = [*source, *before]
        check_length("text with its target", both, pipe.model.config.max_length)
        names = token_names(pipe.tokenizer, [*both, end])
        inputs, tokens = rows(pipe.model, both), {"text": names[:-1]}
        return look(pipe.task, pipe.model, inputs, tokens, following=names[1:], target=target)
    check_length("target", before, pipe.model.config.max_length)
    names = token_names(pipe.tokenizer.target, [*before, end])
    tokens = {"source": token_names(pipe.tokenizer, source), "target": names[:-1]}
    inputs = rows(pipe.model, source, before)
    return look(pipe.task, pipe.model, inputs, tokens, following=names[1:], target=target)
