//! Mistakes that people make. Each message must answer four questions: what is wrong, where, why, and what to do next.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::net::TcpListener;

use postroom_testbed::SmallDisk;

use crate::world::{ProgramOutput, Running, World};

/// One mistake, and parts of the message that must answer it.
struct Mistake<'a> {
    typed: &'a [&'a str],
    code: i32,
    what: &'a str,
    place: &'a str,
    why: &'a str,
    next: &'a str,
}

impl Mistake<'_> {
    /// Makes the mistake.
    fn check(&self, world: &World) {
        self.judge(&world.run(self.typed));
    }

    fn judge(&self, said: &ProgramOutput) {
        let told = format!("{}{}", said.stdout, said.stderr);
        let typed = self.typed.join(" ");
        assert_eq!(said.code, self.code, "postroom {typed}\n{told}");
        let points = [("what", self.what), ("where", self.place), ("why", self.why), ("next", self.next)];
        for (point, part) in points {
            assert!(told.contains(part), "postroom {typed}\n{told}\ndoes not say {point}: {part:?}");
        }
    }
}

/// A store and a route, and what a test adds.
fn config(url: &str, route: &str) -> String {
    format!("[store.main]\nurl = \"{url}\"\n\n[[route]]\nname = \"out\"\n{route}\n")
}

const SQLITE: &str = "sqlite://shop.db";
const CHECK: &[&str] = &["config", "check", "--config", "bad.toml"];

#[test]
fn in_a_configuration() {
    let world = World::bare();
    let noop = "to = { noop = {} }";
    let place = "bad.toml:2:7: ";
    let cases: [(String, Mistake<'_>); 10] = [
        (
            config(SQLITE, noop).replace("[store", "[strore"),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "unknown key `strore`",
                place: "bad.toml:1:2",
                why: "[strore.main]",
                next: "did you mean `store`?",
            },
        ),
        (
            config(SQLITE, &format!("mach = [\"a\"]\n{noop}")),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "unknown key `mach`",
                place: "bad.toml:6:1",
                why: "in `route.out`",
                next: "did you mean `match`?",
            },
        ),
        (
            config(SQLITE, "to = { kafak = {} }"),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "unknown key `kafak`",
                place: "bad.toml:6:8",
                why: "in `route.out.to`",
                next: "did you mean `kafka`?",
            },
        ),
        (
            config(SQLITE, &format!("match = \"order.*\"\n{noop}")),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "`route.out.match` must be a list",
                place: "bad.toml:6:9",
                why: "not \"order.*\"",
                next: "write [\"order.*\"]",
            },
        ),
        (
            config(SQLITE, noop) + "[relay]\nlease = 30\n",
            Mistake {
                typed: CHECK,
                code: 2,
                what: "`relay.lease` = 30",
                place: "bad.toml:8:9",
                why: "has no unit",
                next: "write a duration such as \"30s\"",
            },
        ),
        (
            config("mysql://shop:canary@db/shop", noop),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "MySQL is not supported",
                place,
                why: "the url of store `main` begins with mysql://",
                next: "stores are SQLite and PostgreSQL",
            },
        ),
        (
            config("postgres://me:can@ry#1/2@db/shop", noop),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "user or password in the url of store `main`",
                place,
                why: "contain `#`",
                next: "percent-encode them: `@` is %40, `#` is %23, `/` is %2F",
            },
        ),
        (
            config("${NO_SUCH_URL}", noop),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "environment variable `NO_SUCH_URL`",
                place,
                why: "is not set",
                next: "${NO_SUCH_URL:-…}",
            },
        ),
        (
            config(SQLITE, noop) + "[[route]]\nname = \"out\"\n" + noop,
            Mistake {
                typed: CHECK,
                code: 2,
                what: "route `out` is there twice",
                place: "bad.toml:8:8",
                why: "the first is at bad.toml:5",
                next: "give each route its own name",
            },
        ),
        (
            config(SQLITE, noop).replace("\"out\"", "\"Out 1\""),
            Mistake {
                typed: CHECK,
                code: 2,
                what: "\"Out 1\" cannot be the name of a route",
                place: "bad.toml:5:8",
                why: "name = \"Out 1\"",
                next: "use lower-case letters",
            },
        ),
    ];
    for (text, mistake) in cases {
        world.write("bad.toml", &text);
        mistake.check(&world);
        let said = world.run(CHECK);
        assert!(!said.stderr.contains("canary") && !said.stderr.contains("can@ry"), "a password: {}", said.stderr);
    }
}

#[test]
fn several_in_one_configuration_are_all_told_at_once() {
    let world = World::bare();
    world.write(
        "bad.toml",
        "[strore.main]\nurl = 7\n[[route]]\nname = \"A\"\nmach = []\nto = { kafak = {} }\n[relay]\nlease = 30\nname = 1\n[http]\nlistn = \"x\"\n",
    );
    let said = world.run(CHECK);
    let errors = said.stderr.lines().filter(|line| line.starts_with("error: bad.toml:")).count();
    assert!(said.code == 2 && errors >= 7, "{errors} errors: {}", said.stderr);
}

#[test]
fn in_the_environment_and_the_folder() {
    let world = World::new();
    let output = world.command(&["status"]).env("POSTROOM_RELAY__LEESE", "3s").output().unwrap();
    let unknown = Mistake {
        typed: &["status"],
        code: 2,
        what: "sets nothing",
        place: "environment variable `POSTROOM_RELAY__LEESE`",
        why: "LEESE",
        next: "did you mean `POSTROOM_RELAY__LEASE`?",
    };
    unknown.judge(&output.into());
    let elsewhere = world.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let output = world.command(&["status"]).current_dir(&elsewhere).output().unwrap();
    let nothing = Mistake {
        typed: &["status"],
        code: 2,
        what: "no configuration found",
        place: "looked for postroom.toml",
        why: "/etc/postroom/config.toml",
        next: "name a file with --config",
    };
    nothing.judge(&output.into());
}

#[test]
fn around_a_store() {
    let world = World::bare();
    for (url, mistake) in [
        (
            "postgres://me:canary@127.0.0.1:1/mist",
            Mistake {
                typed: &["event", "ls"],
                code: 3,
                what: "cannot reach mist",
                place: "at 127.0.0.1:1",
                why: "connection refused",
                next: "check that the server runs",
            },
        ),
        (
            "postgres://me:canary@no-such-host.invalid:5432/mist",
            Mistake {
                typed: &["event", "ls"],
                code: 3,
                what: "cannot reach mist",
                place: "at no-such-host.invalid:5432",
                why: "the host name cannot be resolved",
                next: "host and port in the URL",
            },
        ),
        (
            "sqlite://shop.db",
            Mistake {
                typed: &["event", "ls"],
                code: 3,
                what: "shop.db",
                place: "shop.db",
                why: "does not exist",
                next: "postroom store migrate up",
            },
        ),
    ] {
        world.write("postroom.toml", &config(url, "to = { noop = {} }"));
        mistake.check(&world);
    }
    // A file that nobody has made is not the same as routes that are down.
    for (typed, code) in [(&["status"][..], 3), (&["check"], 2), (&["doctor"], 7)] {
        Mistake { typed, code, what: "shop.db", place: "shop.db", why: "does not exist", next: "" }.check(&world);
    }
    world.write("postroom.toml", "[store.main]\nurl = \"sqlite://shop.db\"\n");
    Mistake { typed: &["check"], code: 3, what: "UNKNOWN", place: "shop.db", why: "does not exist", next: "" }
        .check(&world);
    // Tables of an older version, or none.
    let world = World::new();
    for _ in 0..2 {
        world.ok(&["store", "migrate", "down", "--yes"]);
    }
    for (typed, code) in [(&["status"][..], 4), (&["doctor"], 7)] {
        Mistake {
            typed,
            code,
            what: "store schema is missing",
            place: "main",
            why: "this build needs version",
            next: "run `postroom store migrate up`",
        }
        .check(&world);
    }
    Mistake {
        typed: &["check"],
        code: 2,
        what: "CRITICAL",
        place: "mailer down",
        why: "store schema is missing",
        next: "this build needs version",
    }
    .check(&world);
    Mistake {
        typed: &["event", "ls"],
        code: 4,
        what: "store schema is missing",
        place: "shop.db",
        why: "this build needs version",
        next: "run `postroom store migrate up`",
    }
    .check(&world);
}

#[cfg(feature = "postgres")]
#[test]
fn around_a_login() {
    let shop = crate::postgres::Shop::new();
    let url = shop.database.url();
    let nobody = shop.url_of("nobody_of_this_name");
    let nowhere = url.replace(shop.database.name(), "no_such_database");
    for (url, mistake) in [
        (
            nobody,
            Mistake {
                typed: &["event", "ls"],
                code: 3,
                what: "refused the login",
                place: "127.0.0.1:",
                why: "nobody_of_this_name",
                next: "check user and password in the URL",
            },
        ),
        (
            nowhere,
            Mistake {
                typed: &["event", "ls"],
                code: 3,
                what: "no_such_database",
                place: "127.0.0.1:",
                why: "does not exist",
                next: "check the database's name in the URL, or create it",
            },
        ),
    ] {
        shop.config(&url, "");
        mistake.check(&shop.world);
    }
}

#[test]
fn around_a_relay() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    Mistake {
        typed: &["relay", "run", "--listen", &address],
        code: 1,
        what: "cannot listen",
        place: &address,
        why: "Address already in use",
        next: "--listen 127.0.0.1:7481",
    }
    .check(&world);
    Mistake {
        typed: &["relay", "run", "--listen", "0.0.0.0:7499"],
        code: 2,
        what: "can be reached from other machines",
        place: "0.0.0.0:7499",
        why: "everybody could ask",
        next: "postroom token create",
    }
    .check(&world);
    Mistake {
        typed: &["top"],
        code: 2,
        what: "`top`",
        place: "`top`",
        why: "needs a terminal",
        next: "postroom status --watch",
    }
    .check(&world);
    world.write(
        "bad.toml",
        &(config(SQLITE, "to = { redis = { url = \"redis://127.0.0.1:1\", stream = \"s\" } }")
            + "[[route]]\nname = \"x\"\nto = { exec = { command = [\"no-such-command\"] } }\n"),
    );
    let online = &["config", "check", "--online", "--config", "bad.toml"];
    Mistake {
        typed: online,
        code: 7,
        what: "redis.unreachable",
        place: "route out",
        why: "Connection refused",
        next: "hint: check `url`, the network, the server",
    }
    .check(&world);
    Mistake {
        typed: online,
        code: 7,
        what: "exec.not_found",
        place: "route x",
        why: "\"no-such-command\" is not found",
        next: "hint: ",
    }
    .check(&world);
}

#[test]
fn a_second_relay_on_a_file_stands_by_and_says_why() {
    let world = World::new();
    let relay = || Running::start(world.command(&["relay", "run"]));
    let until = |relay: &mut Running, part: &str| loop {
        let line = relay.note();
        assert!(!line.is_empty(), "it ended without {part:?}");
        if line.contains(part) {
            return line;
        }
    };
    let mut first = relay();
    until(&mut first, "\"lanes\":1");
    let mut second = relay();
    let said = until(&mut second, "standing by");
    assert!(said.contains("another relay owns this route") && said.contains("\"route\":"), "{said}");
}

#[test]
fn in_an_event() {
    let world = World::new();
    world.write("good.json", "{\"total\": 12}\n");
    world.write("bad.json", "{total: 12}\n");
    let append = |payload: &'static str| ["event", "append", "--type", "order.placed", "--payload", payload];
    Mistake {
        typed: &append("{a:1}"),
        code: 2,
        what: "event payload is not JSON",
        place: "at line 1 column 2",
        why: "key must be a string",
        next: "in a shell put it in quotes",
    }
    .check(&world);
    Mistake {
        typed: &append("@bad.json"),
        code: 2,
        what: "event payload is not JSON",
        place: "at line 1 column 2",
        why: "key must be a string",
        next: "send valid JSON",
    }
    .check(&world);
    Mistake {
        typed: &append("@nope.json"),
        code: 2,
        what: "the payload",
        place: "\"nope.json\"",
        why: "No such file",
        next: "name a file that you can read",
    }
    .check(&world);
    assert_eq!(world.events(), 0);
    let id = world.ok(&append("@good.json"));
    assert_eq!(world.json(&["event", "show", id.trim(), "--payload"])["payload"]["total"], 12);
    Mistake {
        typed: &["event", "append", "--type", "order placed"],
        code: 0,
        what: "the type \"order placed\"",
        place: "order placed",
        why: "contains white space",
        next: "postroom route ls",
    }
    .check(&world);
    Mistake {
        typed: &["event", "append", "--type", "other.thing"],
        code: 0,
        what: "no route matches",
        place: "other.thing",
        why: "delivered to nobody",
        next: "postroom route ls",
    }
    .check(&world);
    Mistake {
        typed: &["event", "append", "--type", "order.placed", "--id", id.trim()],
        code: 0,
        what: "was appended before",
        place: "at position 1",
        why: id.trim(),
        next: "both events are delivered",
    }
    .check(&world);
}

#[test]
fn in_a_name_or_a_filter() {
    let world = World::new();
    world.append("order-7-placed", "order.bad", "order-7");
    world.ok(&["relay", "run", "--drain"]);
    for mistake in [
        Mistake {
            typed: &["event", "show", "order-7-paced"],
            code: 1,
            what: "there is no event",
            place: "\"order-7-paced\"",
            why: "there is no",
            next: "did you mean \"order-7-placed\"?",
        },
        Mistake {
            typed: &["route", "show", "mialer"],
            code: 1,
            what: "there is no route",
            place: "\"mialer\"",
            why: "there is no",
            next: "did you mean \"mailer\"?",
        },
        Mistake {
            typed: &["key", "unblock", "order-8"],
            code: 1,
            what: "there is no blocked key",
            place: "\"order-8\"",
            why: "there is no",
            next: "postroom key ls --blocked",
        },
        Mistake {
            typed: &["replay", "show", "nope"],
            code: 1,
            what: "there is no replay",
            place: "\"nope\"",
            why: "there is no",
            next: "postroom replay ls",
        },
        Mistake {
            typed: &["dead", "replay", "--code", "exec.eror", "--dry-run"],
            code: 1,
            what: "there is no code",
            place: "\"exec.eror\"",
            why: "there is no",
            next: "\"exec.error\"",
        },
        Mistake {
            typed: &["dead", "ls", "--code", "exec.eror"],
            code: 1,
            what: "there is no code",
            place: "\"exec.eror\"",
            why: "there is no",
            next: "\"exec.error\"",
        },
        Mistake {
            typed: &["statsu"],
            code: 2,
            what: "unrecognized subcommand",
            place: "'statsu'",
            why: "unrecognized",
            next: "'status'",
        },
        Mistake {
            typed: &["events", "ls"],
            code: 2,
            what: "unrecognized subcommand",
            place: "'events'",
            why: "unrecognized",
            next: "'event'",
        },
        Mistake {
            typed: &["routes"],
            code: 2,
            what: "unrecognized subcommand",
            place: "'routes'",
            why: "unrecognized",
            next: "'route'",
        },
    ] {
        mistake.check(&world);
    }
    // What a dead letter has is known, whoever made it; what nothing has at the moment is no mistake.
    let code = world.json(&["dead", "ls"])[0]["code"].as_str().unwrap().to_owned();
    assert_eq!(world.json(&["dead", "replay", "--code", &code, "--dry-run"])["deliveries"], 1);
    assert_eq!(world.json(&["dead", "replay", "--code", "exec.timeout", "--dry-run"])["deliveries"], 0);
}

#[test]
fn in_what_is_selected_and_confirmed() {
    let world = World::new();
    world.append("order-7-placed", "order.bad", "order-7");
    world.ok(&["relay", "run", "--drain"]);
    for mistake in [
        Mistake {
            typed: &["replay", "--yes"],
            code: 2,
            what: "nothing was changed",
            place: "no deliveries are selected",
            why: "no deliveries are selected",
            next: "add a filter such as --route, or --all",
        },
        Mistake {
            typed: &["dead", "discard", "--yes"],
            code: 2,
            what: "nothing was changed",
            place: "no deliveries are selected",
            why: "no deliveries are selected",
            next: "--all",
        },
        Mistake {
            typed: &["dead", "replay", "-", "--yes"],
            code: 2,
            what: "no ids",
            place: "on stdin",
            why: "nothing was changed",
            next: "one id per line",
        },
        Mistake {
            typed: &["dead", "discard", "order-7-placed"],
            code: 4,
            what: "not confirmed",
            place: "1 delivery of 1 key: mailer 1",
            why: "there is no terminal to ask on",
            next: "add --yes",
        },
        Mistake {
            typed: &["dead", "discard", "order-7-placed", "--confirm", "3"],
            code: 4,
            what: "nothing was changed",
            place: "--confirm is 3",
            why: "but 1 are affected",
            next: "look again with --dry-run",
        },
    ] {
        mistake.check(&world);
    }
    assert_eq!(world.json(&["dead", "ls"]).as_array().unwrap().len(), 1);
}

#[test]
fn in_the_name_of_a_command() {
    let world = World::bare();
    for (typed, meant) in [("statsu", "'status'"), ("events", "'event'"), ("routes", "'route'")] {
        Mistake {
            typed: &[typed],
            code: 2,
            what: "unrecognized subcommand",
            place: typed,
            why: "similar subcommand",
            next: meant,
        }
        .check(&world);
    }
    let help = world.ok(&["help"]);
    assert!(help.contains("Start:") && help.contains("Look:") && help.contains("  status"), "{help}");
}

#[test]
fn in_the_new_name_of_a_route() {
    let world = World::bare();
    let noop = "to = { noop = {} }";
    world.write("postroom.toml", &config(SQLITE, noop));
    world.ok(&["store", "migrate", "up"]);
    world.append("e-1", "order.placed", "k");
    world.write("postroom.toml", &config(SQLITE, noop).replace("\"out\"", "\"outgoing\""));
    Mistake {
        typed: &["relay", "run"],
        code: 4,
        what: "route outgoing is new",
        place: "looks like route out renamed",
        why: "(1 due)",
        next: "postroom route rename out outgoing",
    }
    .check(&world);
}

#[test]
fn on_a_disk_that_is_full() {
    let world = World::bare();
    let disk = SmallDisk::new(2);
    let url = format!("sqlite://{}/shop.db", disk.path().display());
    world.write("postroom.toml", &config(&url, "to = { noop = {} }"));
    world.ok(&["store", "migrate", "up"]);
    world.append("before", "order.placed", "k");
    let payload = "x".repeat(400);
    let line = |n: u32| format!("{{\"type\":\"order.placed\",\"id\":\"many-{n}\",\"payload\":\"{payload}\"}}\n");
    let many: String = (0..10_000).map(line).collect();
    Mistake {
        typed: &["event", "append", "-"],
        code: 1,
        what: "no room to write",
        place: "/shop.db",
        why: "no room",
        next: "free space on the disk",
    }
    .judge(&world.feed(&["event", "append", "-"], &many));
    assert_eq!(world.json(&["event", "ls"]).as_array().unwrap().len(), 1, "the batch is rolled back whole");
}
