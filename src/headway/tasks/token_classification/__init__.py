"""Token classification: a tag for each word of a text, and the spans that the tags make."""
