"""Voice activity detection: how likely each moment holds speech."""
