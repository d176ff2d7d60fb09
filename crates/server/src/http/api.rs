//! What the API answers, by what is asked.

pub(super) mod act;
pub(super) mod append;
pub(super) mod live;
pub(super) mod look;
pub(super) mod pull;
pub(super) mod replay;
