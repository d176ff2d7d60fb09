//! What reaches the log, and what never does.

use postroom_conformance::Log;

use crate::workshop::{LONG, Workshop, event, failure};

/// Collects what this thread logs; the runtime of these tests has no other.
fn collect() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .with_max_level(tracing::Level::TRACE)
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[tokio::test]
async fn stderr_goes_to_the_log_line_by_line_and_long_lines_are_cut() {
    let (log, _guard) = collect();
    let workshop = Workshop::new();
    workshop.rule("a", "stderr");
    let mut post = workshop.post("serve", LONG);
    post.deliver_until_ok(&[event("a")]).await;
    post.close().await;
    let text = log.text();
    let line = text.lines().find(|l| l.contains("a word on stderr")).expect("the first line");
    assert!(line.contains("postroom::exec") && line.contains("mailer"), "{line}");
    let long = text.lines().find(|l| l.contains("yyyy")).expect("the second line");
    assert_eq!(long.matches('y').count(), 4096);
}

#[tokio::test]
async fn the_last_words_of_a_dying_child_are_logged() {
    let (log, _guard) = collect();
    let workshop = Workshop::new();
    workshop.rule("a", "last-words");
    let mut post = workshop.post("serve", LONG);
    failure(&mut post, "a").await;
    assert!(log.text().contains("my last words"), "{}", log.text());
    assert!(log.text().contains("exit status: 3"), "{}", log.text());
    post.close().await;
}

#[tokio::test]
async fn rubbish_is_logged_by_what_is_wrong_with_it_and_payloads_never() {
    let (log, _guard) = collect();
    let workshop = Workshop::new();
    for word in ["rubbish", "stranger", "die"] {
        workshop.rule(word, word);
    }
    let mut post = workshop.post("serve", LONG);
    post.deliver_until_ok(&[event("rubbish"), event("stranger")]).await;
    failure(&mut post, "die").await;
    post.close().await;
    let text = log.text();
    for expected in
        ["it is not JSON", "it is not a JSON object", "it has no `id`", "neither `ok` nor `error`", "unknown delivery"]
    {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    assert!(!text.contains("canary"), "{text}");
}
