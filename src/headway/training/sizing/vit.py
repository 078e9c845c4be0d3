"""What a classifier of images will be, by rules."""

import math
from dataclasses import asdict
from typing import Any

from headway.data.images.image_table import AUGMENT, ImageTable
from headway.errors import InputError
from headway.models.config import Patches, TransformerConfig
from headway.training.options import TrainOptions
from headway.training.plan import Plan, decision_of
from headway.training.sizing import presets
from headway.training.sizing.presets import fine_tune_rows_plan, given_or, new_plan, passes, tokens_of_rows

LARGEST = 64
"""Pixels of a side, unless ``--image-size`` says so."""
MOST_PATCHES = 64
"""Of an image, unless ``--patch-size`` says so."""
SMALL = 12
"""Pixels of a side up to which patches are of 2 × 2: of 1 × 1, a step would take four times as long."""
MANY, FEW, LARGER = 5_000, (64, 4), (128, 6)
"""Images from which the larger of two widths and depths is taken."""
PASSES = 200
"""A classifier trained for a time ends after so many passes over its images."""
FINE_TUNE_PASSES = 10
"""And one that begins from a pretrained model."""
WARMUP = 0.05
"""The share of a run for warm-up."""
BATCH = 64
FINE_TUNE_BATCH = 32
VIT: dict[str, Any] = {
    **{"positions": "learned", "norm": "layernorm", "norm_eps": 1e-12, "norm_order": "pre"},
    **{"norm_parameters": "both", "activation": "gelu", "gated": False, "bias": ("qkv", "out", "ff")},
}
"""The fields of a ViT's layout, except the sizes."""
MOST_PATCHES_OF_AN_IMAGE = 16_384
"""What attention over all of them may take."""


def cut_of(source: ImageTable, options: TrainOptions) -> Patches:
    """The size to which images are brought, and that of their patches.  Raises InputError for what does not fit.

    Images are brought to the median of their sizes, and cut into about MOST_PATCHES at most; sides are made multiples
    of the patch, so that nothing at the edges is left unread.  A size that was asked for stays as it is: then the patch
    is one that divides it, if there is one of about that size.
    """
    size = options.for_tasks.image_size
    height, width = (min(LARGEST, side) if size is None else size for side in source.median_size)
    patch = options.for_tasks.patch_size or _patch(height, width, exact=size is not None)
    if patch > min(height, width):
        raise InputError(f"--patch-size is {patch}, more than a side of the images, which are {height} × {width}.")
    if size is None:
        height, width = (patch * max(1, round(side / patch)) for side in (height, width))
    found = Patches((height, width), (patch, patch))
    if found.tokens > MOST_PATCHES_OF_AN_IMAGE:
        raise InputError(
            f"images of {height} × {width} in patches of {patch} are {found.tokens:,} tokens each, more than "
            f"{MOST_PATCHES_OF_AN_IMAGE:,}; choose a larger --patch-size or a smaller --image-size."
        )
    return found


def _patch(height: int, width: int, *, exact: bool) -> int:
    """The side of the patches of images of that size, by the rules above; ``exact``: it stays as it is."""
    if max(height, width) <= SMALL:
        least = 2 if min(height, width) >= 4 else 1
    else:
        least = max(1, math.ceil(math.sqrt(height * width / MOST_PATCHES)))
    fitting = [side for side in range(least, 2 * least + 1) if height % side == width % side == 0]
    return fitting[0] if exact and fitting else min(least, height, width)


def vit_config(patches: Patches, width: int, layers: int, heads: int, dropout: float) -> TransformerConfig:
    """A ViT's encoder (``hub.families.vit``).  Raises ValueError for sizes that do not go together."""
    return TransformerConfig(0, width, layers, heads, d_ff=2 * width, max_length=patches.tokens, dropout=dropout, **VIT)


def vit_plan(options: TrainOptions, patches: Patches, source: ImageTable, count: int) -> Plan:
    """The plan of a classifier from scratch, on ``count`` images.

    It has small patches, is small and regularised: labelled images are few, and a Transformer knows nothing of what is
    near what until it has learnt it.
    """
    width, layers, _ = presets.sized(options, *(FEW if count < MANY else LARGER))
    dropout = given_or(options.optimisation.dropout, 0.1)
    config = vit_config(patches, width, layers, options.architecture.heads or max(1, width // 32), dropout)
    (height, across), (side, _) = patches.image_size, patches.patch_size
    size = f"width {width}, {layers} layers, {config.n_heads} heads"
    median = " × ".join(map(str, source.median_size))
    unread = height % side or across % side
    rest = f"; {height % side} rows and {across % side} columns at the edges are not read" if unread else ""
    decisions = [
        decision_of("model", f"ViT, {size}", f"{count:,} images; dropout {dropout:g}", f"{presets.SHAPE}, --dropout"),
        decision_of("images", f"read at {height} × {across} pixels", f"{median} is the median size", "--image-size"),
        decision_of(
            "patches", f"{patches.tokens - 1} of {side} × {side} pixels{rest}", "one token each", "--patch-size"
        ),
        *_augmented(options),
    ]
    decisions += passes(options, f"at most {PASSES}", "more rarely helps")
    return new_plan(
        options,
        config,
        decisions,
        {
            **{"optimizer": "muon", "learning_rate": 1e-3, "schedule": "cosine", "warmup": WARMUP},
            **{"label_smoothing": 0.1, "augment": AUGMENT[1]},
        },
        patches=asdict(patches),
        length=patches.tokens,
        batch_tokens=tokens_of_rows(options, patches.tokens, BATCH * patches.tokens),
        weight_decay=presets.weight_decay(options, 0.1),
        epochs=presets.epochs_of(options, PASSES),
    )


def fine_tune_vit_plan(options: TrainOptions, config: TransformerConfig, patches: Patches, count: int) -> Plan:
    """The plan of a classifier that begins from a pretrained ViT, on ``count`` images."""
    plan = fine_tune_rows_plan(options, config, [patches.tokens] * count, patches.tokens, FINE_TUNE_PASSES)
    model, *others = plan.decisions
    return plan.but(
        patches=asdict(patches),
        augment=options.for_tasks.augment or AUGMENT[1],
        batch_tokens=tokens_of_rows(options, patches.tokens, FINE_TUNE_BATCH * patches.tokens),
        decisions=[model, *_augmented(options), *others],
    )


def _augmented(options: TrainOptions) -> list[dict[str, str]]:
    if options.for_tasks.augment is not None:
        return []
    value = "each image is randomly shifted, rotated, scaled and brightened in each epoch; none is mirrored"
    return [decision_of("augmentation", value, "there are few labelled images; a mirrored b is a d", "--augment")]
