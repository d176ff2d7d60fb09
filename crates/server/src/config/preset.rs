//! The presets: configurations of systems that are taken over as they are, one TOML file each.
//!
//! A preset is read like a file and lies under it, key by key ([`postroom_settings::Definition::merge`]).

use postroom_settings::{ConfigError, Problem, nearest};

use super::Sources;

/// A system that is taken over as it is.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// The file, to be copied and changed.
    pub text: &'static str,
    /// SQL of the functions through which programs share its table, as `store migrate up` makes them; empty when it has none.
    functions: &'static str,
}

/// All of them, in the order they are listed.
pub static PRESETS: &[Preset] = &[
    Preset { name: "m4", text: include_str!("../../presets/m4.toml"), functions: "" },
    Preset { name: "corebilling", text: include_str!("../../presets/corebilling.toml"), functions: "" },
    Preset { name: "payments", text: include_str!("../../presets/payments.toml"), functions: "" },
    Preset {
        name: "eventqueue",
        text: include_str!("../../presets/eventqueue.toml"),
        functions: include_str!("../../presets/eventqueue.functions.sql"),
    },
    Preset { name: "holdco", text: include_str!("../../presets/holdco.toml"), functions: "" },
];

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The SQL that makes its tables and functions; empty when it has none.
    pub fn ddl(&self) -> String {
        let at = ["store", "main", "mapping", "create", "sql"];
        let file = self.text.parse::<toml::Table>().map(toml::Value::Table).ok();
        let sql = file.and_then(|file| at.iter().try_fold(file, |value, name| value.get(name).cloned()));
        let tables = sql.as_ref().and_then(toml::Value::as_str).unwrap_or_default();
        format!("{}\n\n{}", tables.trim(), self.functions).trim().to_owned()
    }

    /// Returns the first line of its file, which describes it.
    pub fn about(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// The preset that is asked for.
pub(super) fn chosen(sources: &Sources) -> Result<Option<&'static Preset>, ConfigError> {
    let variable = sources.env.get("POSTROOM_PRESET").filter(|name| !name.is_empty());
    let Some(name) = sources.preset.as_ref().or(variable) else { return Ok(None) };
    let known = || PRESETS.iter().map(|preset| preset.name);
    let unknown = || {
        let hint = match nearest(name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                format!("choose {}; `postroom preset ls` says what they are", known().collect::<Vec<_>>().join(", "))
            }
        };
        Problem::new(format!("there is no preset `{name}`")).hint(hint).into()
    };
    Preset::named(name).map(Some).ok_or_else(unknown)
}
