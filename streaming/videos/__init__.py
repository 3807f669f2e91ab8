"""OpenAI's video routes, and the clips behind them."""
