"""A task of another package with a head of its own: on a new encoder and on a pretrained one, with every verb."""

import json
import math
from pathlib import Path

import pytest
from safetensors.torch import load_file
from test_own_task import ROOT, distribution, run, run_many

EXAMPLE = ROOT / "examples" / "own_head.py"
SMALL = ("--task", "worth", "--threads", "1", "--quiet")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed."""
    place = tmp_path_factory.mktemp("site")
    distribution(place, "own-head", {"worth": "own_head"}, own_head=EXAMPLE.read_text(encoding="utf-8"))
    return place


@pytest.fixture(scope="module")
def offers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good word is worth two, a bad one nothing."""
    path = tmp_path_factory.mktemp("offers") / "offers.csv"
    lines = [f"{'fine ' * (n % 5)}{'torn ' * (4 - n % 5)}chair number {n},{2 * (n % 5)}" for n in range(211)]
    path.write_text("\n".join(["offer,price", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(site: Path, offers: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A run from scratch, and what ``train`` printed."""
    out = tmp_path_factory.mktemp("runs") / "worth"
    size = ("--d-model", "32", "--layers", "1", "--steps", "120", "--learning-rate", "0.005")
    done = run(site, "train", offers, *SMALL, *size, "--out", out, "--json")
    return out, json.loads(done.stdout.splitlines()[-1])


def test_the_example_is_short():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 100


def test_it_learns_and_answers_as_it_was_measured(trained, site, offers):
    out, found = trained
    assert found["task"] == "worth" and found["error"] < 1.2  # of prices from 0 to 8; the mean is 2.4 away
    again, rated = run_many(
        site, ["evaluate", out, "--json"], ["appraise", out, "fine fine fine fine", "torn torn torn torn", "--json"]
    )
    assert json.loads(again[1])["error"] == pytest.approx(found["error"], abs=1e-6)
    good, bad = json.loads(rated[1])["results"]
    assert good["value"] > bad["value"] + 2 and min(good["spread"], bad["spread"]) > 0
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "headway-task" and config["more"]["d_model"] == config["d_model"] == 32
    assert {"head.query.weight", "head.out.bias"} < set(load_file(out / "model.safetensors"))


def test_from_a_pretrained_encoder_it_keeps_all_but_the_head(site, offers, classifier_run, tmp_path):
    done = run(
        site,
        "train",
        offers,
        *SMALL,
        "--from",
        classifier_run,
        "--freeze",
        "0",
        "--steps",
        "3",
        "--out",
        tmp_path / "on",
    )
    facts = json.loads((tmp_path / "on" / "headway.json").read_text())
    head = next(one for one in facts["decisions"] if one["what"] == "head")
    assert head["value"] == "a new one, which starts untrained", done.stderr
    before, after = (load_file(path / "model.safetensors") for path in (classifier_run, tmp_path / "on"))
    table = next(name for name in before if "word_embeddings" in name or "tok_embeddings" in name)
    same = [name for name, weight in after.items() if weight.shape == before[table].shape]
    assert any(bool((after[name] == before[table]).all()) for name in same)  # frozen: as they were
    (answer,) = json.loads(run(site, "appraise", tmp_path / "on", "fine", "--json").stdout)["results"]
    assert math.isfinite(answer["value"])


@pytest.mark.thorough
def test_verify_and_what_is_no_encoder(trained, site, offers, lm_run, tmp_path):
    found = json.loads(run(site, "verify", trained[0], "--json", "--quiet", "--threads", "1").stdout.splitlines()[-1])
    passed = {check["name"]: check["passed"] for check in found["checks"]}
    assert {name for name, ok in passed.items() if ok} >= {"batch", "accumulation", "checkpoints", "resume"}
    said = run(site, "train", offers, *SMALL, "--from", lm_run, "--out", tmp_path / "no", status=2).stderr
    assert "is no encoder, and the head of worth is for encoders" in said
