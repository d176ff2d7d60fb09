//! Helpers for the tests of services that use Postroom.
