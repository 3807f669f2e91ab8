"""Telephony: phone calls that carriers stream over a WebSocket, as realtime conversations."""
