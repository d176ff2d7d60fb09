//! Topics of a group's members, from the bytes that Kafka's consumer protocol keeps for them.

use std::collections::BTreeSet;

use rdkafka::groups::GroupInfo;

/// The topics that the members are subscribed to or have partitions of.
pub(super) fn topics(group: &GroupInfo) -> BTreeSet<String> {
    let mut topics = BTreeSet::new();
    for member in group.members() {
        topics.extend(member.metadata().and_then(subscribed).into_iter().flatten());
        topics.extend(member.assignment().and_then(assigned).into_iter().flatten());
    }
    topics
}

/// A version, and names.
fn subscribed(bytes: &[u8]) -> Option<Vec<String>> {
    let mut bytes = bytes.get(2..)?;
    (0..count(&mut bytes)?).map(|_| name(&mut bytes)).collect()
}

/// A version, and names with their partitions.
fn assigned(bytes: &[u8]) -> Option<Vec<String>> {
    let mut bytes = bytes.get(2..)?;
    let topics = count(&mut bytes)?;
    let topic = |_| {
        let name = name(&mut bytes)?;
        let partitions = count(&mut bytes)?;
        bytes = bytes.get(partitions.checked_mul(4)?..)?;
        Some(name)
    };
    (0..topics).map(topic).collect()
}

fn count(bytes: &mut &[u8]) -> Option<usize> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(i32::from_be_bytes(*head)).ok()
}

fn name(bytes: &mut &[u8]) -> Option<String> {
    let (head, rest) = bytes.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*head).into())?;
    *bytes = rest;
    String::from_utf8(name.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_members_read_is_found_and_other_bytes_are_nothing() {
        let names = b"\0\x01\0\0\0\x02\0\x01a\0\x02bc\xff\xff\xff\xff";
        assert_eq!(subscribed(names), Some(vec!["a".to_owned(), "bc".to_owned()]));
        let partitions = b"\0\0\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x01\0\x01b\0\0\0\0\0\0\0\0";
        assert_eq!(assigned(partitions), Some(vec!["a".to_owned(), "b".to_owned()]));
        for bytes in [&b""[..], b"\0", b"\0\0\0\0\0\x02\0\x01a", b"\0\0\x7f\xff\xff\xff", b"\0\0\xff\xff\xff\xff"] {
            assert_eq!((subscribed(bytes), assigned(bytes)), (None, None), "{bytes:?}");
        }
    }
}
