//! The last hour of a route as a row of blocks: one per minute, or per two minutes where a terminal has no room for sixty.

use postroom_admin::view::ThroughputRow;
use postroom_core::Timestamp;

use crate::output::count;
use crate::screen::Screen;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MINUTES: i64 = 60;
/// Columns of the name in front of the blocks.
const NAME: usize = 18;

/// Blocks of what was delivered, and of what failed if something did, each with its sums below; the last block is this minute.
pub(crate) fn hour(rows: &[ThroughputRow], now: Timestamp) -> String {
    let has_room = Screen::get().width.is_none_or(|width| width >= NAME + 60);
    let each = if has_room { 1 } else { 2 };
    let mut text = line("last hour", "delivered", rows, now, each, |row| row.delivered);
    if rows.iter().any(|row| row.retried + row.dead > 0) {
        text += &line("", "failed", rows, now, each, |row| row.retried + row.dead);
    }
    text
}

/// `each` is how many minutes a block has.
fn line(
    name: &str,
    what: &str,
    rows: &[ThroughputRow],
    now: Timestamp,
    each: usize,
    value: fn(&ThroughputRow) -> u64,
) -> String {
    let first = now.as_second().div_euclid(60) - (MINUTES - 1);
    let of = |minute: i64| rows.iter().filter(|row| row.minute.as_second().div_euclid(60) == minute).map(value).sum();
    let values: Vec<u64> = (first..first + MINUTES).map(of).collect();
    let most = values.iter().copied().max().unwrap_or(0);
    let (sum, most_text) = (values.iter().sum::<u64>(), count(most, "event"));
    let drawn: Vec<u64> = values.chunks(each).map(|minutes| minutes.iter().sum()).collect();
    let highest = drawn.iter().copied().max().unwrap_or(0);
    format!("\n  {name:15} {}\n{:NAME$}{what} {sum}, at most {most_text} a minute", blocks(&drawn, highest), "")
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
                "\n  last hour       ▁{blank}█\n                  delivered 9, at most 8 events a minute\
                 \n                   {blank}█\n                  failed 1, at most 1 event a minute"
            )
        );
        let narrow = line("last hour", "delivered", &rows, now, 2, |row| row.delivered);
        let blank = " ".repeat(28);
        assert_eq!(
            narrow,
            format!("\n  last hour       ▁{blank}█\n                  delivered 9, at most 8 events a minute")
        );
    }
}
