"""A masked language model on text that is read while it is trained on."""

from headway.data.batches.batch_source import Feed
from headway.data.stream.batch_source import FramedStreamFeed
from headway.tasks.common.streaming import Streaming
from headway.tasks.masked_lm.data import MaskedLMData, frame_of
from headway.training.plan import Plan


class StreamedMaskedLMData(Streaming, MaskedLMData):
    """An encoder with a masked-token head on shards."""

    def feed(self, plan: Plan) -> Feed:
        feed = FramedStreamFeed(**self.what_is_read(plan, self.tokenizer.sep), frame=frame_of(self.tokenizer))
        feed.every = plan.evaluating.validation_every
        return feed
