"""Translations of texts: the same alone and in a batch, those of transformers, and nothing cut in silence."""

import json
import shutil
import time

import pytest
import torch
import transformers
from rows_kit import answered

import headway
from headway.cli import results
from headway.errors import InputError
from headway.generation.beam import Hypothesis
from headway.models.analysis.maps import attention_maps
from headway.runtime import runtime
from headway.tasks.text_to_text.pipeline import SENTENCE, Translator, align, words_of
from headway.text.train import train_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*cut off at the model")  # of models that know nothing yet

LINES = ["the cat sat on a mat", "old dogs ran", "a mat", "the red door sang and the old cat ran past a mat"]
LONG = "the cat sat. " * 9 + "old dogs ran!"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A translator of random weights in M2M-100's layout."""
    place = tmp_path_factory.mktemp("translator")
    words = train_tokenizer([*LINES, LONG] * 3, "bpe", 300, role="translator")
    config = transformers.M2M100Config(
        vocab_size=words.vocab_size, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=17, decoder_ffn_dim=17, max_position_embeddings=32,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
    )  # fmt: skip
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    draw = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((0.4 if p.dim() > 1 else 0.2) * torch.randn(p.shape, generator=draw) + float("norm.weight" in name))
    model.generation_config.max_length = None
    model.save_pretrained(place)
    words.save(place, max_length=32)
    return place


@pytest.fixture(scope="module")
def mt(directory):
    found = headway.load(directory)
    assert isinstance(found, Translator)
    return found


def test_settings_that_are_not_followed_are_said_and_an_end_is_needed(directory, tmp_path):
    shutil.copytree(directory, tmp_path / "copy")
    edit(tmp_path / "copy" / "generation_config.json", no_repeat_ngram_size=3)
    with pytest.warns(UserWarning, match="no_repeat_ngram_size is not supported"):
        headway.load(tmp_path / "copy")
    for name in ("config.json", "generation_config.json"):
        edit(tmp_path / "copy" / name, eos_token_id=None, forced_eos_token_id=...)
    with pytest.raises(InputError, match="no token ends a target"):
        headway.load(tmp_path / "copy")


def edit(path, **entries):
    found = {**json.loads(path.read_text()), **entries}
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not ...}))


@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_is_what_its_texts_are_alone(mt, beam):
    together = mt(LINES, beam=beam)
    assert together == [mt(line, beam=beam) for line in LINES]
    assert len(set(together)) > 1
    several = mt(LINES, beam=4, n_best=3)
    assert [len(each) for each in several] == [3] * 4
    for each in several:
        assert set(each[0]) == {"text", "score"}
        assert [one["score"] for one in each] == sorted((one["score"] for one in each), reverse=True)


def test_translations_are_those_of_transformers(mt, directory):
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
    words = transformers.AutoTokenizer.from_pretrained(directory)
    for line in LINES:
        given = words(line, return_tensors="pt")
        limit = runtime.longest_target(mt.model, mt.rules, given["input_ids"].shape[1])
        ids = theirs.generate(input_ids=given["input_ids"], num_beams=1, max_new_tokens=limit, do_sample=False)[0]
        assert mt(line, beam=1) == words.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_blank_texts_stay_and_long_ones_are_cut_at_sentence_ends(mt):
    assert mt(["", "  ", LINES[0]])[:2] == ["", "  "]
    assert mt([]) == []
    parts = mt.sources_of(LONG)
    assert len(parts) > 1 and all(len(part) <= mt.longest_source for part in parts)
    read = " ".join(mt.tokenizer.decode(part) for part in parts)
    assert read == LONG.strip()
    assert mt(LONG) == " ".join(mt([mt.tokenizer.decode(part) for part in parts]))
    with pytest.raises(InputError, match=r"has .* tokens, and the model reads 32; split it"):
        mt("cat dog " * 40)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("He said 'no.' Then\nhe left... Well", ["He said 'no.' ", "Then\nhe left... ", "Well"]),
        ("今日は寒い。明日は？「はい。」終わり", ["今日は寒い。", "明日は？", "「はい。」", "終わり"]),
        ("वह गया। वह आया।", ["वह गया। ", "वह आया।"]),
        ("3.14 is no end", ["3.14 is no end"]),
    ],
)
def test_sentences(text, sentences):
    assert SENTENCE.findall(text) == sentences


@pytest.mark.parametrize("hostile", [".", '."', "a.", ". ", "。", ".。", '"', "a. b", "…!", "\n."])
def test_sentences_are_found_in_linear_time(hostile):
    """A run of stops that ends no sentence took minutes, and held up every other thread."""
    for text in (hostile * 16_000 + "x", "x" + hostile * 16_000):
        began = time.thread_time()
        assert "".join(SENTENCE.findall(text)) == text
        assert time.thread_time() - began < 1


def test_many_short_sentences_are_not_encoded_once_for_each_other(mt, monkeypatch):
    sizes = []
    encode = type(mt.tokenizer).encode

    def counted(self, text, **options):
        sizes.append(len(text))
        return encode(self, text, **options)

    text = LINES[0].split()[0] + ". "
    monkeypatch.setattr(type(mt.tokenizer), "encode", counted)
    parts = mt.sources_of(text * 200)
    assert len(parts) > 10 and all(len(part) <= mt.longest_source for part in parts)
    assert sum(sizes) < 8 * len(text) * 200
    monkeypatch.undo()
    two, three = (len(mt.tokenizer.encode((text * times).strip(), special=True)) for times in (2, 3))
    assert all(len(part) + three - two > mt.longest_source for part in parts[:-1])  # each holds as many as it can


def test_sentences_without_spaces_are_joined_without(mt, monkeypatch):
    text = "猫が寝る。" * 8
    parts = mt.sources_of(text)
    assert len(parts) > 1 and "".join(mt.tokenizer.decode(part) for part in parts) == text
    answers = [["はい。"], ["いいえ。"], ["Well."], ["Yes."]]
    found = [[Hypothesis(tuple(mt.tokenizer.encode(one)), -1.0, -1.0) for one in each] for each in answers]
    assert mt._joined(text, found, 1.0)[0]["text"] == "はい。いいえ。Well. Yes."


def test_what_is_broken_off_is_said(mt):
    with pytest.warns(UserWarning, match=r"1 translation is cut off at the model.s maximum length \(32 tokens\)"):
        (found,) = mt.runtime.search(mt.sources_of(LINES[0]), mt.rules, beam=1)
        assert found[0].cut, "the model of random weights ends nothing"
        mt(LINES[0], beam=1)


def test_batches_side_by_side_are_put_back_in_order(mt, monkeypatch):
    sources = [mt.tokenizer.encode(line, special=True) for line in [*LINES, *LINES[::-1], LINES[2]]]
    alone = [mt.runtime.search([source], mt.rules, beam=3)[0][0].ids for source in sources]
    monkeypatch.setattr(runtime, "BATCH_TOKENS", 40)
    threads, grads = torch.get_num_threads(), []
    watch = mt.model.head.register_forward_hook(lambda *given: grads.append(given[2].requires_grad))
    torch.set_num_threads(4)
    try:
        together = mt.runtime.search(sources, mt.rules, beam=3)
    finally:
        torch.set_num_threads(threads)
        watch.remove()
    assert [one[0].ids for one in together] == alone and len(set(alone)) > 2
    assert grads and not any(grads)
    with pytest.raises(InputError, match="several translations of the parts"):
        mt(LONG, n_best=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"beam": 2, "n_best": 3}, "n_best is 3; it must be from 1 to 2"), ({"beam": "5"}, "beam")],
)
def test_wrong_numbers_are_refused(mt, options, said):
    with pytest.raises(InputError, match=said):
        mt("the cat", **options)


def test_the_verb_keeps_lines_in_order(mt, directory, tmp_path, in_process):
    lines, texts = tmp_path / "lines.txt", [LINES[0], "", LINES[1]]
    lines.write_text("\n".join(texts) + "\n")
    assert in_process.passed("translate", directory, lines)[0] == "".join(f"{one}\n" for one in mt(texts))
    in_process.passed("translate", directory, lines, "--to", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text().count("\n") == 3
    found = in_process.json("translate", directory, LINES[0], "--n-best", "2")
    assert found["task"] == "translation" and found["results"] == [mt(LINES[0], n_best=2)]
    scored = in_process.json("translate", directory, LINES[0], "--scores")
    assert scored["results"] == [mt.hypotheses([LINES[0]])[0][0]]


def test_a_table_keeps_its_other_columns_and_translations_their_place(mt, directory, tmp_path, in_process):
    (tmp_path / "t.tsv").write_text(f"id\ttext\tscore\n7\t{LINES[0]}\tlow\n9\t{LINES[1]}\thigh\n")
    found = answered(in_process, "translate", directory, tmp_path / "t.tsv", tmp_path / "out.csv")
    kept = [(row["id"], row["text"], row["given: score"]) for row in found]
    assert kept == [("7", LINES[0], "low"), ("9", LINES[1], "high")]
    assert [row["translation"] for row in found] == mt(LINES[:2])
    to, best = tmp_path / "out.jsonl", ["--n-best", "2", "--threads", "1"]
    out, _ = in_process.passed("translate", directory, tmp_path / "t.tsv", "--to", to, *best)
    assert "4 translations of 2 texts" in out
    rows = [json.loads(line) for line in to.read_text().splitlines()]
    places = [(row["number"], row["rank"], row["id"]) for row in rows]
    assert places == [(1, 1, "7"), (1, 2, "7"), (2, 1, "9"), (2, 2, "9")]
    shown = in_process.passed("translate", directory, tmp_path / "t.tsv", *best)[0].splitlines()
    assert shown == [f"{row['number']}\t{row['rank']}\t{row['translation']}" for row in rows]


def test_each_text_of_several_has_one_line_and_blocks_follow_each_other(directory, tmp_path, in_process, monkeypatch):
    monkeypatch.setattr(Translator, "hypotheses", lambda self, texts, *a, **b: [[{"text": f"{t}\nx"}] for t in texts])
    monkeypatch.setattr(results, "piece_size", lambda tokens: 20)
    monkeypatch.setattr(results, "EVERY", 0.0)
    lines = tmp_path / "lines.txt"
    lines.write_text("a\nb\nc\nd\ne\n")
    status, out, err = in_process("translate", directory, lines)
    assert status == 0 and out == "a x\nb x\nc x\nd x\ne x\n" and "4 of 5 inputs" in err
    assert in_process("translate", directory, lines, "--quiet")[2] == ""
    assert json.loads(in_process("translate", directory, lines, "--json")[1])["results"][4] == "e\nx"
    assert in_process("translate", directory, "a")[1] == "a\nx\n"


def test_a_line_that_is_too_long_is_named_before_anything_is_translated(directory, tmp_path, in_process):
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\n" * 3 + "cat dog " * 40 + "\n")
    in_process.refused("translate", directory, lines, said="lines.txt, line 4: the sentence")
    in_process.refused("translate", directory, lines, "--to", lines / "out.txt", said=f"{lines} is a file, not a")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scores", "--to", "x.txt"], "one line for each text"),
        (["--n-best", "2", "--to", "x.txt"], "one line for each text"),
        (["--beam", "0"], "--beam is 0"),
        (["--threads", "0"], "--threads"),
        (["--to", "x.xml"], ".txt"),
        (["--alignment", "--to", "a.csv"], "alignment"),
    ],
)
def test_what_the_verb_refuses(words, said, directory, in_process):
    status, out, err = in_process("translate", directory, "the cat", *words)
    assert status == 2 and out == "" and said in err


def test_a_translator_is_not_a_classifier_nor_the_other_way(directory, classifier_run, in_process):
    in_process.refused("translate", classifier_run, "the cat", said="translate needs an encoder-decoder")
    in_process.refused("classify", directory, "the cat", said="classify needs a classifier")


def test_an_alignment_is_the_cross_attention_word_by_word(mt):
    source, target = mt.tokenizer.encode(LINES[0], special=True), mt.tokenizer.encode(LINES[1])
    found = align(mt.model, mt.tokenizer, source, target, mt.rules.start)
    assert found.source == LINES[0].split() and found.target == LINES[1].split()
    assert found.weights.shape == (3, 6) and found.weights.sum(axis=1) == pytest.approx([1.0] * 3)
    before = torch.tensor([[*mt.rules.start, *target[:-1]]])
    rows = attention_maps(mt.model, torch.tensor([source]), before)["cross"][-2][0].mean(dim=0)  # (T, S)
    first = len(mt.tokenizer.encode(found.target[0]))
    of_cat = range(len(mt.tokenizer.encode("the")), len(mt.tokenizer.encode("the cat")))
    by_hand = sum(float(rows[t, s]) for t in range(first) for s in of_cat)
    words = sum(float(rows[t, s]) for t in range(first) for s in range(len(source) - 1))
    assert found.weights[0, 1] == pytest.approx(by_hand / words, rel=1e-4)


def test_alignments_of_several_of_nothing_and_of_a_text_in_parts(mt):
    found = mt.hypotheses([LINES[0], " "], beam=4, n_best=2, alignment=True)
    assert [len(each) for each in found] == [2, 1] and found[1][0]["alignment"] is None
    assert all(one["alignment"].source == LINES[0].split() for one in found[0])
    assert all("".join(one["alignment"].target) == "".join(one["text"].split()) for one in found[0])
    (whole,) = mt.hypotheses([LONG], beam=1, alignment=True)[0]
    parts = mt.sources_of(LONG)
    first = mt.tokenizer.decode(parts[0]).split()
    assert whole["alignment"].source[: len(first)] == first
    (alone,) = mt.hypotheses([mt.tokenizer.decode(parts[0])], beam=1, alignment=True)[0]
    rows, columns = alone["alignment"].weights.shape
    assert whole["alignment"].weights[:rows, :columns] == pytest.approx(alone["alignment"].weights)
    assert not whole["alignment"].weights[:rows, columns:].any()


def test_alignments_without_a_token_and_of_unknown_words(mt):
    source = mt.tokenizer.encode(LINES[0], special=True)
    for target in ([], [mt.tokenizer.target.end_of_text]):
        found = align(mt.model, mt.tokenizer, source, target, mt.rules.start)
        assert found.target == [] and found.weights.shape == (0, 6) and found.picture() == ["  " + LINES[0]]
    words = train_tokenizer(["the cat sat"] * 3, "word", 20, role="translator")
    assert words_of(words.encode("dog cat", special=True), words) == [("?", [0]), ("cat", [2])]


def test_the_command_shows_alignments(directory, in_process):
    words = ["translate", directory, LINES[0], "--beam", 1, "--alignment"]
    (found,) = in_process.json(*words)["results"]
    assert found["alignment"]["source"] == LINES[0].split() and len(found["alignment"]["target"]) > 0
    text, picture, *_ = in_process.passed(*words)[0].splitlines()
    assert text == found["text"] and " < " in picture
