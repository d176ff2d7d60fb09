//! The suites find broken transports and windows.

mod lists;
mod transports;
mod window;
