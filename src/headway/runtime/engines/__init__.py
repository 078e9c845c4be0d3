"""Other libraries that compute what a model answers, from its exports.  ``registry`` lists them."""
