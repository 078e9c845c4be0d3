"""A saved model behind a page of Gradio, whatever its task.

pip install gradio
python examples/gradio_app.py runs/reviews
"""

import argparse

import gradio as gr

import headway
from headway.tasks import registry

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("run", help="a run, a Hugging Face directory or a hub id")
parser.add_argument("--port", type=int, default=7860)
given = parser.parse_args()

pipe = headway.load(given.run)
spec = registry.spec(pipe.task)


def spans(text):
    """The pieces of a text, each with its label, or None."""
    done = 0
    for found in pipe(text):
        yield from ((text[done : found["start"]], None), (text[found["start"] : found["end"]], found["label"]))
        done = found["end"]
    yield text[done:], None


def stream(prompt):
    """The prompt and its continuation so far, after each token."""
    for piece in pipe.stream(prompt, max_tokens=100, temperature=0.8):
        prompt += piece
        yield prompt


def number(text):
    """The number of a text, which a pipeline may give beside others."""
    answer = pipe(text)
    return answer["value"] if isinstance(answer, dict) else answer


WAYS = {
    "labels": (lambda read: pipe(read)["scores"], gr.Label(label="Labels", num_top_classes=5)),
    "text": (stream if spec.writes == "continuations" else pipe, gr.Textbox(label="Answer", lines=5)),
    "spans": (lambda text: list(spans(text)), gr.HighlightedText(label="Spans")),
    "fill": (pipe, gr.JSON(label="What fits each [MASK]")),
    "vectors": (lambda text: pipe(text).tolist(), gr.JSON(label="Vector")),
    "number": (number, gr.Number(label="Number")),
}
answer, output = WAYS.get(spec.verb) or WAYS.get(spec.answers) or (pipe, gr.JSON(label="Answer"))
reads = gr.Image(type="filepath", label="Picture") if spec.reads == "picture" else gr.Textbox(label="Text", lines=3)
page = gr.Interface(answer, reads, output, title=spec.title, api_name="ask", analytics_enabled=False)
page.launch(server_name="127.0.0.1", server_port=given.port, show_error=True)
