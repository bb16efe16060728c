//! What is told of a run's end (systems.md A10, A14), put into the outbox with it.

use jiff::Timestamp;

use crate::{
    app::hive::Hive,
    db::{self, DbError, jobs::JobRow, runs::RunRow},
};

impl Hive {
    /// Puts what is to be told of a run's end into the outbox; answers whether anything was.
    pub(super) fn tell(
        &self,
        _tx: &db::Tx<'_>,
        _run: &RunRow,
        _job: &JobRow,
        _disabled: bool,
        _now: Timestamp,
    ) -> Result<bool, DbError> {
        Ok(false)
    }
}
