"""The model in the box: emoji as pictures and clips from words; its training and its scores."""
