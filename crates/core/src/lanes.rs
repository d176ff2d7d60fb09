//! Whose each lane should be.

/// Assigns each lane to the live relay that scores highest for it and does not have its even share yet.
///
/// Every relay computes the same from the same heartbeats, whatever build it is. The score depends on relay and lane only,
/// so that a relay tends to hold the same lane of all routes.
pub fn share_lanes<'r>(lanes: usize, live: &[&'r str]) -> Vec<Option<&'r str>> {
    if let [] | [_] = live {
        return vec![live.first().copied(); lanes];
    }
    let (least, mut rest) = (lanes / live.len(), lanes % live.len());
    let mut load = vec![0; live.len()];
    (0..lanes)
        .map(|lane| {
            let open = (0..live.len()).filter(|relay| load[*relay] < least || (load[*relay] == least && rest > 0));
            let best = open.max_by_key(|relay| (score(live[*relay], lane), live[*relay]))?;
            rest -= usize::from(load[best] == least);
            load[best] += 1;
            Some(live[best])
        })
        .collect()
}

/// FNV-1a with a final mix: the standard library's hasher may change between builds, and relays must agree.
fn score(boot: &str, lane: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in boot.bytes().chain((lane as u64).to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_shared_evenly_and_every_lane_is_somebodys() {
        for relays in 1..=16 {
            let names: Vec<String> = (0..relays).map(|n| format!("boot-{n}")).collect();
            let live: Vec<&str> = names.iter().map(String::as_str).collect();
            let shared = share_lanes(16, &live);
            for name in &live {
                let load = shared.iter().filter(|owner| **owner == Some(name)).count();
                assert!((16 / relays..=16usize.div_ceil(relays)).contains(&load), "{name} of {relays} has {load}");
            }
            assert!(shared.iter().all(Option::is_some));
        }
        assert_eq!(share_lanes(2, &[]), [None, None]);
    }

    #[test]
    fn the_share_does_not_depend_on_the_order_of_the_relays() {
        assert_eq!(share_lanes(16, &["a", "b", "c"]), share_lanes(16, &["c", "a", "b"]));
    }
}
