"""A text for a text: an encoder-decoder, or a decoder alone, trained on sources with their targets behind them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headway.data.batches.batching import IGNORED, Batch, Examples, TargetKind
from headway.formats.hf.loaders import ExternalLoader, Original, class_loader, pipeline_loader
from headway.formats.parity import behind, worst
from headway.hub.generation_config import TargetRules, target_rules, warn_of_settings
from headway.models.transformer import Decoder, EncoderDecoder
from headway.tasks.checks import NEUTRAL, Found, Material, MaterialInputs, continuations, differs, ending
from headway.tasks.losses import LanguageModeling
from headway.tasks.readers import tokenizer_of
from headway.tasks.spec import TaskSpec
from headway.tasks.task import FolderTask
from headway.tasks.text_to_text.objective import Translation
from headway.tasks.text_to_text.pipeline import Translator
from headway.tasks.text_to_text.spec import SPEC
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective

if TYPE_CHECKING:
    from headway.tasks.inspection import Inside

OF_A_DECODER = pipeline_loader("text-generation", continuations, texts=8)
"""Of a decoder alone, which other programs know as a language model."""


@torch.no_grad()
def targets(original: Original, theirs: Any) -> Found:
    """Every token that is written greedily there is the likeliest here; the value is how far it is from that."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(original.directory, local_files_only=True)
    rules, start = original.pipe.rules, len(original.pipe.rules.start)
    value, problem = 0.0, None
    for text in original.texts:
        source = tokenizer(text, return_tensors="pt")["input_ids"]
        ids = theirs.generate(source, **NEUTRAL)  # (1, T)
        written = ids[0, start:].tolist()
        if not problem and tuple(ids[0, :start].tolist()) != rules.start:
            problem = f"begins a target with the tokens {ids[0, :start].tolist()}, expected {list(rules.start)}"
        problem = problem or ending(text, written, frozenset(rules.end))
        logits = original.model(source, ids[:, :-1])[0, start - 1 :]  # (NEW, V)
        logits[:, list(rules.forbidden)] = -torch.inf
        value = worst(value, behind(logits, ids[0, start:]))
    return value, problem or differs("writes other targets", value)


LOADER = class_loader("AutoModelForSeq2SeqLM", targets)


class TextToTextTask(FolderTask):
    """A text for a text."""

    def __init__(self, spec: TaskSpec):
        self.spec = spec
        self.pipeline_tag = "translation" if spec.name == "translation" else ""

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Translator:
        if isinstance(model, EncoderDecoder):
            tokenizer = Tokenizer.load(directory, rows=model.encoder_config.vocab_size)
            warn_of_settings(directory)
            return Translator(model, tokenizer, target_rules(directory, model.config.vocab_size), self.spec.name)
        tokenizer = tokenizer_of(model, directory)
        end = tokenizer.end_of_text
        rules = TargetRules(start=(), end=() if end is None else (end,))
        return Translator(model, tokenizer, rules, self.spec.name)

    def metric_needs(self) -> str | None:
        from headway.tasks.text_to_text.bleu import MISSING, bleu_scores

        return None if bleu_scores(["a"], ["a"]) else f"translators are compared by chrF. {MISSING}."

    def external_loader(self, pipe: Any, model: nn.Module, architecture: str) -> ExternalLoader | None:
        return OF_A_DECODER if isinstance(model, Decoder) else LOADER

    def inspect(self, pipe: Any, given: Any, target: str | None) -> "Inside":
        """The attention over a source and its target, by default the translation that greedy search finds."""
        from headway.tasks.inspection import check_length, check_text, look, rows, token_names

        check_text(pipe, given)
        pipe.hypotheses([])  # says when a language is to be chosen first
        source = pipe.tokenizer.encode(given, special=True) if given.strip() else []
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
        else:
            check_length("target", before, pipe.model.config.max_length)
            names = token_names(pipe.tokenizer.target, [*before, end])
            tokens = {"source": token_names(pipe.tokenizer, source), "target": names[:-1]}
            inputs = rows(pipe.model, source, before)
        return look(pipe.task, pipe.model, inputs, tokens, following=names[1:], target=target)

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        if isinstance(pipe.model, EncoderDecoder):
            return Translation(pipe.rules.start[0]), Examples(inputs, targets, TargetKind.SEQUENCE).together()
        wanted = [[IGNORED if i < len(text) // 2 else token for i, token in enumerate(text)] for text in inputs]
        following = [[*row[1:], row[0]] for row in wanted]
        return LanguageModeling(), Examples(inputs, following, TargetKind.TOKEN).together()

    def synthetic_data(self, pipe: Any, given: MaterialInputs) -> Material:
        from headway.tasks.checks import synthetic_table

        made = synthetic_table(
            pipe, given.folder, lambda _, text, target: {"text_column": text, "second_column": target}
        )
        if not pipe.tokenizer.lacks_target_language:
            return made
        return replace(made, options={**made.options, "target_language": min(pipe.tokenizer.languages)})


TASK = {name: TextToTextTask(spec) for name, spec in SPEC.items()}
