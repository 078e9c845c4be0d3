"""What every model is promised to do, each promise checked on the model at hand by a module of its own."""
