-- Manifests stand apart from what every start reads, and what lists show of a version stands beside it.
CREATE TABLE skill_manifest (
    skill_id TEXT NOT NULL,
    version  TEXT NOT NULL,
    manifest TEXT NOT NULL,                   -- skill::model::Skill as JSON
    PRIMARY KEY (skill_id, version)
) STRICT;
INSERT INTO skill_manifest SELECT skill_id, version, manifest FROM skill_version;

CREATE TABLE skill_version_4 (
    skill_id      TEXT NOT NULL REFERENCES skill (id) ON DELETE CASCADE,
    version       TEXT NOT NULL,
    digest        TEXT NOT NULL,
    dependencies  TEXT NOT NULL,              -- JSON list of references
    trust         TEXT NOT NULL CHECK (trust IN ('trusted', 'approved', 'pending', 'rejected')),
    yanked        INTEGER NOT NULL DEFAULT 0,
    deprecated    TEXT,                       -- the message
    name          TEXT NOT NULL,
    tags          TEXT NOT NULL,              -- JSON list
    description   TEXT NOT NULL,
    source        TEXT NOT NULL,              -- where it came from, for people
    registered_at TEXT NOT NULL,
    PRIMARY KEY (skill_id, version)
) STRICT, WITHOUT ROWID;
INSERT INTO skill_version_4
    SELECT skill_id, version, digest, dependencies, trust, yanked, deprecated, manifest ->> '$.name',
           manifest -> '$.tags', manifest ->> '$.description', source, registered_at
    FROM skill_version;
DROP TABLE skill_version;
ALTER TABLE skill_version_4 RENAME TO skill_version;
CREATE TRIGGER skill_version_deleted AFTER DELETE ON skill_version BEGIN
    DELETE FROM skill_manifest WHERE skill_id = old.skill_id AND version = old.version;
END;

-- What is searched: the latest version of each skill, filled by the program.
CREATE TABLE skill_text (
    rowid       INTEGER PRIMARY KEY,
    skill_id    TEXT NOT NULL UNIQUE REFERENCES skill (id) ON DELETE CASCADE,
    version     TEXT NOT NULL,
    name        TEXT NOT NULL,
    description TEXT NOT NULL,
    tags        TEXT NOT NULL,
    content     TEXT NOT NULL
) STRICT;
CREATE INDEX skill_text_version ON skill_text (skill_id, version);
CREATE VIRTUAL TABLE skill_search USING fts5 (
    skill_id, name, description, tags, content,
    content = 'skill_text', content_rowid = 'rowid', tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO skill_search (skill_search, rank) VALUES ('rank', 'bm25(8.0, 8.0, 4.0, 4.0, 1.0)');
CREATE TRIGGER skill_text_inserted AFTER INSERT ON skill_text BEGIN
    INSERT INTO skill_search (rowid, skill_id, name, description, tags, content)
    VALUES (new.rowid, new.skill_id, new.name, new.description, new.tags, new.content);
END;
CREATE TRIGGER skill_text_deleted AFTER DELETE ON skill_text BEGIN
    INSERT INTO skill_search (skill_search, rowid, skill_id, name, description, tags, content)
    VALUES ('delete', old.rowid, old.skill_id, old.name, old.description, old.tags, old.content);
END;
CREATE TRIGGER skill_text_updated AFTER UPDATE ON skill_text BEGIN
    INSERT INTO skill_search (skill_search, rowid, skill_id, name, description, tags, content)
    VALUES ('delete', old.rowid, old.skill_id, old.name, old.description, old.tags, old.content);
    INSERT INTO skill_search (rowid, skill_id, name, description, tags, content)
    VALUES (new.rowid, new.skill_id, new.name, new.description, new.tags, new.content);
END;

-- What skep.lock held for an agent, each time that it changed: for rollback.
CREATE TABLE lock_history (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    agent  TEXT NOT NULL,
    at     TEXT NOT NULL,
    locked TEXT NOT NULL                      -- JSON: version and digest by skill
) STRICT;
CREATE INDEX lock_history_agent ON lock_history (agent, id);
