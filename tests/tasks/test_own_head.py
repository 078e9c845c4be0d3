"""A task of another package with a head of its own: on a new encoder and on a pretrained one, with every verb."""

import json
import math

import pytest
from faults_harness import facts_of
from rows_kit import CHECKS, passed_checks
from safetensors.torch import load_file
from test_own_task import ROOT, distribution, last_lines, run, run_many

EXAMPLE = (ROOT / "examples" / "own_head.py").read_text(encoding="utf-8")
SMALL = ("--task", "worth", "--threads", "1", "--quiet")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Where the example is installed."""
    return distribution(tmp_path_factory.mktemp("site"), "own-head", {"worth": "own_head"}, own_head=EXAMPLE)


@pytest.fixture(scope="module")
def offers(tmp_path_factory):
    """A good word is worth two, a bad one nothing."""
    path = tmp_path_factory.mktemp("offers") / "offers.csv"
    lines = [f"{'fine ' * (n % 5)}{'torn ' * (4 - n % 5)}chair number {n},{2 * (n % 5)}" for n in range(211)]
    path.write_text("\n".join(["offer,price", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(site, offers, tmp_path_factory):
    """A run from scratch, and what ``train`` printed."""
    out = tmp_path_factory.mktemp("runs") / "worth"
    size = ("--d-model", "32", "--layers", "1", "--steps", "120", "--learning-rate", "0.005")
    return out, *last_lines(run_many(site, ["train", offers, *SMALL, *size, "--out", out, "--json"]))


def test_it_learns_and_answers_as_it_was_measured(trained, site):
    assert len(EXAMPLE.splitlines()) <= 100
    out, found = trained
    assert found["task"] == "worth" and found["error"] < 1.2  # of prices from 0 to 8; the mean is 2.4 away
    ask = ["appraise", out, "fine fine fine fine", "torn torn torn torn", "--json"]
    again, rated = last_lines(run_many(site, ["evaluate", out, "--json"], ask))
    assert again["error"] == pytest.approx(found["error"], abs=1e-6)
    good, bad = rated["results"]
    assert good["value"] > bad["value"] + 2 and min(good["spread"], bad["spread"]) > 0
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "headway-task" and config["more"]["d_model"] == config["d_model"] == 32
    assert {"head.query.weight", "head.out.bias"} < set(load_file(out / "model.safetensors"))


def test_from_a_pretrained_encoder_it_keeps_all_but_the_head(site, offers, classifier_run, tmp_path):
    frozen = ["--from", classifier_run, "--freeze", "0", "--steps", "3"]
    run(site, "train", offers, *SMALL, *frozen, "--out", tmp_path / "on")
    (head,) = [one for one in facts_of(tmp_path / "on")["decisions"] if one["what"] == "head"]
    assert head["value"] == "a new one, which starts untrained"
    before, after = (load_file(path / "model.safetensors") for path in (classifier_run, tmp_path / "on"))
    table = next(name for name in before if "word_embeddings" in name or "tok_embeddings" in name)
    same = [name for name, weight in after.items() if weight.shape == before[table].shape]
    assert any(bool((after[name] == before[table]).all()) for name in same)  # frozen: as they were
    (answer,) = json.loads(run(site, "appraise", tmp_path / "on", "fine", "--json").stdout)["results"]
    assert math.isfinite(answer["value"])


@pytest.mark.thorough
def test_verify_and_what_is_no_encoder(trained, site, offers, lm_run, tmp_path):
    said = run(site, "verify", trained[0], "--json", "--quiet", "--threads", "1").stdout
    assert passed_checks(said) >= CHECKS - {"export"}
    said = run(site, "train", offers, *SMALL, "--from", lm_run, "--out", tmp_path / "no", status=2).stderr
    assert "is no encoder, and the head of worth is for encoders" in said
