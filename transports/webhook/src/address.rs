//! Where requests may go: public addresses, and the networks the configuration allows.
//!
//! A URL often comes from somebody else, and what it names may be inside our own network. So the *resolved* address is
//! looked at, of every new connection ([`crate::resolver`]); an address that stands in the URL itself is looked at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// IPv4 networks that are not the public internet, by the special-purpose registry.
const V4: [([u8; 4], u8, &str); 16] = [
    ([0, 0, 0, 0], 8, "this network"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "shared with the provider (CGNAT)"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link-local, where clouds keep their metadata"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "for protocols"),
    ([192, 0, 2, 0], 24, "for documentation"),
    ([192, 88, 99, 0], 24, "a 6to4 relay"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "for benchmarks"),
    ([198, 51, 100, 0], 24, "for documentation"),
    ([203, 0, 113, 0], 24, "for documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// IPv6 networks that are not the public internet. What is in none of them and not in `2000::/3` is not either.
const V6: [([u16; 8], u8, &str); 15] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "an IPv4 address in disguise"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "an IPv4 address in disguise"),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "an IPv4 address behind NAT64"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "an IPv4 address behind NAT64"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "an IPv4 address behind Teredo"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "for documentation"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "for protocols"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "an IPv4 address behind 6to4"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "for documentation"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "private"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
];

/// Decides about addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    allowed: Vec<IpNet>,
}

impl Guard {
    /// Lets public addresses through, and those in these networks.
    pub(crate) fn new(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    /// Why nothing may go to this address; `None` when it may.
    pub(crate) fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        if self.allowed.iter().any(|network| network.contains(&address)) {
            return None;
        }
        match address {
            IpAddr::V4(address) => v4(address),
            IpAddr::V6(address) => v6(address),
        }
    }
}

fn v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |network: [u8; 4], prefix: u8| {
        let mask = u32::MAX << (32 - u32::from(prefix));
        address.to_bits() & mask == u32::from_be_bytes(network)
    };
    V4.iter().find(|(network, prefix, _)| within(*network, *prefix)).map(|(_, _, what)| *what)
}

fn v6(address: Ipv6Addr) -> Option<&'static str> {
    let within = |network: [u16; 8], prefix: u8| {
        let mask = u128::MAX << (128 - u32::from(prefix));
        address.to_bits() & mask == Ipv6Addr::from(network).to_bits()
    };
    let special = V6.iter().find(|(network, prefix, _)| within(*network, *prefix)).map(|(_, _, what)| *what);
    special.or_else(|| (!within([0x2000, 0, 0, 0, 0, 0, 0, 0], 3)).then_some("not assigned"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_let_through() {
        let guard = Guard::default();
        for (address, expected) in [
            ("0.0.0.0", Some("this network")),
            ("0.1.2.3", Some("this network")),
            ("1.1.1.1", None),
            ("8.8.8.8", None),
            ("9.255.255.255", None),
            ("10.0.0.0", Some("private")),
            ("10.255.255.255", Some("private")),
            ("11.0.0.0", None),
            ("93.184.216.34", None),
            ("100.63.255.255", None),
            ("100.64.0.1", Some("shared with the provider (CGNAT)")),
            ("100.127.255.255", Some("shared with the provider (CGNAT)")),
            ("100.128.0.0", None),
            ("126.255.255.255", None),
            ("127.0.0.1", Some("loopback")),
            ("127.255.255.254", Some("loopback")),
            ("128.0.0.1", None),
            ("169.253.255.255", None),
            ("169.254.0.1", Some("link-local, where clouds keep their metadata")),
            ("169.254.169.254", Some("link-local, where clouds keep their metadata")),
            ("169.255.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.1", Some("private")),
            ("172.31.255.255", Some("private")),
            ("172.32.0.0", None),
            ("192.0.0.8", Some("for protocols")),
            ("192.0.1.1", None),
            ("192.0.2.1", Some("for documentation")),
            ("192.88.99.1", Some("a 6to4 relay")),
            ("192.167.255.255", None),
            ("192.168.0.1", Some("private")),
            ("192.168.255.255", Some("private")),
            ("192.169.0.0", None),
            ("198.17.255.255", None),
            ("198.18.0.1", Some("for benchmarks")),
            ("198.19.255.255", Some("for benchmarks")),
            ("198.20.0.0", None),
            ("198.51.100.7", Some("for documentation")),
            ("203.0.113.7", Some("for documentation")),
            ("223.255.255.255", None),
            ("224.0.0.1", Some("multicast")),
            ("239.255.255.250", Some("multicast")),
            ("240.0.0.1", Some("reserved")),
            ("255.255.255.255", Some("broadcast")),
            ("::", Some("unspecified")),
            ("::1", Some("loopback")),
            ("::7f00:1", Some("an IPv4 address in disguise")),
            ("::ffff:127.0.0.1", Some("an IPv4 address in disguise")),
            ("::ffff:169.254.169.254", Some("an IPv4 address in disguise")),
            ("::ffff:8.8.8.8", Some("an IPv4 address in disguise")),
            ("64:ff9b::a00:1", Some("an IPv4 address behind NAT64")),
            ("64:ff9b:1::a00:1", Some("an IPv4 address behind NAT64")),
            ("100::1", Some("not assigned")),
            ("2001::1", Some("an IPv4 address behind Teredo")),
            ("2001:2::1", Some("for protocols")),
            ("2001:20::1", Some("for protocols")),
            ("2001:200::1", None),
            ("2001:4860:4860::8888", None),
            ("2001:db8::1", Some("for documentation")),
            ("2002:7f00:1::", Some("an IPv4 address behind 6to4")),
            ("2606:4700:4700::1111", None),
            ("2a00:1450:4001:81b::200e", None),
            ("3fff::1", Some("for documentation")),
            ("4000::1", Some("not assigned")),
            ("5f00::1", Some("not assigned")),
            ("fc00::1", Some("private")),
            ("fd00:ec2::254", Some("private")),
            ("fe80::1", Some("link-local")),
            ("fec0::1", Some("site-local")),
            ("ff02::1", Some("multicast")),
        ] {
            assert_eq!(guard.refuses(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn an_allowed_network_is_let_through_and_nothing_beside_it() {
        let guard = Guard::new(vec!["10.1.0.0/16".parse().unwrap(), "fd12::/32".parse().unwrap()]);
        for (address, passes) in [
            ("10.1.0.1", true),
            ("10.2.0.1", false),
            ("fd12:0:1::5", true),
            ("fd13::1", false),
            ("::ffff:10.1.0.1", false),
            ("127.0.0.1", false),
            ("8.8.8.8", true),
        ] {
            assert_eq!(guard.refuses(address.parse().unwrap()).is_none(), passes, "{address}");
        }
    }
}
