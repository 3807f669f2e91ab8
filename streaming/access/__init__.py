"""Who may use the server: keys, limits, admission, origins."""
