//! Gives `[store.NAME]` its meaning: which kind of store it is, and what that kind allows.

use std::time::Duration;

use postroom_core::SecretUrl;
use postroom_core::units::format_duration;
use postroom_relay::Poll;

use postroom_settings::{Key, Kind, Node, Place, SOME, Table, key, optional, table};

use super::definition::absent;
#[cfg(feature = "adopted")]
use super::mapping;
use super::read::Read;
use super::typed::{PoolerConfig, PostgresConfig, StoreConfig};

pub(super) static STORE: &[Key] = &[
    optional(
        "url",
        Kind::Either(&Kind::Secret, &Kind::List(&Kind::Secret)),
        r#""sqlite://postroom.db""#,
        "URL of the database; in a list of PostgreSQL servers the primary is used. Defaults to DATABASE_URL.",
    ),
    optional("url_file", Kind::Path, r#""/run/credentials/database-url""#, "File with the URL, instead of `url`."),
    optional(
        "source",
        Kind::Text,
        r#""/postroom/main""#,
        "Source attribute of CloudEvents; by default /postroom/NAME.",
    ),
    table("poll", POLL, "Pause between two polls for new events; it grows from min to max while there are none."),
    #[cfg(feature = "adopted")]
    optional(
        "migrate",
        Kind::Word(&["auto", "never"]),
        r#""auto""#,
        "Adopted tables: whether a relay creates its own tables beside them; auto by default.",
    ),
    #[cfg(feature = "adopted")]
    Key {
        name: "mapping",
        kind: Kind::Section(mapping::MAPPING),
        default: "",
        doc: "Mapping of an existing table that serves as the outbox; without a mapping the store has its own log.",
        example: "",
    },
    #[cfg(not(feature = "adopted"))]
    postroom_settings::absent("migrate", "key `migrate`", "adopted"),
    #[cfg(not(feature = "adopted"))]
    postroom_settings::absent("mapping", "key `mapping`", "adopted"),
    optional("schema", Kind::Text, r#""postroom""#, "PostgreSQL: schema of the store's tables; by default postroom."),
    optional(
        "pooler",
        Kind::Word(POOLERS),
        r#""auto""#,
        "PostgreSQL: pooler in front of the server; auto, the default, detects it.",
    ),
    optional(
        "lanes",
        Kind::Between(1, 1024),
        "16",
        "PostgreSQL: maximum number of relays that share a route; fixed when the tables are created, by default 16.",
    ),
    optional(
        "partitions",
        Kind::Between(4, 100),
        "10",
        "PostgreSQL: number of partitions of the log; fixed when the tables are created, by default 10.",
    ),
    optional(
        "segment",
        Kind::Duration(Duration::from_secs(1)),
        r#""1d""#,
        "PostgreSQL: time span of a partition; fixed when the tables are created, by default 1d.",
    ),
];

/// Keys of `[store.NAME]` that only PostgreSQL knows.
pub(super) const POSTGRES_KEYS: &[&str] = &["schema", "pooler", "lanes", "partitions", "segment"];
/// Words of `store.NAME.pooler`.
static POOLERS: &[&str] = &["auto", "none", "transaction"];

static POLL: &[Key] = &[
    key("min", SOME, r#""2ms""#, "Shortest pause; a shorter one uses more CPU when idle."),
    key("max", SOME, r#""50ms""#, "Longest pause; a longer one delays events appended by other processes."),
];

/// Databases that people try, by the scheme of their URLs.
const OTHER_DATABASES: [(&str, &str); 6] = [
    ("mysql", "MySQL"),
    ("mariadb", "MariaDB"),
    ("mssql", "SQL Server"),
    ("sqlserver", "SQL Server"),
    ("oracle", "Oracle"),
    ("mongodb", "MongoDB"),
];

/// Longest segment.
const SEGMENT_MAX: Duration = Duration::from_hours(24 * 365);

impl Read<'_> {
    pub(super) fn stores(&mut self, section: &Table, retention: &Table) -> Vec<StoreConfig> {
        let mut stores = Vec::new();
        for entry in &section.0 {
            let Some(table) = entry.node.table() else { continue };
            let urls = self.urls(&entry.name, table, &entry.place);
            let Some(((url, place), more)) = urls.split_first() else { continue };
            match url.scheme() {
                "sqlite" => self.sqlite(&entry.name, table, url, place, more),
                "postgres" | "postgresql" => self.postgres(&entry.name, table, &urls, retention),
                scheme => {
                    let other = OTHER_DATABASES.iter().find(|(known, _)| *known == scheme);
                    let message = match other {
                        Some((scheme, database)) => {
                            format!(
                                "{database} is not supported: the url of store `{}` begins with {scheme}://",
                                entry.name
                            )
                        }
                        None => format!("the url of store `{}` names no kind of store", entry.name),
                    };
                    let hint = "stores are SQLite and PostgreSQL: write for instance \"sqlite://postroom.db\" or \"postgres://shop@db/shop\"";
                    self.problems.at(place, message, Some(hint.to_owned()));
                }
            }
            let empty = Table::default();
            let poll = table.table("poll").unwrap_or(&empty);
            let store = StoreConfig {
                name: entry.name.clone(),
                url: url.clone(),
                more_urls: more.iter().map(|(url, _)| url.clone()).collect(),
                source: table.text("source").unwrap_or_default().to_owned(),
                poll: Poll::default().min(poll.duration("min")).max(poll.duration("max")),
                postgres: postgres(table),
                #[cfg(feature = "adopted")]
                mapping: self.mapping(&entry.name, table.table("mapping")),
                migrate: table.text("migrate") != Some("never"),
            };
            self.problems.in_order(poll, ("min", store.poll.min), ("max", store.poll.max));
            stores.push(store);
        }
        stores
    }

    fn sqlite(&mut self, name: &str, table: &Table, url: &SecretUrl, place: &Place, more: &[(SecretUrl, Place)]) {
        if let Some((_, parameters)) = url.expose().split_once('?')
            && parameters != "mode=ro"
        {
            let message = format!("the url of store `{name}` has parameters this store does not know");
            let hint = "leave them out; only `?mode=ro` (look, never write) has a meaning".to_owned();
            self.problems.at(place, message, Some(hint));
        }
        if let Some((_, place)) = more.first() {
            let message = format!("store `{name}` is one SQLite file, so it has one url");
            self.problems.at(place, message, Some("only servers of one PostgreSQL cluster may be several".to_owned()));
        }
        let given = |key: &&&str| table.get(key).is_some_and(|node| !node.is_default());
        for key in POSTGRES_KEYS.iter().filter(given) {
            let Some(node) = table.get(key) else { continue };
            let message = format!("`{key}` has no meaning for store `{name}`: it is SQLite");
            self.problems.at(&node.place, message, Some("leave it out; PostgreSQL knows it".to_owned()));
        }
    }

    fn postgres(&mut self, name: &str, table: &Table, urls: &[(SecretUrl, Place)], retention: &Table) {
        for (url, place) in urls {
            if !cfg!(feature = "postgres") {
                let absent = absent(&format!("store for `{}://`", url.scheme()), "postgres");
                self.problems.at(place, absent.message, absent.hint);
            } else if !matches!(url.scheme(), "postgres" | "postgresql") {
                let message = format!("the urls of store `{name}` are not all of PostgreSQL");
                let hint = "several urls are several servers of one cluster".to_owned();
                self.problems.at(place, message, Some(hint));
            } else if let Some(sign) = unescaped(url.expose()) {
                let message = format!(
                    "user or password in the url of store `{name}` contain `{sign}`, which ends the host's part"
                );
                let hint = "percent-encode them: `@` is %40, `#` is %23, `/` is %2F, `?` is %3F".to_owned();
                self.problems.at(place, message, Some(hint));
            }
        }
        if let Some(node) = table.get("schema").filter(|n| n.text().is_some_and(|s| !s.is_empty() && !fits_schema(s))) {
            let message = format!("{:?} cannot be the schema of store `{name}`", node.text().unwrap_or_default());
            let hint = "use letters, digits and `_`, at most 55, not beginning with a digit".to_owned();
            self.problems.at(&node.place, message, Some(hint));
        }
        let Some(segment) = table.get("segment") else { return };
        let length = table.duration("segment");
        if length.subsec_nanos() != 0 || length > SEGMENT_MAX {
            let message = format!("`segment` of store `{name}` is {}", format_duration(length));
            let hint = format!("use whole seconds, at most {}", format_duration(SEGMENT_MAX));
            return self.problems.at(&segment.place, message, Some(hint));
        }
        self.ring_holds_retention(name, table, segment, retention);
    }

    /// A partition's turn must come again only after what it keeps has gone: two partitions are being written or emptied.
    fn ring_holds_retention(&mut self, name: &str, table: &Table, segment: &Node, retention: &Table) {
        let Some(partitions) = table.get("partitions").and_then(Node::count) else { return };
        let room = table.duration("segment").saturating_mul(partitions.saturating_sub(2));
        // Receipts are partitioned alike and are kept as long as attempts.
        for key in ["delivered", "attempts"] {
            let Some(kept) = retention.duration_or_never(key).filter(|kept| *kept >= room) else { continue };
            let set = retention.get(key).filter(|n| !n.is_default());
            let message = format!(
                "`retention.{key}` = {} is too long for store `{name}`: it has room for less than (partitions - 2) × segment = {}",
                format_duration(kept),
                format_duration(room)
            );
            let hint = "shorten it, or make the tables with more partitions or longer segments".to_owned();
            self.problems.at(&set.unwrap_or(segment).place, message, Some(hint));
        }
    }

    /// The URLs of a store, from `url` or from the file that `url_file` names; none when they cannot be read.
    fn urls(&mut self, name: &str, table: &Table, place: &Place) -> Vec<(SecretUrl, Place)> {
        match (table.get("url"), table.get("url_file")) {
            (Some(_), Some(file)) => {
                let message = format!("store `{name}` has both `url` and `url_file`");
                self.problems.at(&file.place, message, Some("leave one of them out".to_owned()));
                Vec::new()
            }
            (Some(url), None) => {
                let of = |node: &Node| Some((SecretUrl::new(node.text()?), node.place.clone()));
                url.list().map_or_else(|| of(url).into_iter().collect(), |list| list.iter().filter_map(of).collect())
            }
            (None, Some(file)) => {
                let url = self.text_of_file(file, "a URL");
                url.map(|url| (SecretUrl::new(url), file.place.clone())).into_iter().collect()
            }
            (None, None) => {
                let hint =
                    "add url = \"sqlite://postroom.db\"; DATABASE_URL is the default for store `main`".to_owned();
                self.problems.at(place, format!("store `{name}` has no `url`"), Some(hint));
                Vec::new()
            }
        }
    }
}

fn postgres(table: &Table) -> PostgresConfig {
    let small = |key| table.get(key).and_then(Node::count).and_then(|n| u16::try_from(n).ok());
    PostgresConfig {
        schema: table.text("schema").unwrap_or_default().to_owned(),
        pooler: match table.text("pooler") {
            Some("none") => PoolerConfig::None,
            Some("transaction") => PoolerConfig::Transaction,
            _ => PoolerConfig::Auto,
        },
        lanes: small("lanes"),
        partitions: small("partitions"),
        segment: table.get("segment").map(|_| table.duration("segment")),
    }
}

/// Returns the sign in user or password that ends them too early, where one must have been meant as a part of them: what
/// follows still has the `@` that stands before a host.
fn unescaped(url: &str) -> Option<char> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#'])?;
    let (address, more) = rest.split_at(end);
    let port = address.rsplit_once('@').map_or(address, |(_, host)| host).rsplit_once(':').map(|(_, port)| port);
    let is_port = port.is_none_or(|port| port.ends_with(']') || port.bytes().all(|digit| digit.is_ascii_digit()));
    // A parameter may have an `@`.
    let place = if is_port { more.split('?').next().unwrap_or_default() } else { more };
    if place.contains('@') { more.chars().next() } else { None }
}

/// Whether the store would take it.
fn fits_schema(name: &str) -> bool {
    name.len() <= 55
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn a_sign_that_cuts_a_password_is_found_and_a_good_url_has_none() {
        for (url, sign) in [
            ("postgres://me:p@ss#w/rd@db/shop", '#'),
            ("postgres://me:pa/ss@db:5432/shop", '/'),
            ("postgres://me:12/ss@db/shop", '/'),
            ("postgres://me:pa?ss@db/shop", '?'),
            ("postgres://me:pa#ss@db/shop", '#'),
        ] {
            assert_eq!(unescaped(url), Some(sign), "{url}");
        }
        for url in [
            "postgres://me:p%40ss@db/shop",
            "postgres://me:p@ss@db/shop",
            "postgres://db",
            "postgres://db:5432/shop?options=a@b",
            "postgres://me@db:5432/shop?sslrootcert=/etc/a@b",
            "postgres://me:pw@[::1]/shop?options=a@b",
            "postgres://me:pw@[::1]:5432/shop",
            "postgres:///shop?host=/run/postgresql&user=a@b",
        ] {
            assert_eq!(unescaped(url), None, "{url}");
        }
    }
}
