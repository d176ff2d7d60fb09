//! Codes that people may read: what each means and what to do. A member lists its own with [`codes!`](crate::codes);
//! `explain` and `docs/failures.md` are made from all lists.

mod shared;

pub use shared::CODES;

/// Code, stable over versions. A code that ends in a number stands for all that differ only in the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Code as it is printed: `kafka.timeout`.
    pub code: &'static str,
    /// Kind of the failure, if the code is one of a delivery.
    pub kind: &'static str,
    /// Cause of the failure.
    pub cause: &'static str,
    /// Next step.
    pub next: &'static str,
}

/// Codes that belong together. Sections of several members may have one title: they are shown as one.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Heading of the section.
    pub title: &'static str,
    /// Introduction of the section; may be empty.
    pub about: &'static str,
    /// Codes of the section.
    pub codes: &'static [Code],
}

/// A list of codes, one line each: `"code" | "kind" | "cause" | "next step"`.
#[macro_export]
macro_rules! codes {
    ($($code:literal | $kind:literal | $cause:literal | $next:literal)*) => {
        &[$($crate::codes::Code { code: $code, kind: $kind, cause: $cause, next: $next }),*]
    };
}

impl Code {
    /// Whether it stands for several codes, which differ in the number at their end.
    pub fn is_numbered(&self) -> bool {
        self.code.ends_with(|c: char| c.is_ascii_digit())
    }

    /// Whether it explains this code: `webhook.status_500` also explains `webhook.status_503`.
    pub fn explains(&self, code: &str) -> bool {
        let stem = |code: &str| code.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        self.code == code || (self.is_numbered() && self.code[..stem(self.code)] == code[..stem(code)])
    }
}

/// Returns a text of a code without Markdown: a link becomes its text.
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

    #[test]
    fn a_code_with_a_number_explains_all_that_differ_in_it_only() {
        let code = |code| Code { code, kind: "", cause: "", next: "" };
        assert!(code("url.status_500").explains("url.status_503") && code("url.status").explains("url.status"));
        for (known, asked) in [("url.status_500", "url.state_503"), ("url.status", "url.status1")] {
            assert!(!code(known).explains(asked), "{known} {asked}");
        }
    }
}
