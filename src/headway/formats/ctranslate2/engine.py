"""Directories of ``headway export --to ctranslate2`` in CTranslate2, on the CPU.

Of an encoder CTranslate2 computes the vectors of the tokens, and torch the head; decoders and translators write by
CTranslate2's own loops.  Letters: B rows, T length, D width, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.generation.beam import Hypothesis
from headway.generation.decode import Steps
from headway.io.strict_json import read_list
from headway.models.transformer import Decoder, EncoderDecoder
from headway.runtime.engine import AT_ONCE, OF_TOKENS, Engine, Inputs, Lacks, Searching, Writing, unpadded

SIDES = ("source", "target")
"""Of a translator, which has a file of tokens by their number for each, or one where both have the same."""


class _CTranslate2(Engine):
    """An export that CTranslate2 has opened, by its class ``opener``."""

    opener: str

    def __init__(self, precision: str, directory: Path, model: Any):
        import ctranslate2

        super().__init__("ctranslate2", precision, model)
        ctranslate2.set_log_level(40)  # errors: it warns of types that the processor computes in float32
        self.opened: Any = getattr(ctranslate2, self.opener)(
            str(directory), device="cpu", intra_threads=torch.get_num_threads(), inter_threads=1
        )


class EncoderEngine(_CTranslate2):
    """An encoder: CTranslate2's vectors, and the head of the torch model on them."""

    opener = "Encoder"

    def outputs(self, inputs: Inputs) -> dict[str, Tensor]:
        """The vectors of the tokens, and what the head makes of them."""
        ids, mask, segments, _ = inputs
        types = None if segments is None else unpadded(segments, mask)
        hidden = self.opened.forward_batch(inputs.rows, token_type_ids=types).last_hidden_state
        x = torch.from_numpy(np.array(hidden))  # (B, T, D)
        if (head := self.model.head) is None:
            return {OF_TOKENS: x}
        return {OF_TOKENS: x, self.result: head(x, torch.ones(ids.shape, dtype=torch.bool) if mask is None else mask)}


class GeneratorEngine(_CTranslate2):
    """A decoder that continues texts greedily; what it chose cannot be drawn again from a seed."""

    opener = "Generator"

    def __init__(self, precision: str, directory: Path, model: Any):
        super().__init__(precision, directory, model)
        self._names: list[str] = read_list(directory / "vocabulary.json")

    def outputs(self, inputs: Inputs) -> dict[str, Tensor]:
        """The logits of every token; 0 where there is padding."""
        found = np.array(self.opened.forward_batch(inputs.rows))  # (B, T, V), with padding on the right
        return {self.result: inputs.at_tokens(torch.from_numpy(found), found.shape[2])}

    def write(self, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
        """New tokens by row: of one prompt as they come, of several when all are written."""
        sampling = how.sampling
        if sampling.temperature > 0 or sampling.repetition_penalty != 1.0:
            raise Lacks("sample as Headway does (a temperature above 0, a penalty of repetitions)")
        if any(len(prompt) + how.max_tokens > how.context for prompt in prompts):
            raise Lacks(f"go on beyond the {how.context} tokens that the model reads at once")
        if not all(prompts):
            raise ValueError(f"prompt {[bool(one) for one in prompts].index(False)} has no tokens: give at least one")
        options: dict[str, Any] = {
            "max_length": how.max_tokens,
            "end_token": list(how.end) or [len(self._names)],  # a number that no token has: nothing ends the text
            "suppress_sequences": [[self._names[token]] for token in how.forbidden] or None,
        }
        named = [[self._names[token] for token in prompt] for prompt in prompts]
        return self._stream(named[0], how, options) if len(named) == 1 else self._several(named, how, options)

    def _stream(self, prompt: list[str], how: Writing, options: dict[str, Any]) -> Steps:
        tokens = self.opened.generate_tokens(prompt, **options)
        try:
            for token in tokens:
                if token.token_id in how.end or (yield {0: token.token_id}):
                    break
        finally:
            tokens.close()

    def _several(self, prompts: list[list[str]], how: Writing, options: dict[str, Any]) -> Steps:
        """Those of one length together: of a longer one, CTranslate2 gives the rest of the prompt as if it was new."""
        written: dict[int, list[int]] = {}
        for length in sorted(set(map(len, prompts))):
            rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
            results = self.opened.generate_batch(
                [prompts[row] for row in rows], max_batch_size=AT_ONCE, include_prompt_in_result=False, **options
            )
            written |= {row: result.sequences_ids[0] for row, result in zip(rows, results, strict=True)}
        for at in range(how.max_tokens):
            step = {row: tokens[at] for row, tokens in written.items() if at < len(tokens)}
            if not step:
                return
            for row in (yield step) or ():
                written.pop(row, None)


class TranslatorEngine(_CTranslate2):
    """An encoder-decoder; a search with beams ends when as many targets are finished, mostly where Headway's does."""

    opener = "Translator"

    def __init__(self, precision: str, directory: Path, model: Any):
        super().__init__(precision, directory, model)
        shared = directory / "shared_vocabulary.json"
        files = [shared] * 2 if shared.is_file() else [directory / f"{side}_vocabulary.json" for side in SIDES]
        self._sources, self._targets = map(read_list, files)
        self._numbers = {name: number for number, name in enumerate(self._targets)}

    def search(self, sources: Sequence[Sequence[int]], how: Searching) -> list[list[Hypothesis]]:
        """The best targets of each source, those of one limit together."""
        if len(how.rules.end) > 1:
            raise Lacks("end a target at any of several tokens")
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for limit in sorted(set(how.limits)):
            rows = [row for row, own in enumerate(how.limits) if own == limit]
            for row, answers in zip(rows, self._search([sources[row] for row in rows], limit, how), strict=True):
                found[row] = answers
        return found

    def _search(self, sources: Sequence[Sequence[int]], limit: int, how: Searching) -> list[list[Hypothesis]]:
        prefix = [self._targets[number] for number in how.rules.start[1:]]
        results = self.opened.translate_batch(
            [[self._sources[number] for number in source] for source in sources],
            target_prefix=[prefix] * len(sources) if prefix else None,
            max_batch_size=max(1, AT_ONCE // how.beam),
            beam_size=how.beam,
            num_hypotheses=how.beam if how.length_penalty else how.n_best,  # without a penalty the best ones end first
            length_penalty=how.length_penalty,
            min_decoding_length=0,
            max_decoding_length=limit + len(prefix),
            max_input_length=0,
            return_scores=True,
        )
        found = []
        for result in results:
            pairs = zip(result.hypotheses, result.scores, strict=True)
            each = [self._hypothesis(tokens[len(prefix) :], score, limit, how) for tokens, score in pairs]
            found.append(sorted(each, key=lambda one: -one.score)[: how.n_best])
        return found

    def _hypothesis(self, tokens: Sequence[str], score: float, limit: int, how: Searching) -> Hypothesis:
        """``score`` is CTranslate2's, in whose lengths what a target begins with counts too."""
        cut = len(tokens) >= limit
        ids = tuple(self._numbers[token] for token in tokens)
        length = len(ids) + (not cut)
        total = score * (length + len(how.rules.start) - 1) ** how.length_penalty
        return Hypothesis(ids, total, total / length**how.length_penalty, cut)


def open_engine(name: str, directory: Path, model: Any, precision: str) -> Engine:
    """The engine of an export."""
    return engine_class(model)(precision, directory, model)


def engine_class(model: Any) -> type[_CTranslate2]:
    """The engine of a model, whose ``opener`` is the class of CTranslate2 that opens its export."""
    if isinstance(model, EncoderDecoder):
        return TranslatorEngine
    return GeneratorEngine if isinstance(model, Decoder) else EncoderEngine
