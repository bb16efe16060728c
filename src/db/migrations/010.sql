-- Events and runs in a row that led to a message, so that mail does not hide what triggers itself.
ALTER TABLE mail ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
-- What is odd about a run's answer.
ALTER TABLE run ADD COLUMN warning TEXT;
-- What is known of the call that a run of a tool that is no script makes.
ALTER TABLE run ADD COLUMN act TEXT CHECK (act IN ('begun', 'failed', 'wrong'));
