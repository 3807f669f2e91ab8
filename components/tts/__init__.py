"""Speech synthesis: text as it is written to audio as it is spoken."""
