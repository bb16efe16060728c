//! The one SQLite file of a hive; all SQL lives here.
