"""OpenAI's image routes, and what each saving costs."""
