-- Documents (systems.md B1) count their versions from 1, beside the semantic versions of the skill that holds them.
-- Every way of publishing counts: the operator's folders, an agent's, an edit. A deleted skill begins anew.
CREATE TABLE document (
    skill_id    TEXT PRIMARY KEY REFERENCES skill (id) ON DELETE CASCADE,
    version     INTEGER NOT NULL CHECK (version > 0),
    created_on  TEXT NOT NULL,
    modified_on TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO document
    SELECT skill_id, count(*), min(registered_at), max(registered_at) FROM skill_version GROUP BY skill_id;
CREATE TRIGGER document_version AFTER INSERT ON skill_version BEGIN
    INSERT INTO document VALUES (new.skill_id, 1, new.registered_at, new.registered_at)
    ON CONFLICT (skill_id) DO UPDATE SET version = version + 1, modified_on = new.registered_at;
END;
