//! The last hour of a route as a row of blocks, one per minute.

use postroom_admin::view::ThroughputRow;
use postroom_core::Timestamp;

use crate::output::count;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MINUTES: i64 = 60;

/// A line of what was delivered, and one of what failed if something did; the last block is this minute.
pub(crate) fn hour(rows: &[ThroughputRow], now: Timestamp) -> String {
    let mut text = line("last hour", "delivered", rows, now, |row| row.delivered);
    if rows.iter().any(|row| row.retried + row.dead > 0) {
        text += &line("", "failed", rows, now, |row| row.retried + row.dead);
    }
    text
}

fn line(name: &str, what: &str, rows: &[ThroughputRow], now: Timestamp, value: fn(&ThroughputRow) -> u64) -> String {
    let first = now.as_second().div_euclid(60) - (MINUTES - 1);
    let of = |minute: i64| rows.iter().filter(|row| row.minute.as_second().div_euclid(60) == minute).map(value).sum();
    let values: Vec<u64> = (first..first + MINUTES).map(of).collect();
    let most = values.iter().copied().max().unwrap_or(0);
    let (sum, most_text) = (values.iter().sum::<u64>(), count(most, "event"));
    format!("\n  {name:15} {} {what} {sum}, at most {most_text} a minute", blocks(&values, most))
}

/// Nothing is a blank, anything at all at least the lowest block.
fn blocks(values: &[u64], most: u64) -> String {
    let block = |value: &u64| match value {
        0 => ' ',
        value => BLOCKS[usize::try_from((value * 8).div_ceil(most.max(1)) - 1).unwrap_or(0).min(7)],
    };
    values.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_high_as_what_was_done() {
        assert_eq!(blocks(&[0, 1, 50, 99, 100], 100), " ▁▄██");
        assert_eq!(blocks(&[0, 0], 0), "  ");
        assert_eq!(blocks(&[1, 1], 1), "██");
    }

    #[test]
    fn the_last_block_is_this_minute_and_what_is_older_is_left_out() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let row = |minute: &str, delivered, dead| ThroughputRow {
            store: "main".to_owned(),
            route: "r".to_owned(),
            minute: minute.parse().unwrap(),
            delivered,
            retried: 0,
            dead,
        };
        let rows =
            [row("2026-01-02T02:04:00Z", 7, 0), row("2026-01-02T02:05:00Z", 1, 0), row("2026-01-02T03:04:00Z", 8, 1)];
        let blank = " ".repeat(58);
        assert_eq!(
            hour(&rows, now),
            format!(
                "\n  last hour       ▁{blank}█ delivered 9, at most 8 events a minute\n                   {blank}█ failed 1, at most 1 event a minute"
            )
        );
    }
}
