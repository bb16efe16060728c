-- The event that made a run; its data until the run is over.
ALTER TABLE run ADD COLUMN event_name TEXT;
ALTER TABLE run ADD COLUMN event_data TEXT;

-- A job that was taken out of skep.toml: put back, it goes on as the same job.
ALTER TABLE job ADD COLUMN removed_at TEXT;
CREATE INDEX job_removed ON job (removed_at) WHERE removed_at IS NOT NULL;
CREATE VIEW live_job AS SELECT * FROM job WHERE removed_at IS NULL;
