"""Neural codecs: the codes of speech models to sound."""
