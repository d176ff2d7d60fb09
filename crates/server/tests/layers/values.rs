//! Every part but the transports.

use std::time::Duration;

use postroom_core::envelope::{FieldTable, Format, Part};
use postroom_core::{BreakerPolicy, Delays, Limits, OnDead, OnFailure, Retention, RetryPolicy, StartFrom};
use postroom_exec::ExecConfig;
use postroom_relay::{Poll, RelayOptions};
use postroom_server::config::{LogFormat, init};

use crate::layers::case::{Case, origin};

const SHOP: &str = r#"
name = "shop-relay"
[store.main]
url = "sqlite://shop.db"
[relay]
lease = "10s"
[[route]]
name = "mail-er"
match = ["order.*", "paid"]
to = { exec = { command = ["python3", "mailer.py"], in_flight = 8 } }
"#;

#[test]
fn without_anything_the_defaults_are_those_of_the_parts() {
    let config = Case::new().config();
    let relay = RelayOptions::default();
    assert_eq!(config.name, relay.name);
    assert_eq!(config.relay.lease, relay.lease);
    assert_eq!(config.relay.in_flight_max, relay.in_flight_max);
    assert_eq!(config.relay.shutdown_grace, relay.shutdown_grace);
    assert_eq!(config.relay.take, relay.take);
    assert_eq!(config.retention, Retention::default());
    assert_eq!(config.limits, Limits::default());
    assert_eq!((config.log.format, config.log.level), (LogFormat::Auto, "info"));
    assert!(config.stores.is_empty() && config.routes.is_empty() && config.file.is_none());
}

#[test]
fn a_store_and_a_route_have_the_defaults_of_the_parts() {
    let config = Case::new().file("postroom.toml", SHOP).config();
    let (store, route) = (&config.stores[0], &config.routes[0]);
    assert_eq!(store.poll, Poll::default());
    assert_eq!(store.source, "/postroom/main");
    assert_eq!(route.stores, ["main"]);
    assert_eq!(route.retry, RetryPolicy::default());
    assert_eq!(route.breaker, BreakerPolicy::default());
    assert_eq!(route.envelope, Format::CloudEventsStructured);
    assert_eq!(route.rate, None);
    let definition = &route.definition;
    assert_eq!(
        (definition.start, definition.on_failure, definition.on_dead),
        (StartFrom::Now, OnFailure::Block, OnDead::Continue)
    );
    assert_eq!(definition.to, "exec python3 mailer.py");
    let exec = route.to.options::<ExecConfig>().unwrap();
    assert_eq!(exec.target, postroom_exec::Target::Command(vec!["python3".into(), "mailer.py".into()]));
    assert_eq!((exec.in_flight, exec.timeout), (8, Duration::from_secs(30)));
}

#[test]
fn flags_go_before_environment_before_file_before_defaults() {
    let case = Case::new().file("postroom.toml", SHOP);
    let config = case.config();
    assert_eq!(origin(&config, "relay.lease"), ("\"10s\"".into(), "postroom.toml:6".into()));
    assert_eq!(origin(&config, "relay.in_flight_max"), ("512".into(), "default".into()));
    let case = case.env("POSTROOM_RELAY__LEASE", "20s");
    let config = case.config();
    assert_eq!(config.relay.lease.as_secs(), 20);
    assert_eq!(origin(&config, "relay.lease"), ("\"20s\"".into(), "env POSTROOM_RELAY__LEASE".into()));
    let config = case.flag("relay.lease", "40s").config();
    assert_eq!(config.relay.lease.as_secs(), 40);
    assert_eq!(origin(&config, "relay.lease"), ("\"40s\"".into(), "flag".into()));
}

#[cfg(feature = "otlp")]
#[test]
fn a_collector_is_named_by_its_url_or_by_the_variables_of_opentelemetry() {
    let (collector, share) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER_ARG");
    let case = Case::new().file("postroom.toml", SHOP);
    assert_eq!(case.config().telemetry.traces, None);
    let case = case.env(collector, "http://collector:4318").env(share, "0.5").env("OTEL_SERVICE_NAME", "billing");
    let config = case.config();
    let told = &config.telemetry;
    assert_eq!(told.traces.as_ref().map(postroom_core::SecretUrl::expose), Some("http://collector:4318/v1/traces"));
    assert!((told.sample - 0.5).abs() < f64::EPSILON && told.service == "billing");
    assert_eq!(origin(&config, "telemetry.otlp").1, format!("env {collector}"));
    let case =
        case.file("postroom.toml", &format!("{SHOP}\n[telemetry]\notlp = 'https://a:secret@b/otlp/v1/traces/'\n"));
    let config = case.config();
    assert_eq!(
        config.telemetry.traces.as_ref().map(postroom_core::SecretUrl::expose),
        Some("https://a:secret@b/otlp/v1/traces/")
    );
    assert!(!format!("{:?}", config.show()).contains("secret") && !format!("{config:?}").contains("secret"));
    for (key, value) in [("otlp", "collector:4318"), ("otlp", "grpc://collector"), ("sample", "1.5"), ("sample", "all")]
    {
        let error = case_with(key, value).error();
        assert!(error.contains(value) || error.contains("from 0 to 1"), "{error}");
    }
}

#[cfg(feature = "otlp")]
fn case_with(key: &str, value: &str) -> Case {
    Case::new().file("postroom.toml", SHOP).env(&format!("POSTROOM_TELEMETRY__{}", key.to_uppercase()), value)
}

#[test]
fn routes_and_stores_are_named_in_variables_as_a_shell_can_spell_them() {
    let config = Case::new()
        .file("postroom.toml", SHOP)
        .env("POSTROOM_ROUTE__MAIL_ER__RATE", "10/s")
        .env("POSTROOM_ROUTE__MAIL_ER__MATCH", r#"["a.*", "b"]"#)
        .env("POSTROOM_ROUTE__MAIL_ER__STORE", r#"["main", "second"]"#)
        .env("POSTROOM_ROUTE__MAIL_ER__TO__EXEC__IN_FLIGHT", "3")
        .env("POSTROOM_ROUTE__MAIL_ER__RETRY__JITTER", "0.5")
        .env("POSTROOM_STORE__SECOND__URL", "sqlite://second.db")
        .config();
    let route = &config.routes[0];
    assert_eq!(config.routes.len(), 1);
    assert_eq!(route.rate, Some(10.0));
    assert_eq!(route.definition.filter.types.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.*", "b"]);
    assert_eq!(route.stores, ["main", "second"]);
    assert!((route.retry.jitter - 0.5).abs() < f64::EPSILON);
    let exec = route.to.options::<ExecConfig>().unwrap();
    assert_eq!(exec.in_flight, 3);
    assert_eq!(config.store(Some("second")).unwrap().url.expose(), "sqlite://second.db");
}

#[test]
fn a_route_may_come_from_the_environment_alone() {
    let config = Case::new()
        .env("DATABASE_URL", "sqlite://shop.db")
        .env("POSTROOM_ROUTE__MAILER__TO__EXEC__COMMAND", r#"["./mailer"]"#)
        .config();
    assert_eq!(config.routes[0].definition.name, "mailer");
    assert_eq!(config.routes[0].definition.to, "exec ./mailer");
}

#[test]
fn a_route_name_with_dots_can_be_named_by_a_flag() {
    let text = SHOP.replace("mail-er", "eu.orders");
    let config = Case::new().file("postroom.toml", &text).flag("route.eu.orders.rate", "60/m").config();
    assert_eq!(config.routes[0].rate, Some(1.0));
}

#[test]
fn a_variable_that_sets_nothing_is_an_error_with_a_suggestion() {
    for (variable, value, expected) in [
        (
            "POSTROOM_RELAY__LEESE",
            "1s",
            "environment variable `POSTROOM_RELAY__LEESE` sets nothing\nhint: did you mean `POSTROOM_RELAY__LEASE`?",
        ),
        (
            "POSTROOM_ROUTE__MAIL_ER__RATEE",
            "1/s",
            "environment variable `POSTROOM_ROUTE__MAIL_ER__RATEE` sets nothing\nhint: did you mean `POSTROOM_ROUTE__MAIL_ER__RATE`?",
        ),
        (
            "POSTROOM_STORE__MAIN__LAYOUT__TABLE",
            "events",
            "environment variable `POSTROOM_STORE__MAIN__LAYOUT__TABLE` sets nothing\nhint: did you mean `POSTROOM_STORE__MAIN__MAPPING__TABLE`?",
        ),
        (
            "POSTROOM_NONSENSE",
            "1",
            "environment variable `POSTROOM_NONSENSE` sets nothing\nhint: variables are POSTROOM_SECTION__KEY; `postroom config init` lists the keys",
        ),
        (
            "POSTROOM_ROUTE__MAILER__RATE",
            "1/s",
            "POSTROOM_ROUTE__MAILER__RATE: there is no route `mailer`\nhint: did you mean `mail-er`?",
        ),
        ("POSTROOM_RELAY", "fast", "POSTROOM_RELAY: `relay` is a table\nhint: set its keys one by one"),
        (
            "POSTROOM_ROUTE__MAIL_ER__MATCH",
            "order.*",
            "POSTROOM_ROUTE__MAIL_ER__MATCH: `route.mail-er.match` must be a list\nhint: write JSON, for instance [\"a\", \"b\"]",
        ),
        (
            "POSTROOM_RELAY__IN_FLIGHT_MAX",
            "0",
            "POSTROOM_RELAY__IN_FLIGHT_MAX: `relay.in_flight_max` must be a whole number from 1, not 0",
        ),
    ] {
        assert_eq!(Case::new().file("postroom.toml", SHOP).env(variable, value).error(), expected);
    }
}

#[test]
fn an_unknown_flag_is_an_error_with_a_suggestion() {
    let case = Case::new().flag("relay.leese", "1s");
    assert_eq!(case.error(), "on the command line: unknown key `relay.leese`\nhint: did you mean `relay.lease`?");
    let case = Case::new().flag("relay.lease", "1");
    assert!(
        case.error().starts_with("on the command line: `relay.lease`: \"1\" is not a duration"),
        "{}",
        case.error()
    );
}

#[test]
fn the_secret_of_a_higher_layer_replaces_both_ways_of_giving_it_below() {
    let file = "[store.main]\nurl_file = \"secret\"\n";
    let case = Case::new().file("postroom.toml", file).file("secret", "sqlite://from-file.db\n");
    assert_eq!(case.config().stores[0].url.expose(), "sqlite://from-file.db");
    let case = case.env("POSTROOM_STORE__MAIN__URL", "sqlite://from-env.db");
    assert_eq!(case.config().stores[0].url.expose(), "sqlite://from-env.db");
    let case = Case::new()
        .file("postroom.toml", SHOP)
        .file("secret", "sqlite://from-file.db\n")
        .env("POSTROOM_STORE__MAIN__URL_FILE", "secret");
    assert_eq!(case.config().stores[0].url.expose(), "sqlite://from-file.db");
    let error = case.env("POSTROOM_STORE__MAIN__URL", "sqlite://x.db").error();
    assert!(error.contains("store `main` has both `url` and `url_file`"), "{error}");
}

#[test]
fn a_secret_file_is_named_when_it_is_unreadable_and_its_content_is_not() {
    let case =
        Case::new().file("secret", "oracle://shop:canary@db/shop").env("POSTROOM_STORE__MAIN__URL_FILE", "secret");
    assert!(case.error().contains("the url of store `main` begins with oracle://") && !case.error().contains("canary"));
    let error = Case::new().env("POSTROOM_STORE__MAIN__URL_FILE", "nowhere").error();
    assert_eq!(error, "POSTROOM_STORE__MAIN__URL_FILE: cannot read nowhere: it does not exist");
}

#[test]
fn database_url_is_the_store_main_only_when_no_store_is_configured() {
    let case = Case::new().env("DATABASE_URL", "sqlite://platform.db");
    let config = case.config();
    assert_eq!(config.store(None).unwrap().url.expose(), "sqlite://platform.db");
    assert_eq!(origin(&config, "store.main.url").1, "env DATABASE_URL");
    assert_eq!(case.file("postroom.toml", SHOP).config().stores[0].url.expose(), "sqlite://shop.db");
}

#[test]
fn the_file_is_searched_in_order() {
    let named = |name: &str| format!("name = \"{name}\"");
    let case = Case::new().file("xdg/postroom/config.toml", &named("xdg"));
    assert_eq!(case.config().name, "xdg");
    let case = case.file("postroom.toml", &named("here"));
    assert_eq!(case.config().name, "here");
    let case = case.file("other.toml", &named("variable")).env("POSTROOM_CONFIG", "other.toml");
    assert_eq!(case.config().name, "variable");
    let case = case.file("named.toml", &named("flag")).named("named.toml");
    assert_eq!((case.config().name.as_str(), case.config().file), ("flag", Some("named.toml".into())));
}

#[test]
fn a_named_file_that_is_not_there_is_an_error() {
    assert_eq!(
        Case::new().named("missing.toml").error(),
        "cannot read the configuration missing.toml: it does not exist\nhint: `postroom config init` writes a commented one"
    );
}

#[test]
fn a_route_takes_from_the_common_retries_what_it_leaves_out() {
    let file = r#"
[store.main]
url = "sqlite://shop.db"
[retry]
schedule = ["1s", "2s"]
attempts = 3
[[route]]
name = "common"
to = { noop = {} }
[[route]]
name = "own-delays"
retry = { base = "10s" }
to = { noop = {} }
[[route]]
name = "own-schedule"
retry = { schedule = ["5m"], attempts = 9 }
to = { noop = {} }
"#;
    let config = Case::new().file("postroom.toml", file).config();
    let seconds = Duration::from_secs;
    let policies: Vec<_> = config.routes.iter().map(|r| (r.retry.delays.clone(), r.retry.attempts)).collect();
    assert_eq!(
        policies,
        [
            (Delays::Schedule(vec![seconds(1), seconds(2)]), 3),
            (Delays::Exponential { base: seconds(10), max: seconds(900) }, 3),
            (Delays::Schedule(vec![seconds(300)]), 9),
        ]
    );
}

#[test]
fn a_star_serves_every_store_and_none_twice() {
    let file = SHOP.replace("match", "store = [\"main\", \"*\"]\nmatch");
    let config = Case::new().file("postroom.toml", &file).env("POSTROOM_STORE__B__URL", "sqlite:b.db").config();
    assert_eq!(config.routes[0].stores, ["main", "b"]);
}

#[test]
fn envelope_fields_keep_their_order() {
    let file = SHOP.to_owned()
        + "envelope = { fields = { z = \"id\", a = { from = \"occurred_at\", time = \"seconds-z\" }, m = \"payload\" } }";
    let config = Case::new().file("postroom.toml", &file).config();
    let part = |from, time| Part::parse(from, time).unwrap();
    let expected = vec![
        ("z".to_owned(), part("id", None)),
        ("a".to_owned(), part("occurred_at", Some("seconds-z"))),
        ("m".to_owned(), part("payload", None)),
    ];
    assert_eq!(config.routes[0].envelope, Format::Fields(FieldTable::new(expected)));
}

#[test]
fn never_keeps_things_for_ever() {
    let file = "[retention]\ndelivered = \"never\"\n[inbox]\nretention = \"30d\"\n";
    let retention = Case::new().file("postroom.toml", file).config().retention;
    assert_eq!(retention.delivered, None);
    assert_eq!(retention.inbox, Some(Duration::from_hours(30 * 24)));
}

#[test]
fn a_time_may_be_written_without_quotes() {
    let file = SHOP.to_owned() + "start = 2026-01-02T03:04:05Z\n";
    let start = Case::new().file("postroom.toml", &file).config().routes[0].definition.start;
    assert_eq!(start, StartFrom::At("2026-01-02T03:04:05Z".parse().unwrap()));
}

#[test]
fn the_only_store_needs_no_name_and_several_do() {
    let one = Case::new().file("postroom.toml", SHOP);
    assert_eq!(one.config().store(None).unwrap().name, "main");
    let error = one.config().store(Some("mian")).unwrap_err().to_string();
    assert_eq!(error, "there is no store `mian`\nhint: did you mean `main`?");
    let two = one.env("POSTROOM_STORE__B__URL", "sqlite:b.db").flag("route.mail-er.store", "main").config();
    assert_eq!(two.store(None).unwrap_err().to_string(), "there are 2 stores\nhint: choose one with --store: main, b");
    let nothing = Case::new().config().store(None).unwrap_err().to_string();
    assert!(nothing.starts_with("no configuration found; looked for postroom.toml, "), "{nothing}");
    assert!(nothing.contains("/xdg/postroom/config.toml, /etc/postroom/config.toml\nhint: name a file"), "{nothing}");
    let empty = Case::new().file("postroom.toml", "").config().store(None).unwrap_err().to_string();
    assert!(empty.starts_with("postroom.toml configures no store\nhint: add [store.main]"), "{empty}");
}

#[test]
fn the_commented_file_changes_nothing() {
    let plain = Case::new().config();
    let commented = Case::new().file("postroom.toml", &init()).config();
    assert_eq!(plain.show(), commented.show());
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("config-init", init());
    });
}

#[test]
fn the_commented_file_is_valid_when_every_line_is_used() {
    let uncommented: String = init()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            // Only a route of an adopted table has one.
            Some(rest) if rest.starts_with("consumer = ") => "consumer = \"\"\n".to_owned(),
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let case = Case::new().file("postroom.toml", &uncommented).file("schemas/order.placed@2.json", "{}");
    let config = case.file("tls/cert.pem", &cert).file("tls/key.pem", &key).file("tls/clients.pem", &cert).config();
    assert_eq!((config.stores.len(), config.routes.len()), (1, 1));
    assert!(config.show().iter().any(|s| s.origin.to_string().starts_with("postroom.toml:")));
}

#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let config = Case::new()
        .file("postroom.toml", SHOP)
        .env("POSTROOM_STORE__MAIN__URL", "sqlite://shop:canary@shop.db")
        .flag("retry.attempts", "5")
        .config();
    let lines: Vec<String> = config.show().iter().map(|s| format!("{} = {}  # {}", s.key, s.value, s.origin)).collect();
    let text = lines.join("\n");
    assert!(!text.contains("canary") && !format!("{config:?}").contains("canary"));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("config-show", text);
    });
}

#[cfg(feature = "postgres")]
#[test]
fn a_list_of_urls_is_read_from_everywhere_and_no_password_of_it_is_shown() {
    let list = r#"["postgres://shop:canary@one/shop", "postgresql://shop:canary@two/shop"]"#;
    let file = Case::new().file("postroom.toml", &format!("[store.main]\nurl = {list}\nlanes = 4\n"));
    let env = Case::new().env("POSTROOM_STORE__MAIN__URL", list).env("POSTROOM_STORE__MAIN__LANES", "4");
    for case in [file, env] {
        let config = case.config();
        let store = config.store(None).unwrap();
        assert_eq!(store.url.expose(), "postgres://shop:canary@one/shop");
        assert_eq!(
            store.more_urls.iter().map(postroom_core::SecretUrl::expose).collect::<Vec<_>>(),
            ["postgresql://shop:canary@two/shop"]
        );
        assert_eq!((store.postgres.schema.as_str(), store.postgres.lanes), ("postroom", Some(4)));
        assert_eq!(
            origin(&config, "store.main.url").0,
            r#"["postgres://shop:***@one/shop", "postgresql://shop:***@two/shop"]"#
        );
        assert_eq!(origin(&config, "store.main.pooler"), ("\"auto\"".to_owned(), "default".to_owned()));
        assert!(!format!("{config:?}{:?}", config.show()).contains("canary"));
    }
}
