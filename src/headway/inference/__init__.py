"""From a saved model to answers: ``load`` gives the pipeline of its task."""

from headway.inference.load import load

__all__ = ["load"]
