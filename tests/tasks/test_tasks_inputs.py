"""Every pipeline answers one input or several, whatever they come in, and refuses by name what is neither."""

import random

import numpy as np
import pandas
import pytest

import headway
from headway.errors import InputError
from headway.tasks.embedding.task import as_embedder

TEXTS = ["the old cat sat", "red doors sang", "a mat ran past"]
SMALL = {"d_model": 16, "layers": 1, "heads": 2, "length": 16, "steps": 2, "threads": 1, "quiet": True}


class Frame:
    """As much of a polars frame as shows what it is."""

    columns = ("id", "text")

    def __iter__(self):
        return iter(self.columns)


@pytest.fixture(scope="module")
def pipelines(lm_run, classifier_run, corpus, tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("pipelines"), random.Random(1)
    (folder / "pairs.csv").write_text("source,target\n" + "".join(f"the cat {n},le chat {n}\n" for n in range(40)))
    (folder / "a.conll").write_text("".join(f"Anna B-PER\nlives O\nin O\nVienna{i} B-LOC\n\n" for i in range(20)))
    images = np.array([[[draw.randrange(256)] * 8] * 8 for _ in range(12)], dtype=np.uint8)
    np.savez(folder / "images.npz", images=images, labels=np.arange(12) % 2)
    headway.train(corpus, task="masked_lm", out=folder / "masked_lm", **SMALL)
    headway.train(folder / "pairs.csv", task="translation", out=folder / "translation", **SMALL)
    headway.train(folder / "a.conll", out=folder / "tags", **SMALL)
    headway.train(folder / "images.npz", out=folder / "images", preset="tiny", steps=2, quiet=True)
    found = {name: headway.load(folder / name) for name in ("masked_lm", "translation", "tags", "images")}
    found |= {"language_modeling": headway.load(lm_run), "classification": headway.load(classifier_run)}
    return {**found, "embedding": as_embedder(headway.load(folder / "masked_lm"))}


NAMES = ("classification", "language_modeling", "masked_lm", "translation", "tags", "embedding")


def answers(pipelines, name, inputs):
    greedy = {"temperature": 0, "max_tokens": 3} if name == "language_modeling" else {}
    return np.asarray(found) if isinstance(found := pipelines[name](inputs, **greedy), np.ndarray) else found


@pytest.mark.parametrize("name", NAMES)
def test_series_arrays_and_generators_are_lists(pipelines, name):
    column = pytest.importorskip("datasets").Dataset.from_dict({"text": (texts := list(TEXTS))})["text"]
    if name == "masked_lm":
        texts = [f"{text} [MASK]" for text in TEXTS]
        column = pandas.Index(texts)
    expected = answers(pipelines, name, texts)
    series = pandas.Series(texts, index=[7, 3, 5])
    for inputs in (tuple(texts), series, np.array(texts), np.array(texts, dtype=object), iter(texts), column):
        np.testing.assert_equal(answers(pipelines, name, inputs), expected)
    np.testing.assert_equal(answers(pipelines, name, texts[0]), answers(pipelines, name, texts[:1])[0])


@pytest.mark.parametrize("name", (*NAMES, "images"))
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (pandas.DataFrame({"id": [1], "text": ["a"]}), r"DataFrame with the columns id, text.*frame\['text'\]"),
        (pandas.DataFrame({"id": [1]}), r"the columns id; .*frame\['id'\]"),
        (Frame(), r"Frame with the columns id, text.*frame\['text'\]"),
        ({"text": "a"}, "input is dict"),
        (None, "input is NoneType"),
        (3.5, "input is float"),
        (b"the", "input is bytes"),
        ({"a", "b"}, "input is set"),
        (["the [MASK]", None], "1 is NoneType"),
        (["the [MASK]", float("nan")], "1 is float"),
    ],
)
def test_what_is_no_input_is_refused_by_name(pipelines, name, wrong, words):
    if name == "images" and isinstance(wrong, list):
        wrong = [np.zeros((8, 8), np.uint8), wrong[1]]
    with pytest.raises(InputError, match=words):
        pipelines[name](wrong)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tags"])  # which reads lists of words
def test_a_list_in_a_list_is_no_text(pipelines, name):
    with pytest.raises(InputError, match="0 is list"):
        pipelines[name]([["the [MASK]"]])


def test_a_missing_text_is_named_with_its_position(pipelines):
    with pytest.raises(InputError, match="text 1 is float; expected a text, not nan"):
        pipelines["classification"](pandas.Series(["a", None], dtype=object).astype("str"))


@pytest.mark.parametrize("k", [0, -1, 1.5, None, True])
def test_numbers_of_answers_that_mean_nothing(pipelines, k):
    for ask in (pipelines["masked_lm"], lambda text, k: pipelines["embedding"].nearest(text, ["cat"], k=k)):
        with pytest.raises(InputError, match="k is"):
            ask("the [MASK]", k=k)


def test_names_of_images_come_in_any_list(pipelines, tmp_path):
    image = pytest.importorskip("PIL.Image")
    names = [str(tmp_path / f"{number}.png") for number in range(3)]
    pixels = [np.full((8, 8), 90 * number, np.uint8) for number in range(3)]
    for name, one in zip(names, pixels, strict=True):
        image.fromarray(one).save(name)
    expected = pipelines["images"](names)
    for inputs in (pandas.Series(names), np.array(names), iter(names), np.stack(pixels)[..., None]):
        assert pipelines["images"](inputs) == expected


def test_vectors_of_a_series_and_its_neighbours(pipelines):
    embed = pipelines["embedding"]
    nearest = embed.nearest("the cat", pandas.Series(TEXTS), k=2)
    assert nearest == embed.nearest("the cat", TEXTS, k=2)
    np.testing.assert_allclose(embed.similarity(np.array(TEXTS), embed(TEXTS)), embed.similarity(TEXTS), atol=1e-6)
    with pytest.raises(InputError, match=r"frame\['text'\]"):
        embed.nearest("the cat", pandas.DataFrame({"text": TEXTS}))
