"""``GET /training``: what a run directory tells, also of a run that is still training."""

import json

import httpx

from headway.serving.training import MOST_POINTS, run_so_far


def test_a_finished_run(lm_run):
    found = run_so_far(lm_run)
    assert found["finished"] and found["last_step"] == 20 and found["verdict"]
    assert found["steps"][-1][0] == 20 and len(found["evaluations"]) >= 1 and found["samples"][-1]["text"]


def test_a_run_that_goes_on(tmp_path):
    lines = [{"event": "start"}, *({"event": "step", "step": n, "loss": 9 - n / 1000} for n in range(1, 2001))]
    lines.append({"event": "step", "step": 2001, "loss": "nan"})
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"event": "st')
    found = run_so_far(tmp_path)
    assert not found["finished"] and found["last_step"] == 2001 and found["verdict"] == ""
    assert len(found["steps"]) <= MOST_POINTS + 1 and found["steps"][-1] == (2000, 7.0)
    assert found["samples"] == [] == found["evaluations"]


def test_a_model_that_is_no_run_has_none(server):
    response = server.get("/training?model=text")
    assert response.status_code == 404 and "was not loaded from a run" in response.json()["error"]["message"]
    assert httpx.get(f"{server.address}/training?model=nothing").status_code == 404
    assert not any(model["training"] for model in server.get("/v1/models").json()["data"])
