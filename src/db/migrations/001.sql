-- Times are RFC 3339 in UTC with milliseconds, so that they sort as text.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE skill (
    id            TEXT PRIMARY KEY,
    owner         TEXT NOT NULL,              -- built-in | operator | agent:<id>
    enabled       INTEGER NOT NULL DEFAULT 1,
    registered_at TEXT NOT NULL,
    updated_at    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE skill_version (
    skill_id      TEXT NOT NULL REFERENCES skill (id) ON DELETE CASCADE,
    version       TEXT NOT NULL,
    digest        TEXT NOT NULL,
    manifest      TEXT NOT NULL,              -- skill::model::Skill as JSON
    dependencies  TEXT NOT NULL,              -- JSON list of references, apart so that the index loads fast
    trust         TEXT NOT NULL CHECK (trust IN ('trusted', 'approved', 'pending', 'rejected')),
    yanked        INTEGER NOT NULL DEFAULT 0,
    deprecated    TEXT,                       -- the message
    source        TEXT NOT NULL,              -- where it came from, for people
    registered_at TEXT NOT NULL,
    PRIMARY KEY (skill_id, version)
) STRICT, WITHOUT ROWID;

-- A published version is never reused, also after its skill was deleted.
CREATE TABLE retired_version (
    skill_id TEXT NOT NULL,
    version  TEXT NOT NULL,
    digest   TEXT NOT NULL,
    PRIMARY KEY (skill_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent (
    id         TEXT PRIMARY KEY,
    uid        INTEGER NOT NULL UNIQUE,
    desired    TEXT NOT NULL CHECK (desired IN ('running', 'stopped')),
    generation INTEGER NOT NULL DEFAULT 1,    -- of the desired state
    restarts   INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The outbox: written in the transaction of the change that it tells of.
CREATE TABLE event (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    at   TEXT NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL                        -- JSON
) STRICT;
