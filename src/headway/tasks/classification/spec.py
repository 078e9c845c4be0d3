"""Classification of texts, in words and names, and the command that runs its models."""

from headway.tasks.command import label_command
from headway.tasks.spec import OF_KINDS, OF_ROWS, TaskSpec
from headway.training.evaluation.metric import ACCURACY, MACRO_F1, VAL_LOSS

SPEC = TaskSpec(
    name="classification",
    heads=(("encoder", "row"), ("decoder", "row")),
    title="Text classifier",
    verb="classify",
    help="Predict the label of a text, or of every text in a file.",
    answers="labels",
    loss_unit="nats per example",
    outputs="logits of the classes",
    metrics=(ACCURACY, MACRO_F1, VAL_LOSS),
    headline=(ACCURACY,),
    compared=(ACCURACY,),
    answer_unit="texts classified",
    models=("transformer", "rnn", "lstm", "gru", "cnn", "bow"),
    options=OF_ROWS
    | OF_KINDS
    | {"frozen", "contrastive", "adapt", "token_dropout", "merge_labels", "labels_as_text", "balance"}
    | {"r_drop", "label_smoothing"},
    searched=frozenset({"label_smoothing", "token_dropout", "r_drop", "tokenizer"}),
    supports=frozenset({"ranks", "seeds"}),
    advice_if_baseline_wins=(
        "That baseline is not kept: train a bag of words, which is like it (--model bow), or start from a pretrained "
        "model (--from).",
        "That baseline is not kept: try another pretrained model, or a bag of words (--model bow, without --from).",
    ),
    pretrain_with="masked_lm",
)

COMMAND = label_command(SPEC)
