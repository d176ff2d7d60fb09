//! What the words of a state mean.

use postroom_adopted::survey::Word;

const PENDING: &[&str] = &[
    "pending",
    "new",
    "ready",
    "queued",
    "created",
    "unsent",
    "unpublished",
    "unprocessed",
    "notsent",
    "notpublished",
    "waiting",
    "todo",
    "open",
    "init",
    "initial",
    "enqueued",
    "scheduled",
];
const DONE: &[&str] = &[
    "published",
    "sent",
    "delivered",
    "dispatched",
    "processed",
    "completed",
    "complete",
    "done",
    "success",
    "succeeded",
    "finished",
    "relayed",
    "acked",
    "acknowledged",
    "handled",
    "emitted",
    "ok",
];
const DEAD: &[&str] = &[
    "dead",
    "deadletter",
    "deadlettered",
    "dlq",
    "discarded",
    "abandoned",
    "exhausted",
    "poison",
    "poisoned",
    "parked",
    "rejected",
    "failedpermanently",
    "permanentlyfailed",
];
const FAILED: &[&str] = &["failed", "error", "errored", "failure"];
const AT_WORK: &[&str] = &[
    "processing",
    "inprogress",
    "inflight",
    "locked",
    "claimed",
    "publishing",
    "sending",
    "dispatching",
    "reserved",
    "running",
    "started",
    "picked",
];

/// What a state's words mean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Meanings {
    /// To be delivered, and whether that is certain.
    pub(super) pending: StateWord,
    /// Delivered; `None` when no word that is allowed can mean it.
    pub(super) done: Option<StateWord>,
    /// Given up.
    pub(super) dead: Option<StateWord>,
    /// Words of others.
    pub(super) ignored: Vec<String>,
    /// Those of them that a dispatcher gives to what it works on.
    pub(super) at_work: Vec<String>,
    /// Those of them that mean nothing to us.
    pub(super) strange: Vec<String>,
    /// The words that rows have, and how many of the sampled rows have each.
    pub(super) counted: Vec<(String, u64)>,
}

/// A word and how we came to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StateWord {
    pub(super) word: String,
    pub(super) sure: bool,
    pub(super) why: String,
    pub(super) others: Vec<String>,
    /// Whether rows have it, and nothing but a guess says that they are not finished.
    pub(super) may_be_finished: bool,
}

impl StateWord {
    fn sure(word: &str, why: impl Into<String>) -> Self {
        Self { word: word.to_owned(), sure: true, why: why.into(), others: Vec::new(), may_be_finished: false }
    }

    fn unsure(word: &str, why: impl Into<String>, others: Vec<String>) -> Self {
        Self { word: word.to_owned(), sure: false, why: why.into(), others, may_be_finished: false }
    }
}

/// Which of the words that rows have, that are allowed, or that a row begins with mean what.
pub(super) fn meanings(seen: &[Word], labels: &[String], default: Option<&str>) -> Meanings {
    let mut all: Vec<String> = Vec::new();
    let texts = seen.iter().map(|word| &word.text).chain(labels);
    for text in texts.map(String::as_str).chain(default) {
        if !all.iter().any(|word| word == text) {
            all.push(text.to_owned());
        }
    }
    let numbers = !all.is_empty() && all.iter().all(|word| word.parse::<i64>().is_ok());
    let mut found = if numbers { of_numbers(seen, &all, default) } else { of_words(seen, &all, labels, default) };
    let taken = [Some(&found.pending), found.done.as_ref(), found.dead.as_ref()];
    let taken: Vec<&str> = taken.into_iter().flatten().map(|told| told.word.as_str()).collect();
    found.ignored = all.into_iter().filter(|word| !taken.contains(&word.as_str())).collect();
    found.ignored.sort();
    found.at_work = found.ignored.iter().filter(|word| is(word, AT_WORK)).cloned().collect();
    let clear = |word: &str| [PENDING, DONE, DEAD, FAILED, AT_WORK].iter().any(|list| is(word, list));
    found.strange = found.ignored.iter().filter(|word| !clear(word)).cloned().collect();
    found.counted = seen.iter().map(|word| (word.text.clone(), word.rows)).collect();
    found
}

fn of_words(seen: &[Word], all: &[String], labels: &[String], default: Option<&str>) -> Meanings {
    let told = |list: &[&str]| -> Option<StateWord> {
        // By frequency, as `all` is: a word nobody uses is a worse guess than one that most rows have.
        let mut fit = all.iter().filter(|word| is(word, list));
        let word = fit.next()?;
        let others: Vec<String> = fit.cloned().collect();
        let why = if seen.iter().any(|seen| seen.text == *word) { "rows have it" } else { "it is allowed" };
        Some(StateWord {
            word: word.clone(),
            sure: others.is_empty(),
            why: why.to_owned(),
            others,
            may_be_finished: false,
        })
    };
    let pending = match default {
        Some(word) if is(word, PENDING) => StateWord::sure(word, "new rows have it"),
        Some(word) if !is(word, DONE) && !is(word, DEAD) => StateWord::unsure(word, "new rows have it", all.to_vec()),
        _ => told(PENDING).unwrap_or_else(|| {
            StateWord::unsure(&like("pending", all), "no row has a word that means it", all.to_vec())
        }),
    };
    let dead = told(DEAD).or_else(|| {
        let failed = told(FAILED)?;
        Some(StateWord::unsure(
            &failed.word,
            "the only word for what failed; rows that are tried again stay pending",
            failed.others,
        ))
    });
    let done = told(DONE).or_else(|| {
        let free = |word: &&String| **word != pending.word && dead.as_ref().is_none_or(|dead| dead.word != **word);
        let free: Vec<String> = all.iter().filter(free).filter(|word| !is(word, AT_WORK)).cloned().collect();
        let stamped =
            seen.iter().filter(|word| word.stamped > 0 && free.contains(&word.text)).max_by_key(|w| w.stamped);
        match stamped.map(|word| &word.text).or_else(|| free.first()) {
            Some(word) => Some(StateWord::unsure(word, "no word that surely means it; this one is left", free.clone())),
            None if labels.is_empty() => {
                let why = "no row has such a value yet: ask the owner of the table";
                Some(StateWord::unsure(&like("sent", all), why, Vec::new()))
            }
            None => None,
        }
    });
    Meanings { pending, done, dead, ..Meanings::default() }
}

fn of_numbers(seen: &[Word], all: &[String], default: Option<&str>) -> Meanings {
    let lowest = all.iter().min_by_key(|word| word.parse::<i64>().unwrap_or(i64::MAX));
    let pending = match (default, lowest) {
        (Some(word), _) => StateWord::sure(word, "new rows have it"),
        (None, Some(word)) => StateWord {
            may_be_finished: !seen.is_empty(),
            ..StateWord::unsure(word, "the lowest number rows have", all.to_vec())
        },
        (None, None) => StateWord::unsure("0", "there is no row", Vec::new()),
    };
    let others: Vec<String> = all.iter().filter(|word| **word != pending.word).cloned().collect();
    let stamped: Vec<&Word> = seen.iter().filter(|word| word.stamped > 0 && word.text != pending.word).collect();
    let done = match (stamped.as_slice(), others.first()) {
        ([one], _) => StateWord::sure(&one.text, "its rows have the time when they were done"),
        ([first, ..], _) => {
            let most = stamped.iter().max_by_key(|word| word.stamped).unwrap_or(first);
            StateWord::unsure(&most.text, "most of the rows that have the time when they were done", others.clone())
        }
        ([], Some(word)) => StateWord::unsure(word, "the number most other rows have", others.clone()),
        ([], None) => StateWord::unsure(&next(&pending.word), "no row has another number yet", Vec::new()),
    };
    Meanings { pending, done: Some(done), dead: None, ..Meanings::default() }
}

fn next(number: &str) -> String {
    number.parse::<i64>().map_or_else(|_| "1".to_owned(), |n| n.saturating_add(1).to_string())
}

fn is(word: &str, list: &[&str]) -> bool {
    list.contains(&super::names::bare(word).as_str())
}

/// A word in the case that the others have.
fn like(word: &str, others: &[String]) -> String {
    let shouted = |other: &String| other.chars().any(char::is_alphabetic) && !other.chars().any(char::is_lowercase);
    if others.iter().any(shouted) { word.to_uppercase() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(words: &[(&str, u64, u64)]) -> Vec<Word> {
        let word = |(text, rows, stamped): &(&str, u64, u64)| Word {
            text: (*text).to_owned(),
            rows: *rows,
            stamped: *stamped,
        };
        words.iter().map(word).collect()
    }

    fn told(found: &Meanings) -> (&str, Option<&str>, Option<&str>) {
        let word = |told: &'_ Option<StateWord>| told.as_ref().map(|told| told.word.clone());
        let (done, dead) = (word(&found.done), word(&found.dead));
        (&found.pending.word, done.map(|w| &*w.leak()), dead.map(|w| &*w.leak()))
    }

    #[test]
    fn words_of_known_meaning_are_told_apart() {
        let found = meanings(
            &seen(&[("published", 90, 0), ("pending", 5, 0), ("failed", 3, 0), ("dead", 1, 0)]),
            &[],
            Some("pending"),
        );
        assert_eq!(told(&found), ("pending", Some("published"), Some("dead")));
        assert!(found.pending.sure && found.done.unwrap().sure && found.dead.unwrap().sure);
        assert_eq!(found.ignored, ["failed"]);
    }

    #[test]
    fn the_only_word_for_failures_is_that_of_dead_rows_but_not_surely() {
        let found = meanings(&seen(&[("sent", 9, 9), ("failed", 1, 0), ("pending", 1, 0)]), &[], None);
        assert_eq!(told(&found), ("pending", Some("sent"), Some("failed")));
        assert!(!found.dead.unwrap().sure);
    }

    #[test]
    fn what_a_dispatcher_works_on_is_known_and_never_claimed() {
        let labels = ["PENDING", "PROCESSING"].map(str::to_owned);
        let found = meanings(&seen(&[("PENDING", 3, 0), ("PROCESSING", 1, 0)]), &[], Some("PENDING"));
        assert_eq!(told(&found), ("PENDING", Some("SENT"), None));
        assert!(!found.done.as_ref().unwrap().sure);
        assert_eq!((found.ignored, found.at_work), (vec!["PROCESSING".to_owned()], vec!["PROCESSING".to_owned()]));
        // A type that allows only these has no word for it at all.
        assert_eq!(meanings(&[], &labels, Some("PENDING")).done, None);
    }

    #[test]
    fn numbers_are_told_by_what_new_rows_have_and_which_rows_have_a_time() {
        let found = meanings(&seen(&[("1", 90, 90), ("0", 5, 0), ("2", 3, 0)]), &[], Some("0"));
        assert_eq!(told(&found), ("0", Some("1"), None));
        assert!(found.done.unwrap().sure);
        assert_eq!((&found.ignored, &found.strange), (&vec!["2".to_owned()], &vec!["2".to_owned()]));
        let found = meanings(&[], &[], Some("0"));
        assert_eq!((told(&found), found.done.as_ref().unwrap().sure), (("0", Some("1"), None), false));
    }
}
