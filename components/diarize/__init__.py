"""Speaker diarization: who spoke when."""
