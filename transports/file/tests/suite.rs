//! The suite every transport passes, on a folder that can be moved away and back.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Breakable, Harness, Observed};
use postroom_core::Transport;

use crate::folder::{Folder, is_part, lines, part, text, transport};

mod on_a_disk {
    postroom_conformance::transport_suite!(super::OnDisk: reports, arrives, goes_down);
}

struct OnDisk(Folder);

#[async_trait]
impl Harness for OnDisk {
    async fn start(_: Duration) -> Self {
        Self(Folder::new())
    }

    fn transport(&self) -> Arc<dyn Transport> {
        transport(self.0.options())
    }

    /// A transport that still runs has a file that is not complete.
    async fn running(&self) -> usize {
        if self.0.away().exists() {
            return 0;
        }
        self.0.names().iter().filter(|name| is_part(name)).count()
    }
}

#[async_trait]
impl Observed for OnDisk {
    async fn arrived(&self) -> Vec<Arrived> {
        let files = self.0.names();
        let lines = files.iter().flat_map(|name| lines(&self.0.path().join(name)));
        lines
            .map(|line| Arrived {
                id: text(&line, "id"),
                event_type: text(&line, "type"),
                payload: part(&line, "data").get().to_owned(),
            })
            .collect()
    }
}

#[async_trait]
impl Breakable for OnDisk {
    async fn stop(&self) {
        fs::rename(self.0.path(), self.0.away()).expect("the folder can be moved");
    }

    async fn resume(&self) {
        let out = self.0.away().with_file_name("out");
        fs::rename(self.0.away(), out).expect("the folder can be moved back");
    }
}
