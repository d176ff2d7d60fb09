//! From configuration to running relays: knows every store and transport.
