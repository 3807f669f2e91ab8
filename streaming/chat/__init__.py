"""OpenAI's chat route: its request, its parts, its answer."""
