"""The command line: one short module per verb, which calls the library."""
