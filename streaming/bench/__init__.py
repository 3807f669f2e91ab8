"""Benchmarks: numbers that anyone can measure again with one command."""
