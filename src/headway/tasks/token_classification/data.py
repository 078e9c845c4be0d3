"""Learn the tag of each word: sentences as rows of ids with a target for the first token of each word."""

import math
import random
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, tee
from typing import Any

import numpy as np

from headway.data.batches.cache import cache_key
from headway.data.batches.encoded import encoded_rows
from headway.data.formats.tags import OUTSIDE, labels_for, parts
from headway.data.open.columns import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.rows import counted
from headway.data.records.split import few
from headway.data.records.table import Table
from headway.data.records.tagged import Tagged, read_tagged, sentences
from headway.data.records.words import Words, first_tokens, learnt
from headway.errors import InputError
from headway.models.heads import Gives
from headway.models.transformer import Encoder
from headway.runtime.windows import frame
from headway.tasks.checks import LABEL, LONGEST_TEXT, ROWS, TEXT, Material, MaterialInputs, read_texts, table
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.inputs import usual_longest
from headway.tasks.labels import continued_classes
from headway.tasks.rows import EncodedTargets, measured_rows
from headway.tasks.rows_data import RowsData
from headway.tasks.task import TaskInputs
from headway.tasks.token_classification.objective import Counts, TokenClassification
from headway.tasks.token_classification.task import Tagger
from headway.text.tokenizer import Tokenizer
from headway.training.base import Base
from headway.training.loop.schedule import mean_accumulation
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan

LONGEST = 512
"""Tokens: longer sentences are read in several rows unless ``--length`` says so."""

STEPS, LEAST_PASSES, MOST_PASSES = 200, 4, 20
"""A pretrained model is trained for about so many steps, in so many passes over the sentences."""
MOST_WORDS = 1 << 18
"""Distinct words whose tags the baseline counts at a time."""


class TokenClassificationData(RowsData):
    """An encoder with a classifier of tokens, from scratch or from a base, on sentences with a tag for each word."""

    unit = "sentences"
    held_out_by = "10 %, classes kept, duplicates on one side"
    tokenizer_kind = "wordpiece"
    lowercase = False  # names are often new words, recognised by their spelling
    head = Gives.TOKEN

    def checked(self, base: Base) -> Base:
        if not isinstance(base.model, Encoder):
            raise InputError(f"{base.path}: is not an encoder; name one such as BERT.")
        return base

    def read(self, given: TaskInputs) -> tuple[Tagged, Tagged | None]:
        policy = self.options.data.on_bad_row
        tagged, other = read_tagged(given.source, given.found, policy), None
        if len(tagged.tags) < 2:
            only = next(iter(tagged.tags))
            raise InputError(
                f"{tagged.name}: every tag is {only!r}, so there is nothing to learn; expected two tags or more."
            )
        self.labels, self.new_head = continued_classes(given, labels_for(tagged.tags), Gives.TOKEN)
        if given.held_out is not None:
            other = read_tagged(given.held_out, given.found, policy, whole=tagged.whole)
            other.check_labels(self.labels, "the tags of the training data")
            tagged.warnings.extend(other.warnings)
        self._where = self.held_out_by if given.held_out is None else given.held_out.name
        return tagged, other

    def texts(self, rows: Tagged) -> tuple[Iterable[str], int]:
        return (one.text for one in rows), int(rows.characters.sum(dtype=np.int64))

    def encode(self, train: Tagged, held_out: Tagged) -> None:
        uncut = encoded(train, self.tokenizer, self.labels)
        self.longest = self.reading(usual_longest(uncut.lengths - uncut.around, LONGEST))
        self.train = uncut.cut(self.longest)
        self.held_out = encoded(held_out, self.tokenizer, self.labels).cut()
        self.encoded = self.train, self.held_out
        if not len(self.train.ids) or not len(self.held_out.ids):
            raise nothing_kept(train.name)
        if cut := uncut.too_long(self.longest).sum():
            self.warnings.append(
                f"{cut:,} sentences exceed {self.longest} tokens and are read in parts (--length to change)"
            )
        if lost := uncut.lost:
            self.warnings.append(f"the tokenizer drops all of {lost:,} words; they are not counted")

    def facts_of(self, rows: Tagged) -> dict[str, Any]:
        train, held_out = self.parts.train, self.parts.held_out
        words, entities = learnt(train), Counter[str]()  # of each type, or words if tags are of single words
        for tag, count in rows.tags.items():
            begins, kind = parts(tag, whole=rows.whole)
            if begins in "BS" and kind != OUTSIDE:
                entities[kind] += count
        self._decision = _words_decision(words, held_out) if words.record else None
        return {
            "classes": dict(entities.most_common()),
            "train": f"{len(train):,} sentences with {train.words.sum():,} words",
            "validation": f"{len(held_out):,} sentences with {held_out.words.sum():,} words ({self._where})",
            **({"words": words.record} if words.record else {}),
        }

    def measure_baselines(self) -> None:
        line, units = WordTags(self.train).measured(self.held_out)
        self.baselines, self.of_baselines = [line], {str(line["name"]): units}

    def plan(self, seconds: float | None) -> Plan:
        plan = super().plan(seconds)
        if self.base is not None and self.options.run.epochs is None and self.options.run.steps is None:
            step_tokens = plan.batch_tokens * mean_accumulation(plan.accumulate, plan.grow_batch)
            passes = math.ceil(STEPS * step_tokens / int(self.lengths.sum()))
            passes = min(MOST_PASSES, max(LEAST_PASSES, passes))
            why = f"about {STEPS} steps, and at least {LEAST_PASSES} epochs; the run may end before its time"
            plan = plan.decided("passes", f"at most {passes}", why, "--epochs", epochs=passes)
        return plan.decided(*self._decision) if self._decision else plan

    def objective(self, plan: Plan) -> Objective:
        return TokenClassification(
            self.labels,
            label_smoothing=plan.objective.label_smoothing,
            token_dropout=plan.objective.token_dropout,
            hidden_token=self.tokenizer.mask if self.tokenizer.mask is not None else 0,
            protected=sorted(self.tokenizer.special_ids),
            longest=self.longest,
            around=frame(self.tokenizer),
        )


@dataclass(frozen=True)
class Rows(EncodedTargets):
    """Sentences as rows of ids, with a target at the first token of each word.

    The third row of each has the number of lost words and, for each target, a number of its word.
    """

    tokenizer: Tokenizer
    labels: Sequence[str]
    columns = 3

    @property
    def words(self) -> np.ndarray:
        """How many words of each row have a target, int64 (N,)."""
        return self.rows.column(2, 3).lengths - 1

    @property
    def lost(self) -> int:
        """How many words have no target, since the tokenizer keeps nothing of them."""
        return sum(words[0] for words in self.rows.column(2, 3))

    @property
    def around(self) -> int:
        """How many special tokens there are around each sentence."""
        return sum(map(len, frame(self.tokenizer)))

    def too_long(self, longest: int) -> np.ndarray:
        """Which rows have more tokens than that, bool (N,)."""
        return (self.lengths - self.around > max(1, longest - self.around)) & (self.words > 0)

    def cut(self, longest: int | None = None) -> "Rows":
        """The same in rows of at most ``longest`` tokens, if that is given, without those that have no target.

        A long sentence is split between words, outside entities if possible; so every word is in one row.
        """
        longest = longest or int(self.lengths.max(initial=1))
        if bool((self.words > 0).all()) and not self.too_long(longest).any():
            return self
        return _stored(_cut(self, longest), cache_key(self.key, longest), self.tokenizer, self.labels)

    def triples(self) -> Iterator[tuple[list[int], list[int], list[int]]]:
        """Of each row the ids, the targets plus 1, and the numbers of the words after how many are lost."""
        rows = iter(self.rows)
        return zip(rows, rows, rows, strict=True)


def encoded(tagged: Tagged, tokenizer: Tokenizer, labels: Sequence[str]) -> Rows:
    """The sentences as they are, however long.  The first token of a word has its tag as target."""
    key = cache_key(tagged.key, tokenizer.to_json(), list(labels), "tags")
    return _stored(_encoded(tagged, tokenizer, labels), key, tokenizer, labels)


def _stored(rows: Iterator[list[int]], key: str, tokenizer: Tokenizer, labels: Sequence[str]) -> Rows:
    return Rows(encoded_rows(rows, vocab_size=1 << 32, key=key), key, tokenizer, labels)


def _encoded(tagged: Tagged, tokenizer: Tokenizer, labels: Sequence[str]) -> Iterator[list[int]]:
    """Three rows for each sentence."""
    front, back = frame(tokenizer)
    number = {label: i for i, label in enumerate(labels, start=1)}
    sentences, same = tee(tagged)
    for sentence, (ids, places) in zip(sentences, tokenizer.encode_places(one.text for one in same), strict=True):
        firsts = first_tokens(sentence.words, places)
        targets, words = [0] * len(ids), [len(sentence.words)]
        for token, start, end in firsts:
            targets[token] = number[sentence.tags[start]]
            words[0] -= end - start
            words.append(zlib.crc32(sentence.text[sentence.words[start][0] : sentence.words[end - 1][1]].encode()))
        yield [*front, *ids, *back]
        yield [*(0 for _ in front), *targets, *(0 for _ in back)]
        yield words


def _cut(rows: Rows, longest: int) -> Iterator[list[int]]:
    """Three rows for each part of a sentence."""
    front, back = frame(rows.tokenizer)
    room = max(1, longest - len(front) - len(back))
    begins = {number for number, label in enumerate(rows.labels, start=1) if not label.startswith("I-")}
    for ids, targets, (lost, *words) in rows.triples():
        firsts = [token for token, target in enumerate(targets[len(front) :]) if target]
        inside = {token for token in firsts if targets[token + len(front)] not in begins}
        for start, end in _pieces(len(ids) - len(front) - len(back), firsts, inside, room):
            kept = [word for token, word in zip(firsts, words, strict=True) if start <= token < end]
            if not kept:
                continue  # no word, or the rest of one long word
            part = slice(start + len(front), end + len(front))
            yield [*front, *ids[part], *back]
            yield [*(0 for _ in front), *targets[part], *(0 for _ in back)]
            yield [lost, *kept]
            lost = 0


def _pieces(length: int, firsts: Sequence[int], inside: set[int], room: int) -> list[tuple[int, int]]:
    """[start, end) of parts of at most ``room`` tokens that begin with words, outside of entities where possible."""
    pieces, start = [], 0
    while length - start > room:
        words = [token for token in firsts if start < token <= start + room]
        best = [token for token in words if token not in inside] or words
        end = best[-1] if best else start + room
        pieces.append((start, end))
        start = end
    return [*pieces, (start, length)]


class WordTags:
    """The baseline: the most frequent tag of each word in training; of unknown words, the most frequent tag."""

    name = "most frequent tag of each word"

    def __init__(self, rows: Rows):
        counts: dict[int, Counter[int]] = {}
        usual: Counter[int] = Counter()
        for _, targets, (_, *words) in rows.triples():
            tags = [tag - 1 for tag in targets if tag]
            usual.update(tags)
            for word, tag in zip(words, tags, strict=True):
                counts.setdefault(word, Counter())[tag] += 1
            if len(counts) > MOST_WORDS:  # the rarest are forgotten, whatever the order of the sentences
                usual_first = sorted(counts, key=lambda word: counts[word].total(), reverse=True)
                counts = {word: counts[word] for word in usual_first[: MOST_WORDS // 2]}
        self.tags = {word: _first(tags) for word, tags in counts.items()}
        self.usual = _first(usual)

    def measured(self, rows: Rows) -> tuple[dict[str, Any], np.ndarray]:
        """(its line among the baselines, the result of each row as ``TokenClassification.evaluate`` gives it)."""
        counts = Counts(rows.labels)
        each = (
            counts.add([tag - 1 for tag in targets if tag], [self.tags.get(word, self.usual) for word in words])
            for _, targets, (_, *words) in rows.triples()
        )
        units = np.fromiter(each, np.dtype((np.float64, 2)), len(rows.ids))
        metrics = {key: value for key, value in counts.metrics().items() if isinstance(value, float)}
        return {"name": self.name, **metrics}, units


def _first(tags: Counter[int]) -> int:
    """The most frequent tag, of several the first."""
    return min(tags, key=lambda tag: (-tags[tag], tag))


def nothing_kept(name: str) -> InputError:
    """The error for texts of which the tokenizer keeps nothing: such as control characters alone, for WordPiece."""
    return InputError(
        f"{name}: the tokenizer drops all characters of these texts. Train a new model with --tokenizer bpe, which "
        "keeps every character, or name another base model with --from."
    )


def _words_decision(words: Words, held_out: Tagged) -> tuple[str, str, str, str]:
    """How texts are split into words, for a person: what was decided, why, and the option that changes it."""
    unlike, count = words.unlike(held_out)
    places = {"begin": "at the beginning", "inside": "inside", "end": "at the end"}
    kept = [f"{' '.join(words.record[name])} {place}" for name, place in places.items() if words.record[name]]
    kept += [f"{counted(len(words.known), 'word')} such as {words.known[0]} whole"] if words.known else []
    why = f"{count - unlike:,} of {count:,} held-out words are found in their text"
    return "words", f"as in the file: {', '.join(kept)}", why, "headway tag --pretokenized"


open_data = TokenClassificationData


def measure(pipe: Tagger, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the words that were counted, in IOB2 or as near to it as the model's own scheme is.

    Raises InputError.
    """
    held_out = given.sampled(_held_out(pipe, given))
    rows = _rows(pipe, held_out)
    if not len(rows.ids):
        raise nothing_kept(given.source.name)
    unlike, words = pipe.words.unlike(held_out)
    if unlike:
        so = f"{unlike:,} of {words:,} words are split otherwise where their sentence is given as text"
        warnings.warn(f"{so}: `headway tag --pretokenized` takes words as they are", stacklevel=3)
    objective = TokenClassification(pipe.labels, longest=pipe.longest, around=frame(pipe.tokenizer))
    metrics = measured_rows(pipe, objective, rows.examples, given.each)
    learnt = None if given.same else given.trained_rows(partial(read_tagged, **_scheme(pipe)))
    if learnt is not None:
        line, units = WordTags(_rows(pipe, learnt)).measured(rows)
        given.baselines.append(line)
        given.of_baselines[str(line["name"])] = units
    return {**metrics, "examples": int(rows.words.sum())}


def held_out_inputs(pipe: Tagger, given: EvaluationInputs, count: int) -> list[str]:
    """Some sentences that are held out."""
    return few((one.text for one in _held_out(pipe, given)), count)


def _scheme(pipe: Tagger) -> dict[str, Any]:
    return {"whole": OUTSIDE not in pipe.labels, "labels": pipe.labels}


def _held_out(pipe: Tagger, given: EvaluationInputs) -> Tagged:
    """The sentences to measure.  Raises InputError for tags that the model does not have."""
    tagged = read_tagged(given.source, given.found, given.options.data.on_bad_row, **_scheme(pipe))
    tagged.check_labels(pipe.labels, "the model's tags")
    return given.held_out(tagged)


def _rows(pipe: Tagger, tagged: Tagged) -> Rows:
    return encoded(tagged, pipe.tokenizer, pipe.labels).cut()


def first_rows(source: Corpus | Table, found: Detected, options: TrainOptions, given: MaterialInputs) -> Material:
    """The first sentences.  Raises InputError for one that is wrong where ``options`` do not skip it."""
    read = partial(sentences(source, found, options.data.on_bad_row), [])
    short = list(islice((one for one in read() if len(one.text) <= LONGEST_TEXT), ROWS)) or islice(read(), ROWS)
    rows = [{TEXT: [one.text[start:end] for start, end in one.words], LABEL: one.tags} for one in short]
    return table(rows, given.folder)


def synthetic_data(pipe: Any, given: MaterialInputs) -> Material:
    """Random words with the model's tags in turn."""
    tags, rows = pipe.labels, []
    for number, text in enumerate(islice(read_texts(pipe, random.Random(0)), ROWS)):
        words = text.split()
        rows.append({TEXT: words, LABEL: [tags[(number + at) % len(tags)] for at in range(len(words))]})
    return table(rows, given.folder, "made-up texts")
