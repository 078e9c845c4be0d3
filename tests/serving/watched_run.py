"""A run directory as training leaves it half-way, made by hand, and a question about it."""

import json
from pathlib import Path
from typing import Any

import httpx

EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
SNAPSHOTS = (10, 20, 30, 40)


def write_run(run: Path, **facts: Any) -> Path:
    """40 steps, an evaluation, a sample and a snapshot each 10; the third evaluation was the best."""
    run.mkdir()
    lines: list[dict[str, Any]] = [{"event": "start"}]
    for step in range(1, 41):
        lines.append({"event": "step", "step": step, "loss": 4 - step / 20})
        if step in SNAPSHOTS:
            best = {"val_loss": 4.0 - step / 30 + 2 * (step == 40), "best": step < 40}
            lines.append({"event": "evaluation", "step": step, "health": "learning", "cause": "", **best})
            lines.append({"event": "sample", "step": step, "text": f"step {step}: {EVIL}"})
            place = run / "snapshots" / f"step-{step}"
            place.mkdir(parents=True)
            (place / "model.safetensors").write_bytes(bytes(1000 * step))
            (place / "headway.json").write_text("{}")
    (run / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    known = {"task": "language_modeling", "finished": False, "options": {"keep": "best"}, **facts}
    (run / "headway.json").write_text(json.dumps(known))
    return run


def told(address: str, **asked: Any) -> dict[str, Any]:
    """What ``/training`` answers; the JSON is read strictly."""
    response = httpx.get(f"{address}/training", params=asked, timeout=60)
    assert response.status_code == 200, response.text

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    found: dict[str, Any] = json.loads(response.text, parse_constant=refuse)
    return found


def gone(address: str) -> bool:
    """Whether nothing listens there."""
    try:
        httpx.get(f"{address}/health", timeout=5)
    except httpx.TransportError:
        return True
    return False
