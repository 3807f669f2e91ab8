"""What whoever runs the server sees and changes."""
