//! The child process of the tests: keeps a journal of what it gets and answers as the rules in its folder say.
//!
//! `exec-child MODE FOLDER`. In the folder: `starts` (a process id per start), `journal` (every line it got),
//! `rules/ID` (a word on how to answer that event; none means success) and, while it must not work, `down`.

#![allow(clippy::exit, reason = "dying is what it is for")]

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Outbound, Transport};
use postroom_exec::{Exec, ExecOptions, Target};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, mode, folder] = &arguments[..] else {
        return Err(io::Error::other("usage: exec-child MODE FOLDER"));
    };
    let folder = PathBuf::from(folder);
    let started = format!("{}\n", std::process::id());
    append(&folder.join("starts"), started.as_bytes())?;
    if folder.join("down").exists() {
        exit(1);
    }
    match mode.as_str() {
        // Answers, and leaves at the end of its input.
        "serve" => serve(&folder, BufReader::new(io::stdin()), io::stdout()),
        // Does not leave when asked to.
        "stay" => {
            serve(&folder, BufReader::new(io::stdin()), io::stdout())?;
            linger(&folder)
        }
        // Answers five at a time, the last one first.
        "reverse" => reverse(),
        // Leaves, but not before it has answered everything it held back until the end of its input.
        "answer-late" => answer_late(),
        // Serves a socket instead of its stdin.
        "listen" => listen(&folder),
        // Does nothing, for ever; whoever listens on the folder's socket sees it end.
        "linger" => linger(&folder),
        // Delivers one event to a child of its own and prints what came of it.
        "relay" => relay(&folder),
        other => Err(io::Error::other(format!("no mode {other}"))),
    }
}

fn serve(folder: &Path, input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let output = Arc::new(Mutex::new(output));
    for line in input.lines() {
        let line = line?;
        append(&folder.join("journal"), format!("{line}\n").as_bytes())?;
        let (id, attempt) = request(&line)?;
        answer(folder, &id, &attempt, &output)?;
    }
    Ok(())
}

fn request(line: &str) -> io::Result<(String, Value)> {
    let fields: HashMap<String, Box<serde_json::value::RawValue>> = serde_json::from_str(line)?;
    Ok((serde_json::from_str(fields["id"].get())?, serde_json::from_str(fields["attempt"].get())?))
}

fn answer(
    folder: &Path,
    id: &str,
    attempt: &Value,
    output: &Arc<Mutex<impl Write + Send + 'static>>,
) -> io::Result<()> {
    let rule = folder.join("rules").join(id);
    let word = std::fs::read_to_string(&rule).unwrap_or_default();
    let ok = json!({"id": id, "ok": true});
    match word.as_str() {
        "" => say(output, &ok),
        "refuse-for-now" => say(output, &json!({"id": id, "error": "busy", "permanent": false})),
        "refuse-for-good" => say(output, &json!({"id": id, "error": "never", "permanent": true})),
        "retry-after" => say(output, &json!({"id": id, "error": "busy", "retry_after": "5s"})),
        "errors" => {
            let errors = [json!({"handler": "mail", "error": "full"}), json!({"handler": "sms", "error": "no number"})];
            say(output, &json!({"id": id, "errors": errors, "permanent": true}))
        }
        "hold" => {
            let output = Arc::clone(output);
            thread::spawn(move || {
                while rule.exists() {
                    thread::park_timeout(Duration::from_millis(2));
                }
                // Nobody reads any more: the test is over.
                let _ = say(&output, &ok);
            });
            Ok(())
        }
        "ignore" => Ok(()),
        "die" => exit(3),
        "twice" => say(output, &ok).and_then(|()| say(output, &ok)),
        "stranger" => say(output, &json!({"id": "nobody-canary", "ok": true})).and_then(|()| say(output, &ok)),
        "rubbish" => {
            let rubbish = [json!("canary"), json!({"canary": 1}), json!({"id": id}), json!({"id": id, "ok": "canary"})];
            rubbish.iter().try_for_each(|line| say(output, line))?;
            lock(output).write_all(b"debug: canary \xff\xfe\n\n")?;
            say(output, &ok)
        }
        "huge" => lock(output).write_all(&vec![b'x'; 2 * 1024 * 1024]),
        "stderr" => {
            writeln!(io::stderr(), "a word on stderr\n{}", "y".repeat(10_000))?;
            say(output, &ok)
        }
        "last-words" => {
            writeln!(io::stderr(), "my last words")?;
            exit(3)
        }
        "by-attempt" if *attempt == 1 => say(output, &ok),
        "by-attempt" => say(output, &json!({"id": id, "error": format!("attempt {attempt}")})),
        "deaf" => {
            say(output, &ok)?;
            while rule.exists() {
                thread::park_timeout(Duration::from_millis(2));
            }
            Ok(())
        }
        "environment" => {
            let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            names.push(std::env::current_dir()?.display().to_string());
            say(output, &json!({"id": id, "error": names.join(" ")}))
        }
        "leave-a-child" => leave_a_child(folder).and_then(|()| say(output, &ok)),
        "leave-a-child-and-die" => {
            leave_a_child(folder)?;
            exit(3)
        }
        other => Err(io::Error::other(format!("no rule {other}"))),
    }
}

/// It holds our pipes open after we are gone, once it is known to be alive.
fn leave_a_child(folder: &Path) -> io::Result<()> {
    Command::new(std::env::current_exe()?).arg("linger").arg(folder).spawn()?;
    while !folder.join("lingers").exists() {
        thread::park_timeout(Duration::from_millis(2));
    }
    Ok(())
}

fn say(output: &Mutex<impl Write>, answer: &Value) -> io::Result<()> {
    let mut output = lock(output);
    output.write_all(format!("{answer}\n").as_bytes())?;
    output.flush()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn reverse() -> io::Result<()> {
    let output = Mutex::new(io::stdout());
    let mut ids = Vec::new();
    for line in io::stdin().lines() {
        ids.push(request(&line?)?.0);
        if ids.len() == 5 {
            ids.drain(..).rev().try_for_each(|id| say(&output, &json!({"id": id, "ok": true})))?;
        }
    }
    Ok(())
}

fn answer_late() -> io::Result<()> {
    let output = Mutex::new(io::stdout());
    let lines: Vec<String> = io::stdin().lines().collect::<io::Result<_>>()?;
    lines.iter().try_for_each(|line| say(&output, &json!({"id": request(line)?.0, "ok": true})))
}

fn listen(folder: &Path) -> io::Result<()> {
    let listener = UnixListener::bind(folder.join("exec.sock"))?;
    for stream in listener.incoming() {
        let (stream, folder) = (stream?, folder.to_owned());
        append(&folder.join("connections"), b"+\n")?;
        thread::spawn(move || {
            let reader = stream.try_clone().map(BufReader::new)?;
            // A conversation that breaks off is the other side's business.
            let _ = serve(&folder, reader, stream);
            append(&folder.join("connections"), b"-\n")
        });
    }
    Ok(())
}

fn linger(folder: &Path) -> io::Result<()> {
    let _alive = UnixStream::connect(folder.join("alive.sock"));
    append(&folder.join("lingers"), b"")?;
    loop {
        thread::park();
    }
}

fn relay(folder: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let program = std::env::current_exe()?.display().to_string();
    let command = vec![program, "serve".to_owned(), folder.display().to_string()];
    let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/postroom/test");
    runtime.block_on(async {
        let exec = Exec::new(ExecOptions::new("mailer", Target::Command(command), encoder));
        let (report, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
        exec.deliver(vec![Outbound::new(1, 1, Arc::new(Event::new("t").id("one")), None, report)]).await;
        let outcome = outcomes.recv().await;
        exec.close().await;
        writeln!(io::stdout(), "{outcome:?}")
    })
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
}
