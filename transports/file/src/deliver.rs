//! The transport: makes lines of events, and lets one task write them.

use std::fmt;

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Diagnostic, Outbound, Transport};
use postroom_transport_kit::driver::{DriverTask, at};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::check::check;
use crate::failures::closed;
use crate::options::FileOptions;
use crate::writer::Writer;

/// Transport to files in a folder.
pub struct FileTransport {
    route: String,
    options: FileOptions,
    encoder: Encoder,
    driver: DriverTask<Vec<Line>>,
}

/// A delivery and its line.
struct Line {
    outbound: Outbound,
    text: Vec<u8>,
}

impl FileTransport {
    /// Creates a transport for the events of one route. Files are created at the first write.
    pub fn new(route: &str, options: FileOptions, encoder: Encoder) -> Self {
        Self { route: route.to_owned(), options, encoder, driver: DriverTask::default() }
    }
}

#[async_trait]
impl Transport for FileTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities { logs_errors: true, ..Capabilities::plain("file") }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let mut lines = Vec::with_capacity(batch.len());
        for outbound in batch {
            match self.encoder.json_line(&outbound.event, outbound.stage(), "file.not_json") {
                Ok(text) => lines.push(Line { outbound, text }),
                Err(failure) => outbound.report(Err(failure)),
            }
        }
        let writer = || Writer::new(&self.route, self.options.clone());
        if let Err(refused) = self.driver.hand_over(lines, |batches| drive(writer(), batches)) {
            Outbound::report_all(refused.into_iter().map(|line| line.outbound), &closed());
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        check(&self.options)
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}

impl fmt::Debug for FileTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTransport").field("folder", &self.options.folder).finish_non_exhaustive()
    }
}

/// Writes what comes until nothing more does, then completes the last file.
async fn drive(mut writer: Writer, mut batches: UnboundedReceiver<Vec<Line>>) {
    loop {
        let deadline = writer.deadline().map(Instant::from_std);
        let batch = tokio::select! {
            batch = batches.recv() => batch,
            () = at(deadline) => Some(Vec::new()),
        };
        let Some(mut batch) = batch else { break };
        // What came meanwhile shares the trip to the disk.
        while let Ok(more) = batches.try_recv() {
            batch.extend(more);
        }
        let done = spawn_blocking(move || {
            writer.rotate_if_due();
            if !batch.is_empty() {
                let lines: Vec<u8> = batch.iter().flat_map(|line| &line.text).copied().collect();
                let outcome = writer.write(&lines);
                for line in batch {
                    line.outbound.report(outcome.clone());
                }
            }
            writer
        });
        // A writer that panicked has dropped, and so reported, everything it had.
        let Ok(back) = done.await else { return };
        writer = back;
    }
    let _ = spawn_blocking(move || writer.rotate()).await;
}
