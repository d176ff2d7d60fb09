//! Who may in, and who may write.

use postroom_conformance::changed;
use postroom_core::{FailureKind, SecretUrl};
use postroom_redis::RedisOptions;
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD, USER};

use crate::streams::{LONG, Stream, event, failure, post};

fn options(stream: &Stream, login: &str) -> RedisOptions {
    let url = SecretUrl::new(format!("redis://{login}@127.0.0.1:{}", stream.port));
    changed(stream.options(stream.port, LONG), |o| o.url = url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_right_password_gets_in() {
    let stream = Stream::new();
    post(options(&stream, &format!("{USER}:{PASSWORD}"))).deliver_until_ok(&[event("e-1")]).await;
    assert_eq!(stream.ids().await, ["e-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_an_unknown_user_and_one_without_rights_are_told_apart_and_nothing_is_shown() {
    let stream = Stream::new();
    for (login, code) in [
        (format!("{USER}:canary"), "redis.login"),
        (format!("nobody:{PASSWORD}"), "redis.login"),
        (format!("{LIMITED_USER}:{PASSWORD}"), "redis.permission"),
    ] {
        let options = options(&stream, &login);
        let failed = failure(&mut post(options.clone()), "e-1").await;
        assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, code), "{failed:?}");
        for text in [failed.error, format!("{options:?}")] {
            assert!(!text.contains("canary"), "a password is shown: {text}");
        }
    }
    assert_eq!(stream.length().await, 0);
}
