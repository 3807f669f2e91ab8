"""Models behind one protocol: frames in, frames out, one file per engine."""
