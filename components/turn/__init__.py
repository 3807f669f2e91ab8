"""Turn detection: where an utterance begins and ends."""
