"""Scripts that kill a command at one moment of a save or of a run, by name (FT-03)."""


def _logged(condition: str, first: str = "") -> str:
    """A script that kills before a line is logged, ``first`` done; both may have places for ``format``."""
    return f"""
import time
log = run_directory.RunDirectory.log
def killing(run, event, **values):
    if {condition}:
        {first or "pass"}
        kill()
    log(run, event, **values)
run_directory.RunDirectory.log = killing
"""


AT_STEP = _logged('event == {event!r} and values["step"] == {step}')
AT_RESUME = _logged('event == "resume"')
ONCE_SAVED = _logged(
    'event == "step" and values["step"] == {step}',
    'while not list(run.path.glob("checkpoints/step-*")): time.sleep(0.001)',
)
"""Checkpoints are written beside the steps: one that was begun before may come later."""

SLOW = """
import time
factor = trainer.factor
trainer.factor = lambda *given: (time.sleep(0.1), factor(*given))[1]
"""
"""Each step takes a tenth of a second longer."""

BEFORE_A_SAVE = """
write = checkpoint.save_checkpoint
def killing(directory, step, *given):
    if step == {step}:
        kill()
    return write(directory, step, *given)
checkpoint.save_checkpoint = killing
"""

IN_TENSORS = """
write = checkpoint.save_file
def killing(tensors, path):
    write(tensors, path)
    if ".step-{step}." in str(path):
        os.truncate(path, int(os.path.getsize(path) * {share}))
        kill()
checkpoint.save_file = killing
"""

IN_STATE = """
from pathlib import Path
def killing(path, *given, write=checkpoint.write_json):
    if ".step-{step}." in str(path) and path.name == {name!r}:
        Path(path).write_text("half")
        kill()
    return write(path, *given)
checkpoint.write_json = killing
"""

AFTER_FLUSH = """
flush = checkpoint.flush
def killing(path):
    flush(path)
    if ".step-{step}." in str(path):
        kill()
checkpoint.flush = killing
"""

AT_RENAME = """
from pathlib import Path
rename = Path.rename
def killing(path, target):
    if path.name.startswith(".step-{step}."):
        {what}
        kill()
    return rename(path, target)
Path.rename = killing
"""

IN_REMOVAL = """
remove = checkpoint.shutil.rmtree
def killing(path, **given):
    if ".old." in str(path):
        os.remove(os.path.join(path, "tensors.safetensors"))
        kill()
    remove(path, **given)
checkpoint.shutil.rmtree = killing
"""

IN_MODEL = """
save = run_directory.save_any
calls = []
def killing(model, path, **entries):
    calls.append(1)
    if len(calls) == {call}:
        save(model, path, **entries)
        kill()
    save(model, path, **entries)
run_directory.save_any = killing
"""

IN_EVALUATION = """
from headway.data.batches import batch_source
honest, calls = batch_source.TextBatches.validation, []
def killing(self):
    calls.append(1)
    for batch in honest(self):
        if len(calls) == {call}:
            kill()
        yield batch
batch_source.TextBatches.validation = killing
"""

IN_TOKENIZER = """
from headway.tasks import running_text
train = running_text.train_tokenizer
def killing(*given, **more):
    train(*given, **more)
    kill()
running_text.train_tokenizer = killing
"""

IN_TOKENS = """
from headway.data.batches import cache
batches = cache._batches
def killing(*given):
    yield next(batches(*given))
    kill()
cache._batches = killing
"""


KILLS = {
    "while the tokenizer is trained": IN_TOKENIZER,
    "while tokens are written": IN_TOKENS,
    "first step": AT_STEP.format(event="step", step=1),
    "growing batch": AT_STEP.format(event="step", step=16),
    "after an evaluation": AT_STEP.format(event="evaluation", step=8),
    "in an evaluation": IN_EVALUATION.format(call=3),
    "before a checkpoint": BEFORE_A_SAVE.format(step=6),
    "at a tenth of its tensors": IN_TENSORS.format(step=9, share=0.1),
    "in the middle of its tensors": IN_TENSORS.format(step=9, share=0.5),
    "shortly before their end": IN_TENSORS.format(step=9, share=0.99),
    "in the state of a checkpoint": IN_STATE.format(step=7, name="state.json"),
    "in its manifest": IN_STATE.format(step=7, name="MANIFEST.json"),
    "when it is on the disk": AFTER_FLUSH.format(step=11),
    "before it is committed": AT_RENAME.format(step=5, what="pass"),
    "when it is committed": AT_RENAME.format(step=5, what="rename(path, target)"),
    "while an old one is removed": IN_REMOVAL,
    "between a better model and the next checkpoint": IN_MODEL.format(call=3),
    "between training and its record": "session.finish = lambda *given: kill()",
}
