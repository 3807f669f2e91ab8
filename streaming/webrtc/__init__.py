"""The WebRTC door: calls from browsers, in the realtime protocol."""
