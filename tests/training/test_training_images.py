"""From images to a classifier and back: trained, taken up again, loaded, measured, read by other programs."""

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from faults_harness import facts_of
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import headway
from headway.data.batches.batch_source import Position
from headway.data.images.batch_source import ImageBatches
from headway.data.images.preprocessing import normalised
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.tasks.data_profile import data_profile
from headway.tasks.image_classification.task import ImageClassifier
from headway.training.loop.prefetch import Prefetch
from headway.workflows.evaluate import evaluate
from headway.workflows.verify.check import Subject
from headway.workflows.verify.resume import replay
from headway.workflows.verify.verify import check_accumulation, check_batch

Image = pytest.importorskip("PIL.Image")
QUICK: dict[str, Any] = {"threads": 1, "precision": "float32", "quiet": True}
SMALL: dict[str, Any] = {
    **{"d_model": 32, "layers": 2, "heads": 2, "batch_size": 16, "steps": 30, "evaluations": 3},
    **{"learning_rate": 3e-3, "optimizer": "adamw", **QUICK},
}


def stripes(folder: Path, classes: dict[str, bool], each: int = 29, seed: int = 0) -> Path:
    """Images with stripes from top to bottom or from left to right, of several sizes and modes, with noise."""
    draw = np.random.default_rng(seed)
    for label, upright in classes.items():
        (folder / label).mkdir(parents=True)
        for number in range(each):
            height, width = draw.integers(11, 23, 2)
            across = np.arange(width)[None] if upright else np.arange(height)[:, None]
            image = across // 3 % 2 * 150 + draw.integers(0, 100, (height, width))
            mode, ending = (("L", "png"), ("RGB", "png"), ("P", "png"), ("RGB", "jpg"))[number % 4]
            Image.fromarray(image.astype(np.uint8)).convert(mode).save(folder / label / f"{number:02}.{ending}")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stripes(tmp_path_factory.mktemp("images") / "stripes", {"columns": True, "rows": False})


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; look, but do not write."""
    out = tmp_path_factory.mktemp("runs") / "stripes"
    found = headway.train(folder, out=out, **SMALL)
    assert found["task"] == "image_classification" and found["accuracy"] > 0.8
    assert [line["name"] for line in found["baselines"]] == ["majority class", "linear model on pixels"]
    return out


@pytest.fixture(scope="module")
def clf(run: Path) -> Any:
    return headway.load(run)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_recorded(run: Path, folder: Path):
    facts = facts_of(run)
    assert facts["labels"] == ["columns", "rows"] and facts["data"]["classes"] == {"columns": 29, "rows": 29}
    assert facts["data"]["train"] == "52 images" and facts["data"]["held_in_memory"].endswith(" kB")
    assert {"images", "patches", "augmentation"} <= {line["what"] for line in facts["decisions"]}
    assert {"preprocessor_config.json", "report.html"} <= {path.name for path in run.iterdir()}
    assert not list(run.glob("tokenizer*"))
    assert "Image classifier trained on stripes" in (run / "report.html").read_text()


@torch.no_grad()
def test_transformers_reads_the_same_images_and_gives_the_same_logits(run: Path, clf: Any, folder: Path):
    theirs = transformers.ViTForImageClassification.from_pretrained(run).eval()
    processor = ViTImageProcessorPil.from_pretrained(run)
    images = [Image.open(path) for path in files(folder)]
    expected = theirs(**processor(images, return_tensors="pt")).logits
    pixels = np.stack([clf.pixels(path) for path in files(folder)])
    ours = clf.model(normalised(pixels, clf.preprocessor))
    assert ours.std() > 0.1 and (ours - expected).abs().max() <= 1e-4
    best = expected.argmax(dim=-1).tolist()
    assert [one["label"] for one in clf(files(folder))] == [theirs.config.id2label[i] for i in best]


def test_files_arrays_and_lists(clf: Any, folder: Path):
    assert isinstance(clf, ImageClassifier) and clf.task == "image_classification" and clf.tokenizer is None
    path = folder / "rows" / "01.png"
    one = clf(path)
    assert set(one) == {"label", "score", "scores"} and one["score"] == max(one["scores"].values())
    assert sum(one["scores"].values()) == pytest.approx(1, abs=1e-5)
    array = np.array(Image.open(path))
    both = clf([str(path), array, array / 255, array[:, :, :1]])
    assert [answer["scores"]["rows"] for answer in both] == pytest.approx([one["scores"]["rows"]] * 4, abs=1e-5)
    assert len(clf(np.stack([array] * 3))) == 3 and clf([]) == []
    for wrong, said in (
        (array * 2.0, r"image 0: float .*expected 0 \(black\) to 1"),
        (array[None][:, :, :, :2], "image 0: an image is uint8"),
        ([1], "image 0 is int"),
        (folder / "none.png", "none.png: no such file"),
    ):
        with pytest.raises(InputError, match=said):
            clf(wrong)


def test_measured_again(run: Path, folder: Path, tmp_path: Path):
    before = facts_of(run)["metrics"]
    for inputs in ([], [folder]):
        found = evaluate(run, inputs)
        assert found["on"].endswith("the held-out part") and found["examples"] == 6
        assert found["val_loss"] == pytest.approx(before["val_loss"], abs=1e-6)
        assert found["accuracy"] == before["accuracy"]
    other = stripes(tmp_path / "other", {"columns": True, "rows": False}, each=7, seed=1)
    assert evaluate(run, [other])["examples"] == 14
    for name, copied in (("01.png", "known.png"), ("02.png", "also.png")):
        shutil.copy(folder / "rows" / name, other / "rows" / copied)
    with pytest.warns(UserWarning, match="of 16 rows also occur"):
        evaluate(run, [other])
    (other / "rows").rename(other / "lines")
    with pytest.raises(InputError, match="not in the training data: 'lines'; known: 'columns', 'rows'"):
        evaluate(run, [other])


def test_a_worker_makes_the_same_batches(run: Path):
    images = np.random.default_rng(0).integers(0, 256, (23, 6, 6, 3), dtype=np.uint8)
    how = headway.load(run).preprocessor
    batch_source = ImageBatches(images, range(23), images, range(23), how, 5, 0, each=10)
    position = Position()
    with Prefetch(batch_source, workers=1) as ahead:
        for _ in range(7):
            part, tokens, after = ahead.next(position)
            expected, position = batch_source.next(position)
            assert torch.equal(part.inputs["pixels"], expected.inputs["pixels"])
            assert (tokens, after) == (expected.tokens, position)


def test_fine_tuned_for_other_classes(run: Path, tmp_path: Path):
    other = stripes(tmp_path / "three", {"a": True, "b": False, "c": True}, each=11, seed=2)
    found = headway.train(other, from_model=str(run), out=tmp_path / "tuned", steps=2, **QUICK)
    assert found["task"] == "image_classification"
    tuned = headway.load(tmp_path / "tuned")
    assert tuned.labels == ["a", "b", "c"] and tuned.preprocessor == headway.load(run).preprocessor
    before, after = (
        headway.load_model(place).stack.blocks[0].feedforward.layer.up.weight for place in (run, tmp_path / "tuned")
    )
    assert 0 < (before - after).abs().max() < 0.01, "it begins from the weights of the base"
    assert facts_of(tmp_path / "tuned")["plan"]["patches"] == facts_of(run)["plan"]["patches"]


def test_lora_and_frozen_blocks(run: Path, folder: Path, tmp_path: Path):
    for name, options in (("lora", {"lora": 3}), ("freeze", {"freeze": 1})):
        headway.train(folder, out=tmp_path / name, from_model=str(run), steps=1, evaluations=1, **QUICK, **options)
        facts = facts_of(tmp_path / name)
        assert facts["trained_parameters"] < facts["parameters"]
        assert headway.load(tmp_path / name)(files(folder)[0])["label"] in ("columns", "rows")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokenizer": "word"}, "--tokenizer is for texts, but this is image_classification"),
        ({"length": 9}, "--length is for texts"),
        ({"label_column": "x"}, "no columns to name"),
        ({"token_dropout": 0.1}, "--token-dropout is for classification and token_classification"),
        ({"task": "classification"}, "data for image_classification, not for classification"),
        ({"seeds": 2}, "--seeds is for classification"),
        ({"augment": "more"}, "--augment is 'more'; it can be none, usual, flip"),
        ({"from_model": "RUN", "image_size": 8}, "--image-size cannot be chosen with --from"),
        ({"from_model": "TEXT"}, "cannot read images; name a ViT with --from"),
    ],
)
def test_options_that_mean_nothing_here(
    options: dict[str, Any], said: str, folder: Path, run: Path, classifier_run: Path, tmp_path: Path
):
    places = {"RUN": str(run), "TEXT": str(classifier_run)}
    options = {name: places.get(str(value), value) for name, value in options.items()}
    with pytest.raises(InputError, match=said):
        headway.train(folder, out=tmp_path / "out", steps=2, quiet=True, **options)
    assert not (tmp_path / "out").exists()


def test_a_text_task_does_not_begin_from_a_model_of_images(run: Path, rows: Path, tmp_path: Path):
    with pytest.raises(InputError, match="is an image model, which reads no text"):
        headway.train(rows, from_model=str(run), out=tmp_path / "out", steps=2, quiet=True)


def test_the_verbs(run: Path, folder: Path, tmp_path: Path, in_process: Any):
    found = in_process.json("classify", run, folder)
    assert found["task"] == "image_classification" and len(found["results"]) == 58
    assert found["results"][0]["file"] == str(folder / "columns" / "00.png")
    assert {"label", "score", "scores", "file"} == set(found["results"][0])
    in_process.passed("classify", run, folder, "--to", tmp_path / "found.csv")
    table = list(csv.DictReader((tmp_path / "found.csv").open()))
    assert len(table) == 58 and list(table[0])[:3] == ["file", "label", "score"]
    out, _ = in_process.passed("classify", run, folder / "rows" / "01.png")
    assert out.split("\t")[2].strip() == str(folder / "rows" / "01.png")
    found = in_process.json("explain", run)
    assert found["tokens"][:2] == ["class", "patch 1"] and found["read"][:2] == [1, 3]
    assert {row["length"] for row in in_process.json("bench", run)["rows"]} == {len(found["tokens"])}
    in_process.refused("classify", run, "a cat", said="there is no such file")
    in_process.refused("classify", run, folder, "--text-column", "x", said="--text-column and --encoding")
    for verb in ("generate", "fill", "embed", "translate"):
        in_process.refused(verb, run, "a [MASK]", said="image_classification")


def test_its_promises(run: Path, tmp_path: Path):
    """The cheap ones; and a few steps of its training, which ``verify`` kills and takes up again."""
    subject = Subject(headway.load(run))
    assert check_batch(subject).passed and check_accumulation(subject).passed
    again = replay(subject, run, tmp_path)
    again.begin(tmp_path / "again")
    found = headway.train(again.material.file, out=tmp_path / "again", quiet=True, **again.options)
    assert found["steps"] == again.options["steps"] and again.material.origin == "made-up images"


def test_arrays_from_python(tmp_path: Path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "noise.npz", images=draw.random((41, 4, 4)), labels=np.arange(41) % 3)
    data, out = tmp_path / "noise.npz", tmp_path / "runs" / "noise"
    found = headway.train(data, out=out, **{**SMALL, "steps": 2, "evaluations": 1})
    assert found["out"] == str(out) and found["steps"] == 2 and headway.load(out).labels == ["0", "1", "2"]
    headway.train(data, validation=data, out=tmp_path / "v", **{**SMALL, "steps": 1})
    warnings = facts_of(tmp_path / "v")["data"]["warnings"]
    assert any("41 of 41 validation rows (100%) also occur in training" in line for line in warnings)


def test_what_is_known_of_images_before_the_first_step():
    """By which a run is judged: leaks, equal images, guessing by frequencies."""
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (8, 4, 4, 3), dtype=np.uint8)
    how = ImagePreprocessor(size=(4, 4))
    train, targets = images[[0, 0, 0, 1, 2]], [0, 0, 0, 1, 1]
    known = data_profile([], ImageBatches(train, targets, images[[1, 5, 6, 7]], [1, 0, 0, 1], how, 5, 0, each=5), how)
    assert (known.examples, known.leaked, known.alike, known.one_target) == (4, 0.25, 0.6, 0.6)
    assert known.chance == pytest.approx(-(np.log(4 / 7) + np.log(3 / 7)) / 2)
