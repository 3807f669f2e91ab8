"""Diffusion: prompts to pictures and clips."""
