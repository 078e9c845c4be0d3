"""Words on the command line to calls of the library: one short module per verb."""
