//! Every code that people may read: what it means and what to do. `explain` and `docs/failures.md` are made from it.

mod consumer;
mod contract;
mod doctor;
mod exec;
mod handler;
mod http;
mod kafka;
mod nats;
mod other;
mod pull;
mod rabbitmq;
mod redis;
mod webhook;
mod window;

use std::fmt::Write as _;

/// A code, stable over versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// As it is printed: `kafka.timeout`.
    pub code: &'static str,
    /// What the relay does about it, where it is a failure of a delivery.
    pub kind: &'static str,
    /// Why it happens.
    pub cause: &'static str,
    /// What to do.
    pub next: &'static str,
}

/// Codes that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// What is to be said of all of them; may be empty.
    pub about: &'static str,
    /// The codes.
    pub codes: &'static [Code],
}

/// All there are.
pub const SECTIONS: &[Section] = &[
    handler::SECTION,
    window::SECTION,
    contract::SECTION,
    exec::SECTION,
    pull::SECTION,
    kafka::SECTION,
    rabbitmq::SECTION,
    nats::SECTION,
    redis::SECTION,
    webhook::SECTION,
    consumer::SECTION,
    http::SECTION,
    doctor::SECTION,
    other::SECTION,
];

impl Code {
    /// What is known of a code. Those of answers are explained together: `webhook.status_503` as `webhook.status_500`.
    pub fn find(code: &str) -> Option<&'static Self> {
        let asked = if code.starts_with("webhook.status_") { "webhook.status_500" } else { code };
        Self::all().find(|known| known.code == asked)
    }

    /// Every one.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        SECTIONS.iter().flat_map(|section| section.codes)
    }
}

/// All of it as a page shows it.
pub fn page() -> String {
    let mut page = String::new();
    for Section { title, about, codes } in SECTIONS {
        let about = if about.is_empty() { String::new() } else { format!("{about}\n\n") };
        let _ = write!(page, "### {title}\n\n{about}| code | kind | cause | next step |\n| --- | --- | --- | --- |\n");
        for Code { code, kind, cause, next } in *codes {
            let several = if *code == "webhook.status_500" { " and so on" } else { "" };
            let _ = writeln!(page, "| `{code}`{several} | {kind} | {cause} | {next} |");
        }
        page.push('\n');
    }
    page.trim_end().to_owned()
}

/// A text of a code without the marks of a page: a link is its text.
pub fn plain(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let link = after.split_once("](").and_then(|(words, to)| Some((words, to.split_once(')')?.1)));
        // A bracket that opens none stands for itself.
        let (words, after) = link.unwrap_or(("[", after));
        plain.push_str(words);
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_its_text_and_a_bracket_stays() {
        assert_eq!(plain("see [what is needed](nats.md#logging-in), or wait"), "see what is needed, or wait");
        assert_eq!(plain("add a `[[route]]`"), "add a `[[route]]`");
    }
}
