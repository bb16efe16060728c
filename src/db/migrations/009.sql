-- Mail between agents and the operator (systems.md D14).
CREATE TABLE mail (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    thread      INTEGER NOT NULL,             -- the first message of the thread
    reply_to    INTEGER,
    sender      TEXT NOT NULL,                -- operator | skep (the hive) | an agent
    recipients  TEXT NOT NULL,                -- JSON list
    subject     TEXT NOT NULL,
    body        TEXT NOT NULL,
    attachments TEXT NOT NULL,                -- mail::Attachment as JSON list
    attached    INTEGER NOT NULL,             -- bytes of them
    sent_at     TEXT NOT NULL,
    automatic   INTEGER NOT NULL,             -- an agent sent it in answer to mail
    in_a_row    INTEGER NOT NULL,             -- of such messages, up to this one
    released    INTEGER NOT NULL DEFAULT 0    -- the operator let it go on
) STRICT;
CREATE INDEX mail_thread ON mail (thread, id);
CREATE INDEX mail_sender ON mail (sender, id);
CREATE INDEX mail_reply ON mail (reply_to) WHERE reply_to IS NOT NULL;

CREATE TABLE mail_delivery (
    mail_id   INTEGER NOT NULL REFERENCES mail (id) ON DELETE CASCADE,
    recipient TEXT NOT NULL,
    status    TEXT NOT NULL CHECK (status IN ('queued', 'delivered', 'answered', 'held', 'dead')),
    reason    TEXT,
    read_at   TEXT,
    event_id  INTEGER,                        -- the event whose runs answer it
    laid      INTEGER NOT NULL DEFAULT 0,     -- its files are in the recipient's workspace
    PRIMARY KEY (mail_id, recipient)
) STRICT, WITHOUT ROWID;
CREATE INDEX mail_delivery_box ON mail_delivery (recipient, mail_id);
CREATE INDEX mail_delivery_queued ON mail_delivery (mail_id, recipient) WHERE status = 'queued';

-- What is searched of each message, written by the program as it searches.
CREATE VIRTUAL TABLE mail_search USING fts5 (
    parties, subject, body,
    content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER mail_deleted AFTER DELETE ON mail BEGIN
    DELETE FROM mail_search WHERE rowid = old.id;
END;
