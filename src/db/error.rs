//! Why the database did not do what was asked, told by what helps.
//!
//! SQLite's codes are sorted once, here; callers decide on [`DbFault`], people read the message.

use std::{io, path::Path};

use rusqlite::ErrorCode;

/// What kind of failure it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DbFault {
    /// No space left. Nothing of the transaction is there; it works again when there is space.
    Full,
    /// The file or its file system cannot be written.
    ReadOnly,
    /// The bytes are not those of a whole database.
    Damaged(String),
    /// A newer program wrote it: its schema, and the newest that this one knows.
    Newer(i64, i64),
    /// It is a database of something else.
    NotOurs,
    /// Another program held it too long.
    Busy,
    /// It cannot be opened or made.
    CannotOpen(String),
    /// A value in it is none that this program writes.
    BadValue(String),
    /// A rule of the schema was broken: a mistake of the program.
    Rule(String),
    /// The writer is gone, after [`super::Db`] was closed.
    Closed,
    /// The closure that was given panicked; its transaction was rolled back.
    Panicked,
    /// Anything else.
    Other(String),
}

/// A failure of the database, naming its file.
#[derive(Debug, thiserror::Error)]
#[error("the database {file} {}", describe(fault))]
pub struct DbError {
    /// What kind it is.
    pub fault: DbFault,
    file: String,
}

impl DbError {
    /// Names the file by its path.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.file = path.display().to_string();
        self
    }

    /// A row holds what cannot be.
    pub(super) fn bad_value(table: &str, column: &str, value: &str) -> Self {
        Self::from(DbFault::BadValue(format!("{table}.{column} = {value:?}")))
    }

    pub(super) fn cannot_make(error: &io::Error) -> Self {
        Self::from(match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => DbFault::ReadOnly,
            io::ErrorKind::StorageFull => DbFault::Full,
            _ => DbFault::CannotOpen(error.to_string()),
        })
    }
}

impl From<DbFault> for DbError {
    fn from(fault: DbFault) -> Self {
        Self { fault, file: ".skep/skep.db".into() }
    }
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        Self::from(match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => DbFault::Full,
            Some(ErrorCode::ReadOnly) => DbFault::ReadOnly,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DbFault::Damaged(text),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => DbFault::Busy,
            Some(ErrorCode::CannotOpen) => DbFault::CannotOpen(text),
            Some(ErrorCode::ConstraintViolation) => DbFault::Rule(text),
            _ => DbFault::Other(text),
        })
    }
}

fn describe(fault: &DbFault) -> String {
    match fault {
        DbFault::Full => "cannot grow: the disk is full. Nothing was lost; make space and try again".into(),
        DbFault::ReadOnly => "cannot be written: the file or its file system is read-only. Nothing was lost; make it writable and try again".into(),
        DbFault::Damaged(why) => format!(
            "is damaged ({why}). Run `skep doctor`, restore a backup with `skep restore`, or move the file away and start again: \
             nothing written by hand is in it (skep.toml, skills, souls and secrets stay)"
        ),
        DbFault::Newer(found, known) => format!(
            "has schema {found}, and this skep knows schemas up to {known}: it was written by a newer skep. \
             Run that newer one, or put back the copy that it made before migrating (skep.db.v{known}.bak)"
        ),
        DbFault::NotOurs => "is a database of another program: move it away and start again".into(),
        DbFault::Busy => "is held by another program: end whatever has it open".into(),
        DbFault::CannotOpen(why) => format!("cannot be opened ({why}): check that its folder is there and writable"),
        DbFault::BadValue(what) => format!("holds a value that skep never writes ({what}): run `skep doctor`"),
        DbFault::Rule(why) => format!("refused a change against its own rules ({why}); this is a mistake in skep"),
        DbFault::Closed => "is closed: the supervisor is stopping".into(),
        DbFault::Panicked => "rolled back a change that failed within skep; this is a mistake in skep".into(),
        DbFault::Other(why) => format!("failed ({why})"),
    }
}
