//! What a program says of its settings: the keys, and the words around them.

use std::collections::BTreeMap;

use crate::keys::{Custom, Key, Kind, here};
use crate::problem::{Problem, Problems};
use crate::show::Setting;
use crate::tree::Table;
use crate::{check, init, layer, merge, parse, reference, schema, show};

/// Definition of a program's settings.
#[derive(Debug)]
pub struct Definition {
    /// Name of the program.
    pub program: &'static str,
    /// Keys of the settings.
    pub root: &'static [Key],
    /// Kinds of text that only it knows.
    pub customs: &'static [&'static Custom],
    /// Prefix of environment variables.
    pub prefix: &'static str,
    /// Variables that begin like that and are no keys.
    pub other_variables: &'static [&'static str],
    /// Old and new names of keys. A rename holds in the section that has the new name.
    pub renamed: &'static [(&'static str, &'static str)],
    /// Command that lists the keys.
    pub list_command: &'static str,
    /// Title of its JSON Schema.
    pub schema_title: &'static str,
    /// Description of its JSON Schema.
    pub schema_about: &'static str,
    /// What the commented file shows beside the keys.
    pub init: Init,
}

/// What a commented file shows beside the keys.
#[derive(Debug)]
pub struct Init {
    /// Its first lines.
    pub head: &'static str,
    /// The example of a [`Kind::Choice`].
    pub choice: &'static str,
    /// Lists of keys that stand instead of others, or only beside some: shown within the comment, so that they are not uncommented
    /// with the rest.
    pub alternatives: &'static [&'static [&'static str]],
}

impl Init {
    pub(crate) fn is_alternative(&self, name: &str) -> bool {
        self.alternatives.iter().any(|list| list.contains(&name))
    }
}

impl Definition {
    /// Lays one tree over another, key by key.
    pub fn merge(&self, lower: &mut Table, upper: Table) {
        merge::over(self.root, lower, upper);
    }

    /// Lays `PREFIX_SECTION__KEY` variables over a tree.
    pub fn environment(&self, tree: &mut Table, env: &BTreeMap<String, String>, problems: &mut Problems) {
        layer::environment(self, tree, env, problems);
    }

    /// Lays dotted keys of the command line over a tree.
    pub fn flags(&self, tree: &mut Table, flags: &[(String, String)], problems: &mut Problems) {
        layer::flags(self, tree, flags, problems);
    }

    /// Gives the entries of lists what they leave out and a [`Kind::Shared`] has.
    pub fn shared(&self, tree: &mut Table) {
        for key in self.root {
            if let Kind::Shared { list, choice, .. } = key.kind {
                layer::shared(tree, key.name, list, choice);
            }
        }
    }

    /// Puts the default of every key that nobody set under a tree.
    pub fn defaults(&self, tree: &mut Table) {
        layer::fill(self.root, tree);
    }

    /// Says everything in a complete tree that the keys do not allow.
    pub fn check(&self, tree: &Table, problems: &mut Problems) {
        check::check(self, tree, problems);
    }

    /// Returns the values in force, in the order of the keys, without passwords.
    pub fn settings(&self, tree: &Table) -> Vec<Setting> {
        show::settings(self.root, tree)
    }

    /// Returns the JSON Schema, draft 2020-12.
    pub fn schema(&self) -> serde_json::Value {
        schema::schema(self)
    }

    /// Renders every key, section by section, as Markdown.
    pub fn reference(&self) -> String {
        reference::reference(self.root)
    }

    /// A commented file that documents every key and changes nothing.
    pub fn init(&self) -> String {
        init::init(self)
    }

    /// Builds the problem of a key that needs a feature which this build lacks.
    pub fn absent(&self, what: &str, feature: &str) -> Problem {
        let hint = format!("build with the feature `{feature}`, which the program `{}` has by default", self.program);
        Problem::new(format!("this build has no {what}")).hint(hint)
    }

    /// Says what is wrong with the list of keys itself, for a test: texts that are no lines, defaults and examples that do not read.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        walk(self.root, &mut |key| {
            let Key { name, kind, default, doc, example } = key;
            if !doc.ends_with('.') || doc.contains('\n') || doc.len() >= 120 {
                faults.push(format!("{name} does not say what it does in one line: {doc}"));
            }
            if kind.is_structure() {
                return;
            }
            for text in [default, example].into_iter().filter(|text| !text.is_empty()) {
                if parse::default_value(text).is_none() {
                    faults.push(format!("{name} = {text} does not read"));
                }
            }
            if default.is_empty() && example.is_empty() {
                faults.push(format!("{name} shows nothing"));
            }
        });
        faults
    }
}

fn walk(keys: &'static [Key], visit: &mut dyn FnMut(&'static Key)) {
    for key in here(keys) {
        visit(key);
        match key.kind {
            Kind::Table(keys)
            | Kind::Section(keys)
            | Kind::Shared { keys, .. }
            | Kind::Choice(keys)
            | Kind::Named(keys)
            | Kind::Listed(keys)
            | Kind::Either(_, &Kind::Table(keys)) => walk(keys, visit),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{absent, optional, table};

    static PROGRAM: Definition = Definition {
        program: "shop",
        root: &[
            table("log", &[optional("level", Kind::Text, "\"info\"", "How much is said.")], "Lines."),
            absent("trace", "section `trace`", "traces"),
        ],
        customs: &[],
        prefix: "SHOP_",
        other_variables: &["SHOP_CONFIG"],
        renamed: &[],
        list_command: "shop keys",
        schema_title: "",
        schema_about: "",
        init: Init { head: "", choice: "", alternatives: &[] },
    };

    fn said(env: &[(&str, &str)], flags: &[(&str, &str)], text: &str) -> String {
        let (mut problems, owned) = (Problems::default(), |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned()));
        let env = env.iter().map(owned).collect();
        let mut tree = parse::file(std::path::Path::new("f"), text, &env, &mut problems).unwrap();
        PROGRAM.environment(&mut tree, &env, &mut problems);
        PROGRAM.flags(&mut tree, &flags.iter().map(owned).collect::<Vec<_>>(), &mut problems);
        PROGRAM.check(&tree, &mut problems);
        problems.into_error().to_string()
    }

    #[test]
    fn what_another_build_has_is_named_with_the_feature_that_brings_it() {
        let absent = "this build has no section `trace`\n\
                      hint: build with the feature `traces`, which the program `shop` has by default";
        assert_eq!(said(&[("SHOP_TRACE__URL", "x")], &[], ""), format!("SHOP_TRACE__URL: {absent}"));
        assert_eq!(said(&[], &[("trace.url", "x")], ""), format!("on the command line: {absent}"));
        assert!(said(&[], &[], "[trace]").starts_with("f:1:2: this build has no section `trace`\n"));
        assert!(said(&[], &[], "[trase]").ends_with("hint: known: log"));
        assert!(!PROGRAM.reference().contains("trace") && !PROGRAM.schema().to_string().contains("trace"));
    }

    #[test]
    fn a_variable_that_sets_nothing_is_told_what_would() {
        let near = said(&[("SHOP_LOG__LEVLE", "x"), ("SHOP_CONFIG", "f")], &[], "");
        assert_eq!(near, "environment variable `SHOP_LOG__LEVLE` sets nothing\nhint: did you mean `SHOP_LOG__LEVEL`?");
        let far = said(&[("SHOP_SOMETHING", "x")], &[], "");
        assert!(far.ends_with("hint: variables are SHOP_SECTION__KEY; `shop keys` lists the keys"), "{far}");
    }
}
