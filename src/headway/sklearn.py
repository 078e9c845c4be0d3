"""scikit-learn's estimators: ``from headway.sklearn import TextClassifier`` (pip install 'headway[sklearn]')."""

from headway.integrations.sklearn import MultiLabelClassifier, TextClassifier, TextEmbedder, TextRegressor

__all__ = ["MultiLabelClassifier", "TextClassifier", "TextEmbedder", "TextRegressor"]
