"""What columns are called, by what they hold: the names as ``Column.key`` writes them."""

_WORDS = {
    "text": "text texts review sentence tweet content question comment body message title description document post",
    "label": "label labels class classes category sentiment target stars rating type y topic intent emotion",
    "sure label": "label labels class",  # whatever the column holds
    "list": "tags genres genre categories topics labels keywords classes emotions",  # several labels
    "annotation": "entities spans annotations relations ner completions result",
    "score": "score scores similarity similarityscore sim label labels relatedness",  # of a pair
    "judgement": "goldlabel entailment entailmentjudgment judgment judgement relation stance quality"
    " duplicate paraphrase correct relevance relevant answerable relatednessscore isduplicate"
    " isparaphrase iscorrect isrelevant isanswer similar issimilar",  # a label or a score of a pair
    "quantity": "target y score scores rating ratings stars grade grades points price value salary"
    " targetscore averagerating avgrating meanscore",
    "rating": "rating ratings star stars starrating score scores grade points overall overallrating"
    " reviewrating reviewscore severity satisfaction csat nps likert priority level quality rate",
    "reply": "chosen rejected",
    "tokens": "tokens words",
    "spans": "spans entities label labels",
}
NAMES = {holds: frozenset(words.split()) for holds, words in _WORDS.items()}
"""By what a column holds, what it is called."""
PAIRS = {
    **{"premise": ("hypothesis",), "claim": ("evidence",), "sentence": ("paraphrase",)},
    **{"context": ("response", "hypothesis"), "prompt": ("completion", "response")},
    "query": ("passage", "document", "doc", "text", "title", "product"),
    "question": ("answer", "sentence", "passage", "paragraph", "context", "response"),
}
"""What the two texts of a pair are called that has a label or score."""
HEADER_NAMES = NAMES["text"] | NAMES["label"] | {"id", "source", "name", "date", "tag"}
"""Names that are never mistaken for values of a row."""
