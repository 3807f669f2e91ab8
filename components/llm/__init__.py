"""Language models: prompts to text and tool calls."""
