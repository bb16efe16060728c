-- A job: what was asked for is `spec` (scheduler::job::JobSpec as JSON); the rest is what became of it.
CREATE TABLE job (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    agent                TEXT NOT NULL,
    name                 TEXT NOT NULL,
    origin               TEXT NOT NULL,          -- config | api | agent:<id>
    spec                 TEXT NOT NULL,
    trigger_type         TEXT NOT NULL,          -- of spec, for filters
    enabled              INTEGER NOT NULL,
    disabled_reason      TEXT,
    auto_enable          INTEGER NOT NULL DEFAULT 0, -- disabled until its tools exist, once (A12)
    anchor_at            TEXT NOT NULL,          -- what an interval counts from: last start, or creation
    next_fire_at         TEXT,                   -- nominal; none: no fire time ahead
    next_shifted_from    TEXT,                   -- the wall-clock time that did not exist, of next_fire_at
    next_due_at          TEXT,                   -- next_fire_at and the jitter
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    backoff_until        TEXT,
    last_run_id          INTEGER,
    last_run_at          TEXT,
    last_run_status      TEXT,
    last_run_summary     TEXT,
    last_notified_at     TEXT,
    created_at           TEXT NOT NULL,
    updated_at           TEXT NOT NULL,
    heard_until          INTEGER NOT NULL DEFAULT 0, -- events up to this id are its past
    UNIQUE (agent, name)
) STRICT;
CREATE INDEX job_due ON job (next_due_at) WHERE next_due_at IS NOT NULL;
CREATE INDEX job_event ON job (id) WHERE trigger_type = 'event' AND enabled;
CREATE INDEX job_waiting ON job (id) WHERE auto_enable;

-- A run: one attempt of one execution, or one or more fire times that were skipped.
CREATE TABLE run (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id         INTEGER REFERENCES job (id) ON DELETE SET NULL,
    agent          TEXT NOT NULL,
    job_name       TEXT NOT NULL,
    tier           TEXT NOT NULL,
    cause          TEXT NOT NULL,               -- schedule | catch_up | event | manual
    scheduled_at   TEXT NOT NULL,               -- nominal fire time; else when it was asked for
    shifted_from   TEXT,
    attempt        INTEGER NOT NULL DEFAULT 1,
    status         TEXT NOT NULL,
    reason         TEXT,                        -- of a skip
    skipped        INTEGER,                     -- fire times that this row stands for, when more than one
    skipped_until  TEXT,                        -- the last of them
    event_id       INTEGER,
    depth          INTEGER NOT NULL DEFAULT 0,  -- events in a row that led here
    spec           TEXT,                        -- JobSpec as claimed, until it is over
    overlap        TEXT NOT NULL DEFAULT 'allow',
    due_at         TEXT NOT NULL,               -- not leased before
    ending         TEXT,                        -- asked to end: cancelled | replaced
    lease          TEXT,                        -- the supervisor that holds it
    container      TEXT,                        -- what it was started in
    proc_id        INTEGER,                     -- its process on the init's link
    created_at     TEXT NOT NULL,
    started_at     TEXT,
    finished_at    TEXT,
    exit_code      INTEGER,
    result         TEXT,                        -- JSON
    error          TEXT,
    summary        TEXT,
    output_bytes   INTEGER,                     -- kept on disk; none: nothing kept
    steps          INTEGER NOT NULL DEFAULT 0   -- tool calls made (A13)
) STRICT;
-- A fire time is claimed once.
CREATE UNIQUE INDEX run_claim ON run (job_id, scheduled_at, attempt) WHERE cause IN ('schedule', 'catch_up');
CREATE INDEX run_bulk ON run (job_id, skipped_until) WHERE skipped_until IS NOT NULL;
CREATE UNIQUE INDEX run_event ON run (job_id, event_id, attempt) WHERE cause = 'event';
CREATE INDEX run_queued ON run (due_at, id) WHERE status = 'queued';
CREATE INDEX run_retry ON run (job_id, id) WHERE status = 'queued' AND attempt > 1;
CREATE INDEX run_by_agent ON run (agent, id);
CREATE INDEX run_by_agent_status ON run (agent, status, id);
CREATE INDEX run_by_job ON run (job_id, id);
CREATE INDEX run_by_job_status ON run (job_id, status, id);
CREATE INDEX run_by_status ON run (status, id);
CREATE INDEX run_finished ON run (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX run_output ON run (id) WHERE output_bytes IS NOT NULL;

-- Nothing new starts for the agent ('' is the whole hive), across restarts (A29).
CREATE TABLE halt (
    agent TEXT PRIMARY KEY,
    since TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notification (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    target       TEXT NOT NULL,              -- name of a target in [notify]
    notice       TEXT NOT NULL,              -- notify::message::Notice as JSON, never a secret
    created_at   TEXT NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      TEXT,                       -- none: over
    delivered_at TEXT,
    error        TEXT                        -- of the last attempt
) STRICT;
-- The oldest that is not over, of each target.
CREATE INDEX notification_head ON notification (target, id) WHERE next_at IS NOT NULL;

-- How many events and runs in a row led to an event: what triggers itself is stopped by it.
ALTER TABLE event ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
-- The job whose run an event tells of; it is not triggered by it.
ALTER TABLE event ADD COLUMN job_id INTEGER;
CREATE INDEX event_at ON event (at);
