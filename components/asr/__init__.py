"""Speech recognition: audio of utterances to transcripts."""
