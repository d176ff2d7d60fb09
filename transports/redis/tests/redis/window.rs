//! The window in Redis: the suite on a real server, and what happens when it is gone.

use std::time::Duration;

use postroom_conformance::windows::DedupWindowHarness;
use postroom_consumer::dedup::{Confirmation, DedupClaim, DedupWindow as _, DedupWindowError, DedupWindowOptions};
use postroom_core::{FailureKind, RetryPolicy, SecretUrl};
use postroom_redis::{RedisDedupWindow, RedisDedupWindowOptions};
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, Servers, unique_name};

use crate::streams::ask;

struct Redis {
    prefix: String,
    port: u16,
}

impl Redis {
    fn on(port: u16) -> Self {
        Self { prefix: unique_name("w"), port }
    }

    fn at(&self, url: &str, options: &DedupWindowOptions) -> Result<RedisDedupWindow, DedupWindowError> {
        let mut options = RedisDedupWindowOptions::new(SecretUrl::new(url.to_owned()), options.clone());
        options.prefix.clone_from(&self.prefix);
        RedisDedupWindow::new(options)
    }
}

impl DedupWindowHarness for Redis {
    type DedupWindow = RedisDedupWindow;

    async fn fresh() -> Self {
        Self::on(Servers::find().port("redis"))
    }

    fn window(&self, options: &DedupWindowOptions) -> Result<RedisDedupWindow, DedupWindowError> {
        self.at(&format!("redis://127.0.0.1:{}", self.port), options)
    }

    /// Every key of the test ends so much sooner, which is the same to it.
    async fn pass(&self, time: Duration) {
        let keys: Vec<String> = ask(self.port, &format!("KEYS {}:*", self.prefix)).await;
        for key in keys {
            let left: i64 = ask(self.port, &format!("PTTL {key}")).await;
            let left = left - i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            let _: i64 = ask(self.port, &format!("PEXPIRE {key} {left}")).await;
        }
    }
}

postroom_conformance::window_suite!(Redis);

fn options() -> DedupWindowOptions {
    DedupWindowOptions::new(&RetryPolicy::default().attempts(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_of_a_window_ends_by_itself() {
    let redis = Redis::fresh().await;
    let window = redis.window(&options()).unwrap();
    let DedupClaim::New(ticket) = window.claim("mailer", "e-1").await.unwrap() else { panic!("new") };
    let key = format!("{}:6:mailer:e-1", redis.prefix);
    let claimed: i64 = ask(redis.port, &format!("PTTL {key}")).await;
    assert!((1..=60_000).contains(&claimed), "{claimed}");
    assert_eq!(window.confirm(ticket).await, Ok(Confirmation::InTime));
    let confirmed: i64 = ask(redis.port, &format!("PTTL {key}")).await;
    assert!((500_000..=600_000).contains(&confirmed), "{confirmed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_that_is_cut_off_says_so_and_is_there_again_afterwards() {
    let redis = Redis::fresh().await;
    let proxy = FaultProxy::to(redis.port).await;
    let window = redis.at(&format!("redis://127.0.0.1:{}", proxy.port()), &options()).unwrap();
    let DedupClaim::New(ticket) = window.claim("mailer", "e-1").await.unwrap() else { panic!("new") };
    assert_eq!(window.confirm(ticket).await, Ok(Confirmation::InTime));
    proxy.set(Mode::Refuse).await;
    let failure = window.claim("mailer", "e-1").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
    proxy.set(Mode::Pass).await;
    let again = loop {
        match window.claim("mailer", "e-1").await {
            Ok(claim) => break claim,
            Err(failure) => assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}"),
        }
    };
    assert_eq!(again, DedupClaim::Duplicate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_rights_and_a_server_that_is_not_there_are_told_apart() {
    let redis = Redis::fresh().await;
    for (url, code) in [
        (format!("redis://{LIMITED_USER}:{PASSWORD}@127.0.0.1:{}", redis.port), "redis.permission"),
        ("redis://127.0.0.1:1".to_owned(), "redis.unreachable"),
    ] {
        let failure = redis.at(&url, &options()).unwrap().claim("mailer", "e-1").await.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, code), "{failure:?}");
        assert!(!failure.error.contains(PASSWORD), "{failure:?}");
    }
}
