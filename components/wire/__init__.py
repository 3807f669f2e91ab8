"""Frames on the wire: the protobuf schema and its codec."""
