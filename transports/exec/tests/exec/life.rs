//! How a child is started, ends, is ended and is started again.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use postroom_conformance::transports::{PATIENCE, Post, until};
use postroom_core::{Event, FailureKind};
use postroom_exec::Target;
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tokio::time::timeout;

use crate::workshop::{self, CHILD, LONG, Workshop, event, failure};

#[tokio::test]
async fn nothing_is_started_before_the_first_delivery() {
    let workshop = Workshop::new();
    let mut post = workshop.post("serve", LONG);
    assert_eq!(workshop.starts().len(), 0);
    post.deliver_until_ok(&[event("a")]).await;
    post.deliver_until_ok(&[event("b")]).await;
    assert_eq!(workshop.starts().len(), 1, "one child serves them all");
    post.close().await;
}

#[tokio::test]
async fn of_those_a_child_had_when_it_died_only_the_one_that_ends_the_next_child_too_is_to_blame() {
    let workshop = Workshop::new();
    workshop.rule("before", "hold");
    workshop.rule("fatal", "die");
    let mut post = workshop.post("serve", LONG);
    post.deliver(&[event("before"), event("fatal"), event("behind")]).await;
    until("the first of them to be tried alone", async || workshop.starts().len() == 2).await;
    workshop.rule("before", "");
    let outcomes = post.outcomes().await;
    let failure = outcomes["fatal"].as_ref().unwrap_err();
    assert_eq!((failure.kind, &*failure.code, failure.retry_after), (FailureKind::Crashed, "exec.died", None));
    assert!(failure.error.contains("exit status: 3"), "{}", failure.error);
    assert!(["before", "behind"].iter().all(|id| outcomes[*id].is_ok()), "{outcomes:?}");
    post.close().await;
    assert_eq!(workshop.alive(), 0);
}

#[tokio::test]
async fn an_event_that_has_ended_a_child_alone_is_tried_beside_the_others_from_then_on() {
    let workshop = Workshop::new();
    workshop.rule("fatal", "die");
    let mut post = workshop.post("serve", LONG);
    assert_eq!(failure(&mut post, "fatal").await.kind, FailureKind::Crashed);
    post.deliver_until_ok(&[event("a")]).await;
    let starts = workshop.starts().len();
    for _ in 0..3 {
        post.deliver(&[event("fatal"), event("b")]).await;
        let outcomes = post.outcomes().await;
        assert_eq!(outcomes["fatal"].as_ref().unwrap_err().kind, FailureKind::Crashed);
        assert!(outcomes["b"].is_ok(), "its child lives on");
    }
    assert_eq!(workshop.starts().len(), starts + 3, "each time it has ended one of its own");
    workshop.rule("fatal", "");
    post.deliver(&[event("fatal")]).await;
    assert!(post.outcome().await.1.is_ok());
    post.close().await;
}

#[tokio::test]
async fn a_child_that_is_ended_by_somebody_else_costs_the_event_that_it_had_nothing() {
    let workshop = Workshop::new();
    workshop.rule("held", "hold");
    let mut post = workshop.post("serve", LONG);
    post.deliver(&[event("held")]).await;
    until("the child to have it", async || workshop.journal().len() == 1).await;
    workshop.rule("held", "");
    let pid = nix::unistd::Pid::from_raw(workshop.starts()[0]);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(post.outcome().await.1.is_ok(), "the next child has handled it");
    post.close().await;
}

#[tokio::test]
async fn an_event_that_is_not_answered_in_time_is_to_blame_and_its_child_is_killed() {
    let workshop = Workshop::new();
    workshop.rule("stuck", "ignore");
    let mut post = workshop.post("stay", Duration::from_millis(300));
    let failure = failure(&mut post, "stuck").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Crashed, "exec.timeout"));
    assert!(failure.error.contains("event stuck within 300ms"), "{}", failure.error);
    assert_eq!(workshop.alive(), 0, "it was not killed");
    // On a busy machine the next one may be too slow as well.
    post.deliver_until_ok(&[event("next")]).await;
    assert!(workshop.starts().len() >= 2);
    post.give_up().await;
}

#[tokio::test]
async fn a_child_that_exits_at_once_is_started_ever_more_rarely() {
    let workshop = Workshop::new();
    std::fs::write(workshop.path().join("down"), "").unwrap();
    let mut post = workshop.post("serve", LONG);
    let mut pauses = Vec::new();
    while pauses.len() < 4 {
        let starts = workshop.starts().len();
        let failure = failure(&mut post, "a").await;
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "exec.died"));
        let pause = failure.retry_after.expect("it says when to ask again");
        if workshop.starts().len() > starts {
            pauses.push(pause);
        } else {
            assert!(pause <= *pauses.last().unwrap(), "it rests longer than it said");
            tokio::time::sleep(pause).await;
        }
    }
    assert_eq!(pauses, [100, 200, 400, 800].map(Duration::from_millis));
    assert_eq!(workshop.starts().len(), 4);
    std::fs::remove_file(workshop.path().join("down")).unwrap();
    post.deliver_until_ok(&[event("b")]).await;
    post.close().await;
}

#[tokio::test]
async fn a_command_that_cannot_be_run_is_named_and_its_arguments_are_not() {
    let workshop = Workshop::new();
    let plain_file = workshop.path().join("not-executable");
    std::fs::write(&plain_file, "").unwrap();
    for program in ["postroom-no-such-program".to_owned(), plain_file.display().to_string()] {
        let target = Target::Command(vec![program.clone(), "--password=canary".to_owned()]);
        let mut post = Post::new(Arc::new(workshop::exec(target, LONG)));
        let failure = failure(&mut post, "a").await;
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "exec.not_found"));
        assert!(failure.error.contains(&program) && !failure.error.contains("canary"), "{}", failure.error);
        post.close().await;
    }
}

#[test]
fn the_child_inherits_folder_and_the_usual_environment() {
    let workshop = Workshop::new();
    workshop.rule("one", "environment");
    let folder = workshop.path().canonicalize().unwrap();
    let output = Command::new(CHILD)
        .args(["relay", &folder.display().to_string()])
        .current_dir(&folder)
        .env("POSTROOM_STORE__MAIN__URL", "x")
        .env("DATABASE_URL", "x")
        .env("SHOP_SETTING", "x")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("PATH") && !text.contains("SHOP_SETTING"), "{text}");
    assert!(text.contains(&folder.display().to_string()), "{text}");
    assert!(!text.contains("POSTROOM_") && !text.contains("DATABASE_URL"), "{text}");
}

#[tokio::test]
async fn a_close_lets_the_child_answer_what_it_has() {
    let workshop = Workshop::new();
    let mut post = workshop.post("answer-late", LONG);
    post.deliver(&[event("a"), event("b")]).await;
    let outcomes = post.close().await;
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.values().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(workshop.alive(), 0);
}

#[tokio::test]
async fn a_close_kills_a_child_that_does_not_leave() {
    let workshop = Workshop::new();
    let mut post = workshop.post("stay", LONG);
    post.deliver_until_ok(&[event("a")]).await;
    assert_eq!(workshop.alive(), 1);
    post.close().await;
    assert_eq!(workshop.alive(), 0);
}

#[tokio::test]
async fn children_of_the_child_end_with_it() {
    let workshop = Workshop::new();
    let listener = UnixListener::bind(workshop.path().join("alive.sock")).unwrap();
    workshop.rule("parent", "leave-a-child");
    let mut post = workshop.post("serve", LONG);
    post.deliver_until_ok(&[event("parent")]).await;
    let (mut alive, _) = listener.accept().await.unwrap();
    post.close().await;
    // The end of its life is the end of its connection.
    assert_eq!(timeout(PATIENCE, alive.read(&mut [0])).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_child_of_the_child_that_keeps_the_pipes_open_does_not_hide_a_death() {
    let workshop = Workshop::new();
    let listener = UnixListener::bind(workshop.path().join("alive.sock")).unwrap();
    workshop.rule("parent", "leave-a-child-and-die");
    let mut post = workshop.post("serve", LONG);
    let failure = failure(&mut post, "parent").await;
    assert!(failure.code == "exec.died" && failure.error.contains("exit status: 3"), "{failure:?}");
    let (mut alive, _) = listener.accept().await.unwrap();
    assert_eq!(timeout(PATIENCE, alive.read(&mut [0])).await.unwrap().unwrap(), 0);
    post.close().await;
}

#[test]
fn a_runtime_that_ends_without_a_close_takes_the_child_along() {
    let workshop = Workshop::new();
    let listener = std::os::unix::net::UnixListener::bind(workshop.path().join("alive.sock")).unwrap();
    workshop.rule("parent", "leave-a-child");
    let exec = Arc::new(workshop.exec("stay", LONG));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        Post::new(exec.clone()).deliver_until_ok(&[event("parent")]).await;
    });
    let (mut alive, _) = listener.accept().unwrap();
    drop(runtime);
    alive.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(std::io::Read::read(&mut alive, &mut [0]).unwrap(), 0);
    drop(exec);
}

#[tokio::test]
async fn a_child_that_leaves_by_itself_while_idle_is_missed_only_when_it_is_needed() {
    let workshop = Workshop::new();
    let mut post = workshop.post("serve", LONG);
    post.deliver_until_ok(&[event("a")]).await;
    let pid = nix::unistd::Pid::from_raw(workshop.starts()[0]);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    until("the child to be reaped", async || workshop.alive() == 0).await;
    post.deliver_until_ok(&[event("b")]).await;
    assert_eq!(workshop.starts().len(), 2);
    post.close().await;
}

#[tokio::test]
async fn an_envelope_that_is_not_json_never_reaches_the_child() {
    use postroom_core::envelope::{Binding, Encoder, Format};
    use postroom_exec::{Exec, ExecOptions};
    let workshop = Workshop::new();
    let command = vec![CHILD.to_owned(), "serve".to_owned(), workshop.path().display().to_string()];
    let options = ExecOptions::new("mailer", Target::Command(command), Encoder::new(Format::Raw, Binding::Http, "/s"));
    let mut post = Post::new(Arc::new(Exec::new(options)));
    post.deliver(&[Event::new("t").id("text").bytes("text/plain", "canary"), event("json")]).await;
    let outcomes = post.outcomes().await;
    let failure = outcomes["text"].as_ref().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "exec.not_json"));
    assert!(outcomes["json"].is_ok());
    assert_eq!(workshop.journal().len(), 1);
    post.close().await;
}
