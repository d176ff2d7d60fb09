//! Which hosts are this machine, where nobody else reads what passes by.

use std::net::IpAddr;

/// Whether a host, as a URL or a list of servers has it, is this machine beyond doubt: `localhost`, a loopback address or the path
/// of a socket. Every other name is looked up, and whoever answers the look-up decides where it leads.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_lead_elsewhere_is_this_machine() {
        for host in
            ["localhost", "LocalHost", "127.0.0.1", "127.8.9.1", "::1", "[::1]", "::ffff:127.0.0.1", "/run/postgresql"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "db", "127.1", "0.0.0.0", "localhost.example", "127.0.0.1.example", "10.0.0.1", "2001:db8::1"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
