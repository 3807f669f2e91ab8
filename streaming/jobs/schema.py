"""The tables of jobs and webhooks, made where they are missing."""

from __future__ import annotations

from typing import LiteralString

VERSION = 3

TABLES: LiteralString = """
CREATE TABLE IF NOT EXISTS motet_schema (version integer NOT NULL);

CREATE TABLE IF NOT EXISTS motet_jobs (
    id text PRIMARY KEY,
    owner text NOT NULL,
    pipeline text NOT NULL,
    state text NOT NULL DEFAULT 'queued',
    priority integer NOT NULL DEFAULT 0,
    input jsonb NOT NULL,
    options jsonb NOT NULL DEFAULT '{}',
    metadata jsonb NOT NULL DEFAULT '{}',
    webhook jsonb,
    attempt integer NOT NULL DEFAULT 0,
    done double precision NOT NULL DEFAULT 0,
    total double precision NOT NULL DEFAULT 0,
    result jsonb,
    error jsonb,
    owner_limit integer,
    retention_s double precision NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    expires_at timestamptz
);
ALTER TABLE motet_jobs ADD COLUMN IF NOT EXISTS refused integer NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS motet_jobs_owner ON motet_jobs (owner, created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS motet_jobs_endpoint ON motet_jobs ((webhook ->> 'endpoint'))
    WHERE webhook IS NOT NULL;
CREATE INDEX IF NOT EXISTS motet_jobs_state ON motet_jobs
    (owner, state, created_at DESC, id DESC);
DROP INDEX IF EXISTS motet_jobs_running;
CREATE INDEX IF NOT EXISTS motet_jobs_live ON motet_jobs (id)
    WHERE state IN ('queued', 'running');
CREATE INDEX IF NOT EXISTS motet_jobs_expiry ON motet_jobs (expires_at)
    WHERE expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS motet_requests (
    owner text NOT NULL,
    key text NOT NULL,
    digest text NOT NULL,
    jobs text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, key)
);
CREATE INDEX IF NOT EXISTS motet_requests_age ON motet_requests (created_at);

CREATE TABLE IF NOT EXISTS motet_chunks (
    job text NOT NULL REFERENCES motet_jobs (id) ON DELETE CASCADE,
    key text NOT NULL,
    number bigserial,
    attempt integer NOT NULL,
    value jsonb NOT NULL,
    PRIMARY KEY (job, key)
);

CREATE TABLE IF NOT EXISTS motet_endpoints (
    id text PRIMARY KEY,
    owner text NOT NULL,
    url text NOT NULL,
    events text[] NOT NULL DEFAULT '{}',
    secrets jsonb NOT NULL,
    disabled text,
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE motet_endpoints ADD COLUMN IF NOT EXISTS once boolean NOT NULL DEFAULT false;
CREATE INDEX IF NOT EXISTS motet_endpoints_owner ON motet_endpoints (owner) WHERE NOT once;

CREATE TABLE IF NOT EXISTS motet_deliveries (
    id text PRIMARY KEY,
    event text NOT NULL,
    owner text NOT NULL,
    endpoint text NOT NULL REFERENCES motet_endpoints (id) ON DELETE CASCADE,
    job text NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    attempts integer NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE motet_deliveries ADD COLUMN IF NOT EXISTS before integer NOT NULL DEFAULT 0;
DROP INDEX IF EXISTS motet_deliveries_due;
CREATE INDEX IF NOT EXISTS motet_deliveries_waiting ON motet_deliveries (endpoint, next_at)
    WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS motet_deliveries_owner
    ON motet_deliveries (owner, created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS motet_deliveries_failed
    ON motet_deliveries (owner, created_at DESC, id DESC) WHERE state = 'failed';
CREATE INDEX IF NOT EXISTS motet_deliveries_endpoint
    ON motet_deliveries (endpoint, created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS motet_deliveries_age ON motet_deliveries USING brin (created_at);

CREATE TABLE IF NOT EXISTS motet_delivery_log (
    delivery text NOT NULL REFERENCES motet_deliveries (id) ON DELETE CASCADE,
    attempt integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    request jsonb NOT NULL,
    status integer,
    response text,
    error text,
    latency_ms double precision NOT NULL,
    PRIMARY KEY (delivery, attempt)
);
"""

QUEUE: LiteralString = """
CREATE INDEX IF NOT EXISTS motet_queue_lock ON procrastinate_jobs (lock)
    WHERE status IN ('todo', 'doing');
"""
"""Procrastinate looks for others of the same lock whenever it fetches, and has no index that begins
with it: it reads a whole index for each job, which is as long as the queue."""
