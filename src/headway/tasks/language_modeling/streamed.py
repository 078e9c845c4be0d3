"""A language model on text that is read while it is trained on."""

from headway.data.batches.batch_source import BatchSource
from headway.data.stream.batch_source import StreamBatches
from headway.tasks.common.running_text import around_documents
from headway.tasks.common.streaming import Streaming
from headway.tasks.language_modeling.data import LanguageModelData
from headway.training.plan import Plan


class StreamedLanguageModelData(Streaming, LanguageModelData):
    """A decoder on shards."""

    def batch_source(self, plan: Plan) -> BatchSource:
        batch_source = StreamBatches(**self.what_is_read(plan, *around_documents(self.tokenizer)))
        batch_source.every = plan.evaluating.validation_every
        return batch_source
