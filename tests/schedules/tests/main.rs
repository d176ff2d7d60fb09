//! Schedules over the real stores, a few seeds each.

mod adopted;
mod postgres;
mod sqlite;
