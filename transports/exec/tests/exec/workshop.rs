//! A folder with the rules and the journal of one test's children.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use postroom_conformance::changed;
use postroom_conformance::transports::{Arrived, Behaviour, Post};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Failure, JSON};
use postroom_exec::{Exec, ExecOptions, Target};
use serde_json::value::RawValue;
use tempfile::TempDir;

pub(crate) const CHILD: &str = env!("CARGO_BIN_EXE_exec-child");

/// The folder `exec-child` works in.
pub(crate) struct Workshop {
    folder: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("rules")).expect("a folder");
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// From now on the child answers this event as the word says; the empty word is success.
    pub(crate) fn rule(&self, id: &str, word: &str) {
        let path = self.path().join("rules").join(id);
        if word.is_empty() {
            // It need not have been there.
            let _ = fs::remove_file(path);
        } else {
            let draft = self.path().join(format!("draft-{id}"));
            fs::write(&draft, word).and_then(|()| fs::rename(draft, path)).expect("a rule");
        }
    }

    pub(crate) fn behave(&self, id: &str, behaviour: Behaviour) {
        self.rule(
            id,
            match behaviour {
                Behaviour::Accept => "",
                Behaviour::RefuseForNow => "refuse-for-now",
                Behaviour::RefuseForGood => "refuse-for-good",
                Behaviour::Hold => "hold",
                Behaviour::Ignore => "ignore",
            },
        );
    }

    /// Process ids of all starts so far.
    pub(crate) fn starts(&self) -> Vec<i32> {
        self.read("starts").lines().map(|pid| pid.parse().expect("a process id")).collect()
    }

    /// How many of the children started so far are still there, as processes or as zombies.
    pub(crate) fn alive(&self) -> usize {
        self.starts().into_iter().filter(|pid| kill(Pid::from_raw(*pid), None).is_ok()).count()
    }

    /// Lines the children got, whole ones only.
    pub(crate) fn journal(&self) -> Vec<String> {
        let text = self.read("journal");
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        type Fields = HashMap<String, Box<RawValue>>;
        let parse = |line: String| {
            let fields: Fields = serde_json::from_str(&line).expect("a line is JSON");
            let envelope: Fields = serde_json::from_str(fields["envelope"].get()).expect("an envelope is an object");
            let word = |name: &str| serde_json::from_str::<String>(envelope[name].get()).expect("it is a string");
            assert_eq!(fields["id"].get(), envelope["id"].get(), "line and envelope agree");
            Arrived { id: word("id"), event_type: word("type"), payload: envelope["data"].get().to_owned() }
        };
        self.journal().into_iter().map(parse).collect()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path().join(name)).unwrap_or_default()).into_owned()
    }

    /// A transport to a child in this mode.
    pub(crate) fn exec(&self, mode: &str, timeout: Duration) -> Exec {
        let command = vec![CHILD.to_owned(), mode.to_owned(), self.path().display().to_string()];
        exec(Target::Command(command), timeout)
    }

    /// The same, ready to deliver.
    pub(crate) fn post(&self, mode: &str, timeout: Duration) -> Post {
        Post::new(Arc::new(self.exec(mode, timeout)))
    }
}

pub(crate) fn exec(target: Target, timeout: Duration) -> Exec {
    let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/postroom/test");
    Exec::new(changed(ExecOptions::new("mailer", target, encoder), |o| o.timeout = timeout))
}

pub(crate) fn event(id: &str) -> Event {
    Event::new("parcel.sent").id(id).bytes(JSON, r#"{"secret":"canary"}"#)
}

/// Time enough for everything that is expected to be answered.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Delivers one event, which must fail.
pub(crate) async fn failure(post: &mut Post, id: &str) -> Failure {
    post.deliver(&[event(id)]).await;
    post.outcome().await.1.expect_err("it fails")
}
