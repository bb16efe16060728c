-- The event that made a run; its data until the run is over.
ALTER TABLE run ADD COLUMN event_name TEXT;
ALTER TABLE run ADD COLUMN event_data TEXT;

-- A job that was taken out of skep.toml: put back, it goes on as the same job.
ALTER TABLE job ADD COLUMN removed_at TEXT;
CREATE INDEX job_removed ON job (removed_at) WHERE removed_at IS NOT NULL;
CREATE VIEW live_job AS SELECT * FROM job WHERE removed_at IS NULL;

-- Whether a first attempt of a job waits is asked at each of its events, however many wait.
CREATE INDEX run_first ON run (job_id, cause, id) WHERE status = 'queued' AND attempt = 1 AND cause <> 'catch_up';

-- How many runs of an agent wait, likewise.
CREATE TABLE waiting (
    agent TEXT PRIMARY KEY,
    runs  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO waiting SELECT agent, count(*) FROM run WHERE status = 'queued' GROUP BY agent;
CREATE TRIGGER run_waits AFTER INSERT ON run WHEN new.status = 'queued' BEGIN
    INSERT INTO waiting VALUES (new.agent, 1) ON CONFLICT DO UPDATE SET runs = runs + 1;
END;
CREATE TRIGGER run_waits_again AFTER UPDATE OF status ON run
WHEN old.status <> 'queued' AND new.status = 'queued' BEGIN
    INSERT INTO waiting VALUES (new.agent, 1) ON CONFLICT DO UPDATE SET runs = runs + 1;
END;
CREATE TRIGGER run_waits_no_more AFTER UPDATE OF status ON run
WHEN old.status = 'queued' AND new.status <> 'queued' BEGIN
    UPDATE waiting SET runs = runs - 1 WHERE agent = new.agent;
END;
CREATE TRIGGER run_gone AFTER DELETE ON run WHEN old.status = 'queued' BEGIN
    UPDATE waiting SET runs = runs - 1 WHERE agent = old.agent;
END;
