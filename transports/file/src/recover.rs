//! Completes the files that dead writers of a route left.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::part::{PART, Part};

/// How much is read at once while the end of the last line is searched.
const CHUNK: u64 = 64 * 1024;

/// Completes every file of the route whose writer is dead. A half-written last line is cut off: it was never reported as delivered.
pub(crate) fn recover(folder: &Path, route: &str, sync: bool) -> io::Result<()> {
    let prefix = format!("{route}-");
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Behind the name of a route stands a time: `orders-eu` is another route.
        let ours = name.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if !ours || !name.ends_with(PART) {
            continue;
        }
        if let Some(mut part) = Part::take_over(path)? {
            let whole = whole_lines(&part)?;
            let lost = part.bytes() - whole;
            tracing::info!(file = %part.path().display(), bytes = whole, cut = lost, "file of a stopped writer completed");
            part.cut(whole)?;
            part.complete(sync)?;
        }
    }
    Ok(())
}

/// How many bytes of a file are whole lines.
fn whole_lines(part: &Part) -> io::Result<u64> {
    let (mut file, mut end) = (part.file(), part.bytes());
    let mut chunk = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(start))?;
        chunk.clear();
        file.take(end - start).read_to_end(&mut chunk)?;
        if let Some(last) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
