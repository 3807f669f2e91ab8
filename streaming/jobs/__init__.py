"""Durable jobs: a store and a queue in PostgreSQL, workers, routes."""
