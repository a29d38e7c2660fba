"""Data synthesis: samples and lineages of searches become start states, kept as a Hugging Face `datasets` folder."""
