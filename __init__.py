"""Motet serves graphs of speech, vision, image and video models on your own machines."""
