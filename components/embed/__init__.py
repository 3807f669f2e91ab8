"""Embeddings: texts to vectors."""
