-- What a caller was answered under an Idempotency-Key: a repeat of the request is answered the same.
CREATE TABLE idempotency (
    caller  TEXT NOT NULL,       -- '' is the operator
    route   TEXT NOT NULL,       -- method and path
    key     TEXT NOT NULL,
    request TEXT NOT NULL,       -- hash of the body
    answer  TEXT NOT NULL,       -- JSON
    at      TEXT NOT NULL,
    PRIMARY KEY (caller, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);

-- What skep.toml last said of `enabled`, for a job of origin config: a change of it is told from what happened since.
ALTER TABLE job ADD COLUMN written_enabled INTEGER;
