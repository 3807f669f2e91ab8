"""OpenAI's audio routes: transcriptions, translations, speech, voices."""
