"""Conversations: what the model reads of them, where its replies end, and the command that holds them."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import headway
from headway.errors import InputError
from headway.hub.directory import save_model
from headway.io.atomic_write import write_json
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.tasks.language_modeling.pipeline import Conversation, Generator, end_of_turn, fit
from headway.text.chat import DEFAULT_TEMPLATE, END, START, encode_chat, encode_prompt, with_chat
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer

TEXTS = ["the cat sat on a mat while old dogs ran past red doors and sang\n"] * 7
GREEDY = {"temperature": 0.0}
STRICT = (
    "{% if messages[-1].role != 'user' and add_generation_prompt %}{{ raise_exception('say something') }}{% endif %}"
    + DEFAULT_TEMPLATE.replace("message['content'] ", "(message['content'] | upper) ")
)
"""Shows what was said in another way than it was said."""


def said(*texts: str, system: str | None = None) -> list[dict[str, str]]:
    """A conversation in which the user speaks first."""
    messages = [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
    return messages if system is None else [{"role": "system", "content": system}, *messages]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return with_chat(train_tokenizer(TEXTS, "bpe", 300))


class Scripted:
    """A model that says the same ids whatever it is told, and remembers what that was."""

    def __init__(self, script: list[int], vocab_size: int, context: int = 97, **kept: Any) -> None:
        self.config = SimpleNamespace(max_length=context, vocab_size=vocab_size)
        self.script, self.vocab_size, self.kept = script, vocab_size, {"generation_config.json": kept}
        self.told: list[list[int]] = []

    def parameters(self) -> Iterator[torch.Tensor]:
        return iter([torch.zeros(1)])

    def new_state(self) -> SimpleNamespace:
        self.told.append([])
        return SimpleNamespace(count=0, reorder=lambda rows: None)

    def next_logits(self, ids: torch.Tensor, mask: Any = None, state: Any = None) -> torch.Tensor:
        self.told[-1] += ids[0].tolist()
        logits = torch.zeros(1, self.vocab_size)
        logits[0, self.script[min(state.count, len(self.script) - 1)]] = 9
        state.count += 1
        return logits


def scripted(tokenizer: Tokenizer, text: str, end: int, context: int = 97, **kept: Any) -> tuple[Generator, Scripted]:
    script = [*tokenizer.encode(text), end, *tokenizer.encode(" and more")]
    model: Any = Scripted(script, tokenizer.vocab_size, context, **kept)
    return Generator(model, tokenizer), model


def test_a_reply_ends_with_the_turn_and_shows_no_special_token(tokenizer: Tokenizer):
    end = tokenizer.tokens.index(END)
    pipe, model = scripted(tokenizer, "old dogs 🙂 sang", end, context=199)
    messages = said("the cat", "sat", f"on {START} a {END} mat", system="be kind")
    assert pipe.chat(messages, **GREEDY) == "old dogs 🙂 sang"
    prompt, replies = encode_chat(tokenizer, messages, add_generation_prompt=True)
    assert model.told[0][: len(prompt)] == prompt == encode_prompt(tokenizer, messages) and any(replies)
    assert prompt.count(end) == 4, "what the user spells is text"
    assert "".join(pipe.stream_chat(messages, **GREEDY)) == "old dogs 🙂 sang"
    assert pipe.chat(messages, max_tokens=3, **GREEDY) == tokenizer.decode(model.script[:3])
    assert pipe.chat(messages, stop=["dogs"], **GREEDY) == "old "


def test_any_of_the_ends_that_the_directory_names(tokenizer: Tokenizer):
    cat = tokenizer.encode(" cat")[-1]
    start, end = tokenizer.tokens.index(START), tokenizer.tokens.index(END)
    for last, said_ends in ((start, [start, end]), (cat, [cat]), (cat, cat), (start, [10**9, None, start])):
        pipe, _ = scripted(tokenizer, "old dogs", last, eos_token_id=said_ends)
        assert pipe.chat(said("the"), **GREEDY) == "old dogs"
        assert pipe("the", max_tokens=9, **GREEDY) == "old dogs", "a text ends there too"


def with_template(template: str, **tokens: str) -> tuple[Tokenizer, Generator]:
    """A tokenizer with another template, and a model that says "old dogs" in it."""
    made = train_tokenizer(TEXTS, "bpe", 300).with_template(template, tokens, [START, END])
    return made, scripted(made, "old dogs", made.tokens.index(END))[0]


def test_the_end_of_turn_is_found_in_the_template():
    other, pipe = with_template(DEFAULT_TEMPLATE)  # the end of a text is another token
    end = other.tokens.index(END)
    assert other.end_of_text != end and end_of_turn(other) == {end}
    assert pipe.chat(said("the"), **GREEDY) == "old dogs"


def test_templates_that_show_or_leave_out_what_was_said():
    _, strict = with_template(STRICT, eos_token=END)
    assert strict.chat(said("the", "cat", "sat"), **GREEDY) == "old dogs"
    with pytest.raises(InputError, match="say something"):
        strict.chat(said("the", "cat"))
    misspelt = "{% for m in messages %}{{ m.role }}: {{ m.contents }}\n{% endfor %}assistant:"
    _, deaf = with_template(misspelt, eos_token=END)
    with pytest.warns(UserWarning, match="leaves out, or changes, what the last message says"):
        deaf.chat(said("the"), **GREEDY)


def test_the_oldest_turns_are_forgotten_and_never_the_system_message(tokenizer: Tokenizer):
    turns = [f"{word} cat sat on a mat" for word in ("the", "a", "old", "red", "past")]
    messages = said(*[text for turn in turns for text in (turn, "dogs ran")], "and sang", system="be kind")
    whole = len(encode_prompt(tokenizer, messages))
    ids, kept = fit(tokenizer, messages, whole + 8, 8)
    assert kept == messages and len(ids) == whole
    seen = set()
    for context in range(whole + 7, 30, -1):
        try:
            ids, kept = fit(tokenizer, messages, context, 8)
        except InputError as error:
            assert f"reads {context}" in str(error) and context < 40
            break
        assert kept[0] == messages[0] and kept[1:] == messages[-len(kept) + 1 :] and kept[1]["role"] == "user"
        assert ids == encode_prompt(tokenizer, kept) and len(ids) < context
        seen.add(len(kept))
    assert seen == {2, 4, 6, 8, 10}

    end = tokenizer.tokens.index(END)
    pipe, model = scripted(tokenizer, "old dogs", end, context=whole - 9)
    with pytest.warns(UserWarning, match="oldest 2 messages are forgotten"):
        assert pipe.chat(messages, max_tokens=8, **GREEDY) == "old dogs"
    pipe, model = scripted(tokenizer, "a" * 400, end, context=61)
    reply = pipe.chat(said("the cat"), max_tokens=399, **GREEDY)
    assert len(model.told) == 1 and reply and len(model.told[0]) <= 61, "a long reply does not push out its question"


def test_a_conversation_goes_on(tokenizer: Tokenizer):
    notices: list[str] = []
    pipe, model = scripted(tokenizer, "old dogs", tokenizer.tokens.index(END), context=67)
    conversation = Conversation(pipe, "be kind", notices.append)
    for number in range(5):
        assert "".join(conversation.say(f"the cat {number}", max_tokens=7, **GREEDY)) == "old dogs"
    assert [message["role"] for message in conversation.messages] == ["system", *["user", "assistant"] * 5]
    assert conversation.messages[-2]["content"] == "the cat 4" and notices and "forgotten" in notices[0]
    assert all(len(told) <= 67 for told in model.told)
    before = list(conversation.messages)
    with pytest.raises(InputError, match="shorten the message"):
        conversation.say("the cat " * 99, max_tokens=7)
    assert conversation.messages == before
    pieces = conversation.say("and")
    next(pieces)
    pieces.close()
    assert conversation.messages[-1]["role"] == "assistant" and conversation.messages[-1]["content"]
    conversation.reset()
    assert conversation.messages == [{"role": "system", "content": "be kind"}]


@pytest.fixture(scope="module")
def directory(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was taught nothing, with a template."""
    config = TransformerConfig(
        tokenizer.vocab_size, d_model=26, n_heads=1, n_layers=2, d_ff=17, max_length=127, norm_parameters="none",
        activation="relu2", gated=False, embedding_norm=True, qk_norm=True,
    )  # fmt: skip
    torch.manual_seed(3)
    directory = tmp_path_factory.mktemp("chat")
    save_model(Decoder(config), directory)
    tokenizer.save(directory)
    write_json(directory / "generation_config.json", {"eos_token_id": [tokenizer.tokens.index(END)]})
    return directory


@pytest.fixture
def hold(in_process: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Run ``generate --chat`` with these lines as standard input."""

    def run(directory: Path, text: str | bytes, *words: object) -> tuple[int, str, str]:
        content = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
        return in_process("generate", directory, "--chat", "--max-tokens", "11", "--temperature", "0", *words)

    return run


def test_lines_of_standard_input(directory: Path, hold: Callable):
    pipe, words = headway.load(directory), {"max_tokens": 11, **GREEDY}
    messages = [{"role": "system", "content": "be kind"}]
    for text in ("the cat é 🙂", "  old dogs"):
        messages.append({"role": "user", "content": text})
        messages.append({"role": "assistant", "content": pipe.chat(messages, **words)})
    replies = [message["content"] for message in messages if message["role"] == "assistant"]
    lines = "\ufeffthe cat é 🙂\r\n\n  old dogs"
    status, out, err = hold(directory, lines, "--system", "be kind")
    assert status == 0 and err == "" and out == "".join(reply + "\n" for reply in replies)
    status, out, err = hold(directory, lines, "--system", "be kind", "--json")
    found = json.loads(out)
    assert status == 0 and out.count("\n") == 1 and found["results"] == messages
    assert set(found) == {"task", "precision", "engine", "seconds", "results"}
    assert err == "".join(reply + "\n" for reply in replies)
    assert hold(directory, lines, "--system", "be kind", "--json", "--quiet")[2] == ""
    status, out, _ = hold(directory, "  old dogs", "the cat é 🙂", "--system", "be kind", "--json")
    assert json.loads(out)["results"] == messages, "PROMPT is the first line"


def test_reset_and_exit(directory: Path, hold: Callable):
    status, out, err = hold(directory, "the cat\n/reset\nold dogs\n /exit \nand sang\n", "--json")
    found = json.loads(out.splitlines()[-1])
    assert status == 0 and [message["role"] for message in found["results"]] == ["user", "assistant"]
    assert found["results"][0]["content"] == "old dogs" and "headway: started afresh\n" in err
    status, out, err = hold(directory, "", "--json")
    assert status == 0 and err == "" and json.loads(out)["results"] == []


def test_a_full_context_is_told(directory: Path, hold: Callable):
    status, out, err = hold(directory, "the cat sat on a mat\n" * 9, "--json", "--system", "be kind")
    found = json.loads(out)["results"]
    assert status == 0 and "headway: the conversation is longer than the model reads" in err
    assert len(found) == 19 and found[0]["role"] == "system"


def test_what_is_wrong_is_status_two(directory: Path, lm_run: Path, hold: Callable, in_process: Callable):
    for given, words, message in (
        ("the cat\n" + "the cat " * 99 + "\n", [directory], "shorten the message"),
        (b"caf\xe9\n", [directory], "not UTF-8"),
        ("the cat\n", [lm_run], "no chat template"),
        ("the cat\n", [directory, "--top-p", "2"], "--top-p"),
    ):
        status, _, err = hold(words[0], given, *words[1:])
        assert status == 2 and message in err.splitlines()[-1] and "Traceback" not in err
    for words in (["generate", lm_run], ["generate", lm_run, "the", "--system", "be kind"]):
        in_process.refused(*words, said="Error: ")


def test_who_continues_a_text_with_a_model_that_talks_is_told(directory: Path, lm_run: Path, in_process: Callable):
    asked = ("the cat", "--max-tokens", "3", "--seed", "1")
    assert f"`headway generate {directory} --chat` starts" in in_process("generate", directory, *asked)[2]
    assert "--chat" not in in_process("generate", directory, *asked, "--quiet")[2]
    assert "--chat" not in in_process("generate", lm_run, *asked)[2]


def test_what_is_no_conversation_is_refused(directory: Path):
    talk = headway.load(directory).chat
    with pytest.raises(InputError, match="at least one message"):
        talk([])
    with pytest.raises(InputError, match="message 1: has no content"):
        talk([{"role": "user"}])


def test_ctrl_c_ends_a_conversation_cleanly(directory: Path):
    words = ["--chat", "--json", "--max-tokens", "9", "--temperature", "0"]
    running = subprocess.Popen(
        [sys.executable, "-m", "headway", "generate", str(directory), *words],
        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
    )
    assert running.stdin is not None and running.stderr is not None
    running.stdin.write(b"the cat\n")
    running.stdin.flush()
    assert running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130 and err.decode().endswith("headway: interrupted\n") and b"Traceback" not in err
    assert [message["role"] for message in json.loads(out)["results"]] == ["user", "assistant"]


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of this kind is Unix's")
def test_at_a_terminal(directory: Path):
    import pty

    main, other = pty.openpty()
    command = [sys.executable, "-m", "headway", "generate", str(directory), "--chat", "--max-tokens", "9"]
    running = subprocess.Popen([*command, "--temperature", "0"], stdin=other, stdout=other, stderr=other)
    os.close(other)
    os.write(main, b"the cat\n" + b"the cat " * 99 + b"\n/exit\n")
    shown, until = b"", time.monotonic() + 60
    with suppress(OSError):  # the other end is closed
        while time.monotonic() < until and (piece := os.read(main, 4096)):
            shown += piece
    os.close(main)
    assert running.wait(30) == 0
    reply = headway.load(directory).chat(said("the cat"), max_tokens=9, **GREEDY)
    text = shown.decode().replace("\r\n", "\n")
    assert "/exit or Ctrl-D leaves" in text and reply.replace("\r\n", "\n") in text
    assert "shorten the message" in text and "Traceback" not in text
