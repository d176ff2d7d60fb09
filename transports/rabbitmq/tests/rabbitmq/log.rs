//! What reaches the log, and what never does.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_conformance::servers::brokers::PASSWORD;
use postroom_conformance::servers::proxy::Mode;
use postroom_conformance::transports::Post;
use postroom_core::Transport as _;
use postroom_rabbitmq::RabbitMqOptions;
use tracing_subscriber::fmt::MakeWriter;

use crate::place::{Proxied, event, failure, lost_event, options, post, transport};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn passwords_and_payloads_are_neither_logged_nor_reported_nor_shown() {
    let to = Proxied::shared().await;
    let log = Log::default();
    // The runtime of this test has one thread, and everything of ours runs there.
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).with_max_level(tracing::Level::TRACE);
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let mut said = Vec::new();
    let mut parcels = post(RabbitMqOptions { timeout: Duration::from_secs(1), ..to.options() });
    parcels.deliver_until_ok(&[event("fine")]).await;
    said.push(format!("{:?}", failure(&mut parcels, lost_event("lost")).await));
    to.proxy.set(Mode::Forget).await;
    said.push(format!("{:?}", failure(&mut parcels, event("late")).await));
    to.proxy.set(Mode::Refuse).await;
    said.push(format!("{:?}", failure(&mut parcels, event("nowhere")).await));
    to.proxy.set(Mode::Pass).await;
    parcels.close().await;
    let wrong = options(&format!("amqp://relay:{PASSWORD}-wrong@127.0.0.1:{}/%2f", to.proxy.port()), "");
    let stranger = Arc::new(transport(wrong.clone()));
    said.push(format!("{wrong:?} {stranger:?} {:?}", stranger.check().await));
    let mut parcels = Post::new(stranger);
    said.push(format!("{:?}", failure(&mut parcels, event("wrong")).await));
    parcels.close().await;
    said.push(String::from_utf8(log.0.lock().unwrap().clone()).unwrap());
    let said = said.join("\n");
    for code in ["rabbitmq.timeout", "rabbitmq.unreachable", "rabbitmq.login", "rabbitmq.unroutable"] {
        assert!(said.contains(code), "{code} is missing in {said}");
    }
    assert!(said.contains("postroom::rabbitmq") && said.contains("parcels"), "{said}");
    for secret in [PASSWORD, "canary-payload"] {
        assert!(!said.contains(secret), "{said}");
    }
}
