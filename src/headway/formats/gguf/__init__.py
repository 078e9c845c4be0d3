"""Files of llama.cpp, and its engine."""
