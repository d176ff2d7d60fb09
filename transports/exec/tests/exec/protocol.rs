//! What a child may say, and what comes of it.

use std::time::Duration;

use postroom_core::FailureKind;

use crate::workshop::{LONG, Workshop, event, failure};

#[tokio::test]
async fn a_line_says_which_event_which_attempt_and_which_route() {
    let workshop = Workshop::new();
    let mut post = workshop.post("serve", LONG);
    post.deliver_until_ok(&[event("a")]).await;
    let line: serde_json::Value = serde_json::from_str(&workshop.journal()[0]).unwrap();
    assert_eq!((&line["id"], &line["attempt"], &line["route"]), (&"a".into(), &1.into(), &"mailer".into()));
    assert_eq!(line["envelope"]["source"], "/postroom/test");
    post.close().await;
}

#[tokio::test]
async fn several_are_in_flight_and_may_be_answered_in_reverse() {
    let workshop = Workshop::new();
    let mut post = workshop.post("reverse", LONG);
    let ids = ["a", "b", "c", "d", "e"];
    post.deliver(&ids.map(event)).await;
    for id in ids.iter().rev() {
        let (answered, outcome) = post.outcome().await;
        assert!(outcome.is_ok());
        assert_eq!(answered.id, *id);
    }
    post.close().await;
}

#[tokio::test]
async fn an_error_carries_its_text_its_finality_and_its_wish() {
    let workshop = Workshop::new();
    for (id, word) in [("soft", "retry-after"), ("hard", "refuse-for-good"), ("both", "errors")] {
        workshop.rule(id, word);
    }
    let mut post = workshop.post("serve", LONG);
    let soft = failure(&mut post, "soft").await;
    assert_eq!((soft.kind, &*soft.code, soft.error.as_str()), (FailureKind::Transient, "exec.error", "busy"));
    assert_eq!(soft.retry_after, Some(Duration::from_secs(5)));
    let hard = failure(&mut post, "hard").await;
    assert_eq!((hard.kind, hard.error.as_str(), hard.retry_after), (FailureKind::Permanent, "never", None));
    let both = failure(&mut post, "both").await;
    assert_eq!((both.kind, both.error.as_str()), (FailureKind::Permanent, "mail: full; sms: no number"));
    let names: Vec<&str> = both.handlers.iter().map(|h| h.handler.as_str()).collect();
    assert_eq!(names, ["mail", "sms"]);
    assert_eq!(workshop.starts().len(), 1, "an answer never ends the child");
    post.close().await;
}

#[tokio::test]
async fn one_event_in_flight_twice_is_answered_in_hand_over_order() {
    use postroom_core::{Outbound, Transport};
    let workshop = Workshop::new();
    workshop.rule("same", "by-attempt");
    let exec = workshop.exec("serve", LONG);
    let (report, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    let event = std::sync::Arc::new(event("same"));
    let outbound = |attempt: u32| Outbound::new(attempt.into(), attempt, event.clone(), None, report.clone());
    exec.deliver([1, 2, 3].map(outbound).into()).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (ticket, outcome) = outcomes.recv().await.unwrap();
        answers.push((ticket, outcome.err().map(|f| f.error)));
    }
    assert_eq!(answers, [(1, None), (2, Some("attempt 2".into())), (3, Some("attempt 3".into()))]);
    exec.close().await;
}

#[tokio::test]
async fn rubbish_strangers_and_second_answers_are_ignored() {
    let workshop = Workshop::new();
    for word in ["rubbish", "stranger", "twice"] {
        workshop.rule(word, word);
    }
    let mut post = workshop.post("serve", LONG);
    for id in ["rubbish", "stranger", "twice", "plain"] {
        post.deliver(&[event(id)]).await;
        let (answered, outcome) = post.outcome().await;
        assert!(outcome.is_ok() && answered.id == id, "{id}: {outcome:?}");
    }
    assert_eq!(workshop.starts().len(), 1);
    assert!(post.close().await.is_empty(), "a second answer was reported");
}

#[tokio::test]
async fn an_answer_over_the_limit_ends_the_child_and_nothing_else() {
    let workshop = Workshop::new();
    workshop.rule("huge", "huge");
    let mut post = workshop.post("serve", LONG);
    let huge = failure(&mut post, "huge").await;
    assert_eq!((huge.kind, &*huge.code), (FailureKind::Crashed, "exec.died"));
    assert!(huge.error.contains("a line of more than 1048576 bytes"), "{}", huge.error);
    workshop.rule("huge", "");
    post.deliver_until_ok(&[event("huge")]).await;
    assert_eq!(workshop.starts().len(), 3, "it had ended two");
    post.close().await;
}

#[tokio::test]
async fn a_child_that_does_not_read_holds_back_no_answer() {
    let workshop = Workshop::new();
    workshop.rule("first", "deaf");
    let mut post = workshop.post("serve", LONG);
    // Far more than a pipe holds, so that writing blocks while the child reads nothing.
    let large = format!("\"{}\"", "x".repeat(200_000));
    let mut events = vec![event("first")];
    events.extend((0..20).map(|n| event(&format!("e-{n}")).bytes("application/json", large.clone())));
    post.deliver(&events).await;
    let (answered, outcome) = post.outcome().await;
    assert!(answered.id == "first" && outcome.is_ok(), "{outcome:?}");
    assert!(post.is_silent());
    workshop.rule("first", "");
    assert!(post.outcomes().await.values().all(Result::is_ok));
    post.close().await;
}
