"""The realtime protocol as a state machine: events and frames in, effects out, no I/O."""
