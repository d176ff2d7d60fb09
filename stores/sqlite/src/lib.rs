//! The native log on one SQLite file.
