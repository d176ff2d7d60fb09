//! The script that makes one role per task.

use crate::store::Inner;

/// The script as it reads in this store; its roles begin with the schema's name.
pub(super) fn script(inner: &Inner) -> String {
    let mut text = include_str!("../sql/maintenance/roles.sql").to_owned();
    for task in ["append", "relay", "inbox", "viewer", "migrate"] {
        text = text.replace(&format!("{{{task}}}"), &format!("{}_{task}", inner.schema));
    }
    inner.db.sql.made(&text.replace("{schema}", &inner.schema))
}
