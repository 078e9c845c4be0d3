"""Texts into other texts: translation, summaries, and other tasks of an encoder-decoder; the alignment of their words.

Letters: T target tokens, S source tokens, H heads.
"""

import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from headway.data.batches.batching import sent
from headway.data.records.text_pairs import TextPairs
from headway.errors import InputError
from headway.generation.beam import Hypothesis
from headway.generation.sampling import check_number
from headway.hub.generation_config import TargetRules
from headway.models.analysis.maps import attention_maps
from headway.models.baselines import RecurrentEncoderDecoder
from headway.models.device import model_device
from headway.models.transformer import Decoder, EncoderDecoder
from headway.nn.global_state import plain_defaults
from headway.runtime.runtime import Runtime
from headway.tasks.frames import FrameAnswers
from headway.tasks.inputs import tell_lost, text_list
from headway.text.tokenizer import Tokenizer

STOPS = ".!?…؟۔।॥።"
SENTENCE = re.compile(
    rf"""(?:
      [{STOPS}]{{2,}}+ ["'”’»)\]]*+ (?=\s)
      | .+? (?: (?<![{STOPS}]) [{STOPS}]++ ["'”’»)\]]*+ (?=\s) | [。！？]+ ["”’」』）]* | $)
    ) \s*""",
    re.DOTALL | re.VERBOSE,
)
"""A sentence and the space behind it: to a stop before a space, or to one of those that no space follows.

A run of stops is looked at once, from its first one, so that time grows with the length of a text and not its square.
"""
WITHOUT_SPACE = ("。", "！", "？", "」", "』", "）")
"""Between sentences that end so no space is written."""

SHADES = " .:-=+*#%@"
"""From no attention to all of it."""
UNKNOWN = "?"
"""A word that the tokenizer does not know."""


@dataclass(frozen=True)
class Alignment:
    """How much of each target word's attention each source word has."""

    source: list[str]
    target: list[str]
    weights: np.ndarray
    """float32 (target words, source words); each row sums to one"""

    @staticmethod
    def joined(parts: "Sequence[Alignment]") -> "Alignment":
        """The alignment of several texts, one after the other, whose words have nothing to do with each other's."""
        source = [word for one in parts for word in one.source]
        target = [word for one in parts for word in one.target]
        weights = torch.block_diag(*(torch.from_numpy(one.weights) for one in parts)).numpy()
        return Alignment(source, target, weights)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"source": self.source, "target": self.target, "weights": self.weights.round(4).tolist()}

    def picture(self) -> list[str]:
        """It in lines: a row for each word written, darker where it attends more."""
        rows = [" ".join(SHADES[min(9, int(10 * weight))] for weight in row) for row in self.plain()["weights"]]
        written = (f"{word} {row}".rstrip() for word, row in zip(self.target, rows, strict=True))
        return ["  " + " ".join(self.source), *written]


class Translator(FrameAnswers):
    """An encoder-decoder, its tokenizers, and what a target begins and ends with.

    Or a decoder that was trained on sources with their targets behind them (``train --model decoder``).
    """

    def __init__(
        self,
        model: EncoderDecoder | Decoder,
        tokenizer: Tokenizer,
        rules: TargetRules,
        task: str = "translation",
    ):
        if not rules.end:
            raise InputError("no token ends a target: generation_config.json has no eos_token_id.")
        after = tokenizer.target_start  # a language that was chosen, else what the directory forces
        start = (*rules.start[:1], *after) if after else rules.start
        silent = tokenizer.target.without_token(model.config.vocab_size).difference(rules.end)
        self.rules = replace(rules, start=start, forbidden=tuple(sorted(silent.union(rules.forbidden))))
        self.model, self.tokenizer, self.task = model, tokenizer, task
        self.runtime = Runtime(model)
        if isinstance(model, EncoderDecoder):
            self.longest_source, self.longest_target = model.encoder_config.max_length, model.config.max_length
        else:
            self.longest_source = self.longest_target = model.config.max_length // 2

    def between(self, source: str | None = None, target: str | None = None) -> "Translator":
        """The same for another pair of languages, by their codes; each is left as it is unless given.

        Raises InputError for a language that the model does not have.
        """
        tokenizer = self.tokenizer.with_languages(source=source, target=target)
        translator = Translator(self.model, tokenizer, self.rules, self.task)
        translator.runtime = self.runtime
        return translator

    def __call__(self, text: str | Iterable[str], beam: int = 5, n_best: int = 1, length_penalty: float = 1.0) -> Any:
        """The translation of a text, or those of a list, in order; with ``n_best`` above 1 lists of {"text", "score"}.

        ``beam`` is the width of the search (1 is greedy); a score is ln p of a translation divided by its length to the
        power of ``length_penalty``.  A blank text stays as it is.  A text longer than the model reads is cut at the
        ends of its sentences, and put together again.  Raises InputError for a sentence that is too long by itself.
        """
        check_number("beam", beam, 1, 1000, "from 1 to 1000", whole=True)
        check_number("n_best", n_best, 1, beam, f"from 1 to {beam}, the width of the beam", whole=True)
        check_number("length_penalty", length_penalty, -10, 10, "from -10 to 10")
        texts, alone = text_list(text)
        hypotheses = self.hypotheses(texts, beam, n_best, length_penalty)
        results = [each if n_best > 1 else each[0]["text"] for each in hypotheses]
        return results[0] if alone else results

    def hypotheses(
        self,
        texts: Sequence[str],
        beam: int = 5,
        n_best: int = 1,
        length_penalty: float = 1.0,
        alignment: bool = False,
    ) -> list[list[dict[str, Any]]]:
        """For each text its ``n_best`` best translations, {"text", "score"}, best first.

        With ``alignment`` each has one, as ``Alignment`` or None for a blank text.
        """
        if self.tokenizer.lacks_target_language and len(self.rules.start) < 2:
            codes = sorted(self.tokenizer.languages)
            some = " or ".join(codes[:3]) + (f" or one of {len(codes) - 3} others" if len(codes) > 3 else "")
            raise InputError(f"the model writes many languages; choose one: --target-language {some}.")
        if alignment and isinstance(self.model, RecurrentEncoderDecoder):
            raise InputError("alignments need a Transformer's attention, and this model is recurrent.")
        if alignment and not isinstance(self.model, EncoderDecoder):
            raise InputError("this model is a decoder: it has no cross-attention to align words by.")
        tell_lost(texts, self.tokenizer)
        parts = [self.sources_of(text, n_best) for text in texts]
        sources = [source for each in parts for source in each]
        targets = self.runtime.search(sources, self.rules, beam=beam, n_best=n_best, length_penalty=length_penalty)
        if cut := sum(each[0].cut for each in targets):
            are = "1 translation is" if cut == 1 else f"{cut:,} translations are"
            warnings.warn(f"{are} cut off at the model's maximum length ({self.longest_target:,} tokens)", stacklevel=2)
        in_order, results = iter(targets), []
        for text, each in zip(texts, parts, strict=True):
            answers = list(islice(in_order, len(each)))
            joined = self._joined(text, answers, length_penalty)
            if alignment:
                for rank, one in enumerate(joined):
                    one["alignment"] = self._aligned(each, [answer[rank] for answer in answers])
            results.append(joined)
        return results

    def _joined(self, text: str, parts: list[list[Hypothesis]], length_penalty: float) -> list[dict[str, Any]]:
        """The answers for one text from those for its parts; several parts have one answer each."""
        if not parts:
            return [{"text": text, "score": 0.0}]
        answers = [[self.tokenizer.target.decode(one.ids) for one in part] for part in parts]
        if len(parts) == 1:
            return [{"text": t, "score": one.score} for t, one in zip(answers[0], parts[0], strict=True)]
        best = [part[0] for part in parts]
        length = sum(len(one.ids) + 1 for one in best)
        score = sum(one.log_probability for one in best) / length**length_penalty
        together = ""
        for answer, *_ in answers:
            together += answer if not together or together.endswith(WITHOUT_SPACE) else f" {answer}"
        return [{"text": together, "score": score}]

    def _aligned(self, sources: list[list[int]], answers: list[Hypothesis]) -> Alignment | None:
        """The alignment of an answer with its text; for a text in parts, one part after the other."""
        model: Any = self.model
        pairs = zip(sources, answers, strict=True)
        alignments = [align(model, self.tokenizer, source, one.ids, self.rules.start) for source, one in pairs]
        return Alignment.joined(alignments) if alignments else None

    def read(self, pairs: TextPairs) -> TextPairs:
        """The pairs whose sources can be translated, in parts where they are long (``sources_of``)."""
        readable = []
        for number, text in enumerate(pairs.sources):
            with suppress(InputError):
                self.sources_of(text)
                readable.append(number)
        return pairs if len(readable) == len(pairs) else pairs.part(np.array(readable, dtype=np.int64))

    def sources_of(self, text: str, n_best: int = 1) -> list[list[int]]:
        """The sources that a text is read as: one, none of a blank text, several of one that is too long.

        Raises InputError for a sentence that is too long by itself, and for several answers to a text in parts.
        """
        if not text.strip():
            return []
        whole = self.tokenizer.encode(text, special=True)
        if len(whole) <= self.longest_source:
            return [whole]
        if n_best > 1:
            raise InputError(
                f"{_shown(text)} has {len(whole):,} tokens, and the model reads {self.longest_source:,}: it would be "
                "split, and several translations of the parts cannot be joined; use --n-best 1."
            )
        sentences = SENTENCE.findall(text.strip())
        parts: list[list[int]] = []
        start = 0
        while start < len(sentences):
            ids, start = self._longest_part(sentences, start)
            parts.append(ids)
        return parts

    def _longest_part(self, sentences: Sequence[str], start: int) -> tuple[list[int], int]:
        """(the ids of as many sentences from ``start`` on as the model reads at once, the number of the next one).

        How many are tried doubles, and is then halved in between: short sentences are not encoded once for each other.
        """

        def encoded(end: int) -> list[int]:
            return self.tokenizer.encode("".join(sentences[start:end]).strip(), special=True)

        end, ids = start + 1, encoded(start + 1)
        if len(ids) > self.longest_source:
            raise InputError(
                f"the sentence {_shown(sentences[start].strip())} has {len(ids):,} tokens, and the model reads "
                f"{self.longest_source:,}; split it."
            )
        over = len(sentences) + 1  # so many are too long, or do not exist
        step = 1
        while over - end > 1:
            tried = min(end + step, (end + over) // 2 if over <= len(sentences) else len(sentences))
            if len(more := encoded(tried)) <= self.longest_source:
                end, ids, step = tried, more, 2 * step
            else:
                over = tried
        return ids, end


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


@plain_defaults()
def align(
    model: EncoderDecoder, tokenizer: Tokenizer, source: Sequence[int], target: Sequence[int], start: Sequence[int]
) -> Alignment:
    """The alignment of a source's ids with a target's; ``start`` is what the target begins with.

    The weights are those of the cross-attention in the last layer but one, where they follow the words best (Garg et
    al. 2019), averaged over its heads: a source word has the sum of its tokens, a target word the mean of its own, and
    what goes to tokens that are no words (the end of a sentence) is left out.
    """
    device = model_device(model)
    maps = attention_maps(model, sent([source], device), sent([[*start, *target[:-1]]], device))["cross"]
    heads = maps[max(0, len(maps) - 2)][0]  # (H, T, S)
    first = len(start) - 1
    layer = heads.mean(dim=0)[first : first + len(target)].cpu()  # (T, S), a row for each token of the target, or none
    words, written = words_of(source, tokenizer), words_of(target, tokenizer.target)
    written_by, read_by = _owners(written, len(target)), _owners(words, len(source))
    weights = written_by / np.maximum(1, written_by.sum(axis=1, keepdims=True)) @ layer.float().numpy() @ read_by.T
    total = weights.sum(axis=1, keepdims=True)
    return Alignment([w for w, _ in words], [w for w, _ in written], weights / np.where(total > 0, total, 1))


def _owners(words: Sequence[tuple[str, list[int]]], n_tokens: int) -> np.ndarray:
    """Which tokens each word has: float32 (words, tokens), 1 or 0."""
    owners = np.zeros((len(words), n_tokens), dtype=np.float32)
    for row, (_, places) in enumerate(words):
        owners[row, places] = 1
    return owners


def words_of(ids: Sequence[int], tokenizer: Tokenizer) -> list[tuple[str, list[int]]]:
    """The words of a text's ids, as spaces divide them, each with the places of its tokens; special ones left out."""
    words: list[tuple[str, list[int]]] = []
    tokens = tokenizer.tokens
    for place, token in enumerate(ids):
        if token in tokenizer.special_ids and token != tokenizer.unknown:
            continue
        begins = tokens[token].startswith(("Ġ", "▁", " ", "Ċ")) or tokenizer.kind in ("word", "char")
        if begins or not words:
            words.append(("", []))
        words[-1][1].append(place)
    named = [(tokenizer.decode([ids[place] for place in places]).strip(), places) for _, places in words]
    return [(word or UNKNOWN, places) for word, places in named if word or ids[places[0]] == tokenizer.unknown]
