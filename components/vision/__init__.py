"""Vision: encoders, image and video preparation, and reading text from pictures."""
