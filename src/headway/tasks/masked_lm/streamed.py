"""A masked language model on text that is read while it is trained on."""

from headway.data.batches.batch_source import BatchSource
from headway.data.stream.batch_source import FramedStreamBatches
from headway.tasks.common.streaming import Streaming
from headway.tasks.masked_lm.data import MaskedLMData, frame_of
from headway.training.plan import Plan


class StreamedMaskedLMData(Streaming, MaskedLMData):
    """An encoder with a masked-token head on shards."""

    def batch_source(self, plan: Plan) -> BatchSource:
        batch_source = FramedStreamBatches(
            **self.what_is_read(plan, [], self.tokenizer.sep), frame=frame_of(self.tokenizer)
        )
        batch_source.every = plan.evaluating.validation_every
        return batch_source
