"""What is said of a task without loading it: plain data, so that ``--help`` and reports do not wait for torch."""

from dataclasses import dataclass

OF_TEXTS = frozenset(
    {"text_column", "label_column", "second_column", "encoding", "delimiter"}
    | {"tokenizer", "vocab", "length", "extend_vocab"}
)
"""Options that mean something for texts alone."""
OF_KINDS = frozenset({"model", "match_parameters", "config_overrides"})
"""Options of tasks for which other kinds of model can be trained."""


@dataclass(frozen=True)
class TaskSpec:
    """One task in words and names."""

    name: str
    """as ``--task`` and ``headway.json`` name it"""
    title: str
    """what was trained, as a report's heading says it"""
    verb: str
    """the command that answers with it; two tasks may share one"""
    argument: str
    """what stands for an input in a command line that is suggested"""
    counted: str
    """what ``examples`` counts, in the singular"""
    loss_unit: str
    """the unit of its loss"""
    logits: float
    """the share of its tokens for which logits are computed; 0 where one answer is for a whole text"""
    help: str = ""
    """what that command does, in a line"""
    answers: str = "text"
    """what an answer is: text, labels, spans, vectors, ranking or number"""
    reads: str = "text"
    """what an input is: text or picture"""
    headline: tuple[str, ...] = ("val_loss",)
    """metrics by which models are compared: the first one that a model has"""
    outputs: str = "outputs"
    """what its model gives for what it reads, as ``verify`` calls it"""
    writes: str = ""
    """what it writes token by token: "continuations" of a text, "targets" for one, or nothing"""
    compared: tuple[str, ...] = ("val_loss",)
    """metrics by which ``compare`` decides between kinds of model: the first one that they have"""
    answered: str = "texts answered"
    """what is counted where the speed of answers is measured"""
    units: str = "loss"
    """what each held-out unit is for the headline metric: class, rank, cosine, text or loss"""
    models: tuple[str, ...] = ()
    """kinds of model that ``--model`` can name"""
    options: frozenset[str] = frozenset()
    """options that mean something for some tasks alone and that this one reads"""
    searched: frozenset[str] = frozenset()
    """of these, the options that ``tune`` searches"""
    transformers: tuple[str, ...] = ()
    """endings of the classes of ``transformers`` that carry its head"""
    behind: str = "For this data use that baseline, or start from a pretrained model."
    """what to do where a baseline is better"""
    behind_from_base: str = "For this data use that baseline, or try another pretrained model."
    """the same for a run that began from a pretrained model"""
    supports: frozenset[str] = frozenset({"ranks"})
    """what else works for it: ranks (several processes), seeds (--seeds), planning (a plan without data)"""
    pretrain_with: str | None = None
    """the task that ``--adapt`` first trains on the same texts"""
