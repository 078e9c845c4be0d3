"""Conversations: read and checked, shown by a template, trained on their replies alone, and spoken with afterwards."""

import io
import json
import math
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from bases import WORDS, make_base, tokenizer
from faults_harness import facts_of, lines_of
from safetensors.torch import load_file

import headway
from headway.data.batches.batching import IGNORED
from headway.data.open.read import read
from headway.data.records.dialogues import Dialogues
from headway.errors import InputError
from headway.io.atomic_write import write_json
from headway.reports.verdict import kept_in_words
from headway.tasks.count_baselines import token_counts
from headway.tasks.dialogue import EncodedTalks, encoded_talks, talks
from headway.tasks.losses import LanguageModeling
from headway.text.chat import DEFAULT_TEMPLATE, encode_chat, with_chat
from headway.text.tokenizer import Tokenizer
from headway.training.evaluation.comparison import clearly_lower
from headway.training.store.checkpoint import newest_checkpoint
from headway.workflows.evaluate import evaluate
from headway.workflows.input import detect

TINY = {"steps": 8, "batch_tokens": 256, "threads": 1, "precision": "float32", "evaluations": 2, "quiet": True}
SHAPE = {"d_model": 16, "layers": 2, "heads": 2}


def say(*contents: str, system: str | None = None) -> dict[str, Any]:
    roles = [("user", "assistant")[i % 2] for i in range(len(contents))]
    said = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    return {"messages": ([] if system is None else [{"role": "system", "content": system}]) + said}


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """101 conversations in which replies repeat what was said, of one to four turns."""
    choose, rows = random.Random(3), []
    for number in range(101):
        contents = []
        for _ in range(choose.randint(1, 4)):
            words = choose.choices(WORDS, k=choose.randint(2, 7))
            contents += [" ".join(words), " ".join(words[::-1])]
        rows.append({"id": number, **say(*contents, system="repeat" if number % 3 == 0 else None)})
    return write(tmp_path_factory.mktemp("talk") / "talk.jsonl", rows)


@pytest.fixture(scope="module")
def talk_run(talk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "talk"
    headway.train(talk, out=out, **SHAPE, **TINY)
    return out


def test_they_are_found_by_themselves(talk: Path):
    source = read(talk)
    assert isinstance(source, Dialogues) and len(source) == len(list(source.conversations)) == 101
    assert next(source.conversations)[0] == {"role": "system", "content": "repeat"}
    assert source.place(7) == "line 8" and len(source.fingerprint) == 64
    found = detect(source)
    assert found.task == "language_modeling" and "replies only" in found.reasons[0]
    for task in ("classification", "masked_lm", "embedding"):
        with pytest.raises(InputError, match=f"which are data for a language model, not for {task}"):
            detect(source, task=task)
    with pytest.raises(InputError, match="no columns to name"):
        detect(source, text_column="messages")


def test_a_text_called_messages_is_a_text(tmp_path: Path):
    source = read(write(tmp_path / "a.jsonl", [{"messages": "hello there"}, {"messages": "and again"}]))
    assert not isinstance(source, Dialogues)
    with pytest.raises(InputError) as raised:
        detect(source)
    for word in (f"{tmp_path}/a.jsonl: conversations are expected", "'hello there'", "--text-column messages"):
        assert word in str(raised.value)
    assert detect(source, text_column="messages").task == "language_modeling"


def share(*contents: str) -> dict[str, Any]:
    said = [{"from": ("human", "gpt")[i % 2], "value": content} for i, content in enumerate(contents)]
    return {"id": "x7", "conversations": [{"from": "system", "value": "be kind"}, *said]}


def test_conversations_of_sharegpt_are_read_as_ours(tmp_path: Path):
    source = read(write(tmp_path / "a.jsonl", [share("a", "b"), share("c", "d", "e", "f")]))
    assert isinstance(source, Dialogues)
    assert list(source.conversations)[1] == say("c", "d", "e", "f", system="be kind")["messages"]
    assert any("human as user, gpt as assistant" in reason for reason in detect(source).reasons)
    ours = read(write(tmp_path / "b.jsonl", [say("a", "b")]))
    assert not any("ShareGPT" in reason for reason in detect(ours).reasons)


NEARLY = {
    "a text": ("a.jsonl", [{"conversations": "hi"}, {"conversations": "ho"}]),
    "an object": ("a.jsonl", [{"messages": say("hi", "ho")["messages"][0]}]),
    "another name": ("a.jsonl", [{"dialog": say("hi", "ho")["messages"]}]),
    "beside an id": ("a.jsonl", [{"id": n, "conversation": ["hi", f"it is {n}"]} for n in range(5)]),
    "beside a null": ("a.jsonl", [{"messages": None, **share("hi", f"it is {n}")} for n in range(5)]),
    "in a table": ("a.csv", ["messages", "\"[{'role': 'user', 'content': 'hi'}]\""]),
}


@pytest.mark.parametrize("kind", NEARLY)
@pytest.mark.parametrize("task", [None, "language_modeling", "masked_lm"])
def test_what_is_nearly_a_conversation_is_no_text(kind: str, task: str | None, tmp_path: Path):
    name, rows = NEARLY[kind]
    (tmp_path / name).write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"conversations are expected in a \.jsonl file.*--text-column"):
        detect(read(tmp_path / name), task=task)


def test_texts_that_are_called_like_conversations_stay_texts(tmp_path: Path):
    (tmp_path / "a.csv").write_text("messages\nhello there\n[music] and again\n")
    assert detect(read(tmp_path / "a.csv")).text_column == "messages"
    assert detect(read(write(tmp_path / "b.jsonl", [{"dialogue": "A: hi B: ho"}] * 2))).text_column == "dialogue"
    rows = [{"messages": f"so it was {n} times", "label": "ab"[n % 2]} for n in range(20)]
    assert detect(read(write(tmp_path / "c.jsonl", rows))).task == "classification"


GOOD = say("a", "b")
BAD = [
    ({"messages": []}, "the conversation is empty"),
    ({"messages": "hello"}, "'messages' is a string, expected a list"),
    ({"text": "hello"}, "no 'messages' here"),
    (say("a", "b", "c"), "the last message has the role 'user'; a conversation must end with a reply"),
    ({"messages": [{"role": "assistant", "content": "b"}]}, "the reply has no message before it"),
    ({"messages": [*say("a")["messages"], {"role": "bot", "content": "b"}]}, "message 2 has the role 'bot'"),
    ({"messages": [*say("a")["messages"], {"content": "b"}]}, "message 2 has the role null"),
    ({"messages": [{"role": "user", "content": ["a"]}, *say("a", "b")["messages"]]}, "1: its content is a list"),
    ({"messages": ["a", "b"]}, "message 1 is a string, expected an object"),
    (say("a", "  "), "message 2 is an empty reply"),
    ({"messages": [*GOOD["messages"][:1], {"role": "assistant", "content": None, "tool_calls": [1]}]}, "'tool_calls'"),
    (say("a", "b\0"), "message 2 contains an escaped NUL"),
]
BAD_SHARE = [
    ([], "the conversation is empty"),
    (["hello", "hi"], "message 1 is a string, expected an object with role and content"),
    ([{"from": "bing", "value": "a"}], "message 1 has the role 'bing'"),
    ([{"from": ["human"], "value": "a"}], "message 1 has the role a list"),
    ([{"from": "human"}], "message 1: its content is null"),
    ([{"from": "human", "value": "a"}], "the last message has the role 'user'"),
    ("hello", "no 'messages' here"),
]


SHARED = share("a", "b")
CASES = [(GOOD, *case) for case in BAD] + [
    (SHARED, {"id": "y", "conversations": said}, word) for said, word in BAD_SHARE
]


@pytest.mark.parametrize(("good", "row", "message"), CASES)
def test_what_is_wrong_is_said_with_its_line(good: Any, row: Any, message: str, tmp_path: Path):
    path = write(tmp_path / "a.jsonl", [good, good, row, good])
    with pytest.raises(InputError, match=f"line 3: .*{re.escape(message)}"):
        read(path)
    source = read(path, on_bad_row="skip")
    assert isinstance(source, Dialogues) and len(source) == 3 and source.skipped[0][0] == "line 3"


def test_files_of_two_kinds_are_not_mixed(talk: Path, corpus: Path, tmp_path: Path):
    rows = write(tmp_path / "rows.jsonl", [{"text": "a", "label": "b"}])
    with pytest.raises(InputError, match="holds conversations"):
        read([talk, rows])
    for one, other in ((talk, corpus), (corpus, talk)):
        with pytest.raises(InputError, match=r"talk\.jsonl holds conversations, .*corpus\.txt does not"):
            headway.train(one, validation=other, out=tmp_path / "run", **TINY)
    assert not (tmp_path / "run").exists()


def dialogues(*talks: dict[str, Any], tmp_path: Path) -> Dialogues:
    source = read(write(tmp_path / "some.jsonl", list(talks)))
    assert isinstance(source, Dialogues)
    return source


def examples(
    words: Tokenizer, source: Any, longest: int, count: int | None = None
) -> tuple[EncodedTalks, EncodedTalks]:
    """The first conversations whole, and as they are read."""
    whole = encoded_talks(talks(source).part(np.arange(count or len(source))), words)
    return whole, whole.cut(longest)


def test_targets_are_the_replies_and_what_ends_them(tmp_path: Path):
    words = with_chat(tokenizer())
    source = dialogues(say("the cat", "sat on", "a mat", "red doors", system="be old"), tmp_path=tmp_path)
    whole, found = examples(words, source, 200)
    ids, reply = encode_chat(words, next(source.conversations))
    assert found is whole and found.ids == [ids[:-1]]
    wanted = [target for target in found.targets[0] if target != IGNORED]
    assert words.decode(wanted, skip_special=False) == "sat on<|im_end|>red doors<|im_end|>"
    assert found.n_targets == len(wanted) == sum(reply) == token_counts(found.targets, words.vocab_size).sum()
    assert [row.tolist() for row in found.replies()] == [wanted]
    places = [place for place, target in enumerate(found.targets[0]) if target != IGNORED]
    assert all(ids[place + 1] == found.targets[0][place] for place in places)


def test_of_long_conversations_the_oldest_turns_are_left_out(tmp_path: Path):
    words = with_chat(tokenizer())
    turns = ["the cat sat", "old dogs ran", "on a mat", "past red doors", "and", "sang"]
    whole, last = (
        examples(words, dialogues(say(*some, system="be kind"), tmp_path=tmp_path), 999)[1]
        for some in (turns, turns[2:])
    )
    length = len(last.ids[0])
    source = dialogues(say(*turns, system="be kind"), say("a", "b"), tmp_path=tmp_path)
    both, found = examples(words, source, length)
    assert found.ids[0] == last.ids[0] and found.targets[0] == last.targets[0] and len(found.ids) == 2
    lost = both.n_targets - found.n_targets
    assert (both.ids.lengths > length).tolist() == [True, False] and lost == whole.n_targets - last.n_targets
    [warning] = found.cut_warning(both, length)
    assert f"1 of 2 conversations exceed {length} tokens: their oldest turns are left out" in warning
    assert f"{lost / both.n_targets:.1%}" in warning
    alone = dialogues(say("the cat", "old dogs ran past red doors " * 20), tmp_path=tmp_path)
    uncut, cut = examples(words, alone, 61)
    assert len(cut.ids[0]) == len(cut.targets[0]) == 61 and cut.targets[0][-1] != IGNORED
    assert cut.n_targets < uncut.n_targets
    uncut, nothing = examples(words, dialogues(say("the cat " * 90, "sat"), tmp_path=tmp_path), 61)
    assert nothing.ids == [] and "1 have no reply left" in nothing.cut_warning(uncut, 61)[0]


class Fixed(torch.nn.Embedding):
    """Logits that depend on the ids alone."""

    def forward(self, ids: torch.Tensor, mask: Any = None, chosen: torch.Tensor | None = None) -> torch.Tensor:
        return super().forward(ids if chosen is None else ids[chosen])


def test_the_loss_counts_replies_alone(talk: Path):
    words = with_chat(tokenizer())
    found = examples(words, read(talk), 300, 11)[1]
    model, task = Fixed(words.vocab_size, words.vocab_size), LanguageModeling(label_smoothing=0.1)
    total, count, by_hand = 0.0, 0, 0.0
    with torch.no_grad():
        for batch in found.examples.batches(500):
            assert batch.ids.shape == batch.targets.shape
            loss, n, _ = task.loss(model.eval(), batch)
            total, count = total + loss.item(), count + n
        for ids, targets in zip(found.ids, found.targets, strict=True):
            for token, target in zip(ids, targets, strict=True):
                if target != IGNORED:
                    by_hand -= F.log_softmax(model.weight[token], dim=-1)[target].item()
    assert count == found.n_targets
    assert total == pytest.approx(by_hand, rel=1e-5)
    metrics = task.evaluate(model, found.examples.batches(500))
    assert metrics["val_loss"] == pytest.approx(by_hand / count, rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(by_hand / count), rel=1e-4)


def test_from_scratch_it_can_be_spoken_with(talk: Path, talk_run: Path, in_process: Any, monkeypatch):
    facts = facts_of(talk_run)
    assert facts["task"] == "language_modeling" and "conversations with" in facts["data"]["train"]
    assert [line["name"] for line in facts["baselines"]] == ["uniform (ln V)", "unigram"]
    words = Tokenizer.load(talk_run)
    assert words.chat_template == DEFAULT_TEMPLATE
    assert words.tokens[words.end_of_text or 0] == "<|im_end|>"
    written = json.loads((talk_run / "config.json").read_text())
    assert written["vocab_size"] == words.vocab_size and written["eos_token_id"] == words.end_of_text
    assert json.loads((talk_run / "generation_config.json").read_text())["eos_token_id"] == words.end_of_text
    pipe = headway.load(talk_run)
    reply = pipe.chat([{"role": "user", "content": "the cat"}], max_tokens=7, seed=1)
    assert isinstance(reply, str) and "<|im" not in reply
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    status, out, _ = in_process("generate", talk_run, "the cat", "--chat", "--max-tokens", 5, "--json", "--seed", 1)
    assert status == 0 and json.loads(out.splitlines()[-1])["results"][0] == {"role": "user", "content": "the cat"}
    theirs = transformers.AutoTokenizer.from_pretrained(talk_run)
    messages = say("the cat", "sat on")["messages"]
    ids = theirs.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
    assert ids == encode_chat(words, messages)[0]


def test_evaluate_reproduces_its_loss(talk_run: Path, tmp_path: Path):
    facts, found = facts_of(talk_run), evaluate(talk_run)
    for name in ("val_loss", "bits_per_byte"):
        assert found[name] == pytest.approx(facts["metrics"][name], abs=1e-5)
    assert f"with {found['examples']:,}" in facts["data"]["validation"]
    other = evaluate(talk_run, [write(tmp_path / "other.jsonl", [say("the cat", "sat on a mat")])])
    assert other["examples"] == len(Tokenizer.load(talk_run).encode("sat on a mat")) + 1


def test_from_a_base_whose_vocabulary_grows(talk: Path, tmp_path: Path):
    """Two tokens for the template, and more that were asked for; updates of low rank, and the new rows."""
    base = make_base("gpt2", tmp_path / "base")
    headway.train(talk, out=tmp_path / "run", from_model=str(base), extend_vocab=71, lora=3, **TINY)
    words, old, facts = Tokenizer.load(tmp_path / "run"), tokenizer(), facts_of(tmp_path / "run")
    assert words.vocab_size == old.vocab_size + facts["data"]["added_tokens"] + 2
    assert words.tokens[-2:] == ["<|im_start|>", "<|im_end|>"]
    assert facts["plan"]["model"]["vocab_size"] == max(331, words.vocab_size)
    assert headway.load(tmp_path / "run").chat([{"role": "user", "content": "the cat"}], max_tokens=5) is not None
    before, after = (
        next(p for name, p in load_file(place / "model.safetensors").items() if "wte" in name)
        for place in (base, tmp_path / "run")
    )
    assert torch.equal(before[: old.vocab_size], after[: old.vocab_size])
    assert not torch.equal(after[words.vocab_size - 1], after[words.vocab_size - 2]), "the new rows were trained"
    (tensors, _), _ = newest_checkpoint(tmp_path / "run" / "checkpoints")
    table = next(p for name, p in tensors.items() if name.startswith("model.") and "embedding" in name)
    assert len(table) == words.vocab_size - old.vocab_size


def test_a_base_with_a_template_keeps_it(talk: Path, talk_run: Path, tmp_path: Path):
    headway.train(talk, out=tmp_path, from_model=str(talk_run), **TINY)
    before, after = Tokenizer.load(talk_run), Tokenizer.load(tmp_path)
    assert after.vocab_size == before.vocab_size and after.chat_template == before.chat_template


def test_a_template_that_refuses_is_said_with_the_line(tmp_path: Path):
    words = tokenizer().with_template("{{ raise_exception('no') if messages | length > 2 }}", {}, [])
    source = dialogues(say("a", "b"), say("a", "b", "c", "d"), tmp_path=tmp_path)
    with pytest.raises(InputError, match=r"some\.jsonl, line 2: chat template"):
        examples(words, source, 99)


def test_of_few_conversations_the_base_is_the_bar_and_the_user_is_told(tmp_path: Path, capfd: pytest.CaptureFixture):
    """Replies that nothing tells are learnt by a run that soon overfits: its base is measured too."""
    choose = random.Random(5)
    rows = [say(*(" ".join(choose.choices(WORDS, k=6)) for _ in range(4))) for _ in range(60)]
    data, base = write(tmp_path / "few.jsonl", rows), make_base("llama", tmp_path / "base")
    options = {"steps": 60, "learning_rate": 0.02, "batch_tokens": 512, "threads": 1, "precision": "float32"}
    found = headway.train(data, out=tmp_path / "run", from_model=str(base), evaluations=12, **options)
    told = capfd.readouterr().err
    assert "only 6 conversations are held out" in told and "--validation FILE" in told
    evaluations = [line for line in lines_of(tmp_path / "run") if line["event"] == "evaluation"]
    assert evaluations[0]["step"] == 0 and evaluations[0]["best"], "the base is measured before the first step"
    before = next(line for line in found["baselines"] if line["name"] == "the model before training")
    assert before["val_loss"] == evaluations[0]["val_loss"]
    verdict, kept = (facts_of(tmp_path / "run")[key] for key in ("verdict", "kept"))
    best = min(found["baselines"], key=lambda line: line["val_loss"])
    assert verdict["against"] == best["name"] and verdict["paired"]
    assert (verdict["units"], verdict["unit"]) == (6, "conversations") and verdict["difference_interval"]
    assert kept["since"] == 0 and kept["gained"] and kept["gain"][0] > 0 and kept["step"] < 60
    lower = min(line["val_loss"] for line in evaluations if line["step"] > kept["step"]) < kept["val_loss"]
    assert ("is not clearly lower than its" if lower else "rose after it") in kept_in_words(kept)[0]
    losses = {line["step"]: line["val_loss"] for line in evaluations}
    assert losses[kept["step"]] == found["val_loss"]


def test_a_later_step_is_kept_only_where_few_conversations_tell_it_apart():
    before = np.array([[20.0, 10], [33.0, 11], [12.0, 7], [50.0, 23], [9.0, 5], [31.0, 13]])
    slight, clear = before.copy(), before.copy()
    slight[:, 0] += [-2.0, 1.7, -0.4, 2.1, -1.9, 0.1]  # lower in all by 0.4 of 155, and higher in three of six
    clear[:, 0] -= [0.5, 0.7, 0.3, 1.1, 0.2, 0.6]
    assert slight[:, 0].sum() < before[:, 0].sum() and not clearly_lower(slight, before)
    assert clearly_lower(clear, before) and not clearly_lower(before, clear)


LAST_APART = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}<think></think>"
    "{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As Qwen3 has it: the last reply alone has thoughts, if empty ones."""


def test_a_template_that_shows_the_last_reply_apart_trains_each_reply_as_the_last(
    talk: Path, talk_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture
):
    base = shutil.copytree(talk_run, tmp_path / "base", ignore=shutil.ignore_patterns("headway.json", "checkpoints"))
    settings = json.loads((base / "tokenizer_config.json").read_text())
    write_json(base / "tokenizer_config.json", {**settings, "chat_template": LAST_APART})
    found = headway.train(talk, out=tmp_path / "run", from_model=str(base), **{**TINY, "quiet": False})
    assert "each reply is an example of its own" in capfd.readouterr().err
    assert evaluate(tmp_path / "run")["val_loss"] == pytest.approx(found["val_loss"], abs=1e-6)
    rows = facts_of(tmp_path / "run")["data"]["rows"]
    assert (rows["read"], rows["measured"]) == (101, 10), "conversations, not replies"
    words = Tokenizer.load(tmp_path / "run")
    source = dialogues(say("the cat", "sat on", "a mat", "red doors"), say("old", "dogs"), tmp_path=tmp_path)
    whole, _ = examples(words, source, 200)
    said = [words.decode(reply.tolist(), skip_special=False) for reply in whole.replies()]
    assert said == [f"<think></think>{reply}<|im_end|>" for reply in ("sat on", "red doors", "dogs")]
    shown = words.decode(whole.ids[1], skip_special=False)
    assert "<|im_start|>assistant\nsat on<|im_end|>" in shown and shown.count("<think>") == 1
    first = [{**one} for one in next(source.conversations)[:2]]
    assert whole.ids[0] == encode_chat(words, first)[0][:-1]
