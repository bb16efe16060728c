-- A background task (systems.md A21): runs that belong to no job. What became of it outlives them.
CREATE TABLE task (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    agent       TEXT NOT NULL,               -- in whose container it runs
    name        TEXT NOT NULL,
    action      TEXT NOT NULL,               -- JSON as it is shown
    run_id      INTEGER NOT NULL,            -- its newest attempt
    attempt     INTEGER NOT NULL DEFAULT 1,
    outcome     TEXT CHECK (outcome IN ('completed', 'failed')),
    result      TEXT,                        -- JSON
    error       TEXT,
    created_at  TEXT NOT NULL,
    started_at  TEXT,                        -- its first attempt
    finished_at TEXT
) STRICT;
CREATE UNIQUE INDEX task_run ON task (run_id);
CREATE INDEX task_finished ON task (finished_at) WHERE finished_at IS NOT NULL;

-- What the hive itself keeps in mind for models to look up: errors of tasks.
CREATE TABLE fact (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    agent      TEXT NOT NULL,                -- in whose name it is kept: orchestrator
    about      TEXT NOT NULL,                -- the agent that it concerns
    category   TEXT NOT NULL,
    fact       TEXT NOT NULL,
    source     TEXT NOT NULL,                -- what it came of: task:7
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX fact_category ON fact (category, id);
