"""Examples become batches, and batches parts of them, by what their targets belong to."""

import numpy as np
import pytest
import torch

from headway.data.batches.batching import IGNORED, Batch, Examples, TargetKind

IDS = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14]]
SOME = torch.tensor([3, 1])


def some(targets: object, kind: TargetKind, **others: object) -> Batch:
    return Examples(IDS, targets, kind, **others).together().rows(SOME)  # type: ignore[arg-type]


@pytest.mark.parametrize("numbers", [np.int64, np.float32])
def test_vectors_for_rows_keep_their_columns(numbers: type):
    targets = np.arange(24).reshape(4, 6).astype(numbers)
    part = some(list(targets), TargetKind.ROW)
    assert part.ids.tolist() == [[13, 14], [8, 0]] and part.targets.tolist() == targets[[3, 1]].tolist()
    assert part.targets.dtype == (torch.int64 if numbers is np.int64 else torch.float32)


def test_the_places_of_spans_stay_what_they_are():
    assert some([[0, 2], [0, 0], [1, 3], [0, 1]], TargetKind.SPAN).targets.tolist() == [[0, 1], [0, 0]]


def test_targets_for_tokens_lose_the_columns_of_the_tokens():
    part = some([[number + 1 for number in row] for row in IDS], TargetKind.TOKEN)
    assert part.targets.tolist() == [[14, 15], [9, IGNORED]] and part.mask.tolist() == [[True, True], [True, False]]


def test_sequences_lose_columns_of_their_own():
    part = some([[1], [2, 3, 4], [5, 6, 7, 8, 9], [1, 2]], TargetKind.SEQUENCE)
    assert part.ids.shape == (2, 2) and part.targets.tolist() == [[1, 2, IGNORED], [2, 3, 4]]
    assert part.tokens == 5 and part.lengths.tolist() == [4, 4] and part.places == 4


def test_of_pairs_both_rows_are_taken():
    part = some([0.1, 0.2, 0.3, 0.4], TargetKind.PAIR, second=[[1], [2, 3], [4], [5, 6, 7]])
    assert part.ids.tolist() == [[13, 14, 0], [8, 0, 0], [5, 6, 7], [2, 3, 0]]
    assert len(part) == 2 and part.targets.tolist() == pytest.approx([0.4, 0.2]) and part.lengths.tolist() == [5, 3]


def test_segments_begin_where_the_second_text_does_and_are_read_after_the_mask():
    part = some([0, 1, 0, 1], TargetKind.ROW, borders=np.array([2, 1, 1, 1]))
    ids, mask, segments = part.to("cpu").read
    assert ids is part.ids or ids.equal(part.ids)
    assert segments.tolist() == [[0, 1], [0, 1]] and mask.tolist() == [[True, True], [True, False]]
