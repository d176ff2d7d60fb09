//! What is fetched once: the packages that tests of the packages need, in folders beside the build.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// A folder that `fetch` fills once for each text of `list`, which says what is in it.
///
/// Several test programs may start at once; one of them fetches. What was interrupted is fetched again.
pub fn cached(name: &str, list: &str, fetch: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    list.hash(&mut hasher);
    let folder = postroom_e2e::target().join("client-packages").join(format!("{name}-{:016x}", hasher.finish()));
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    let lock = File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let whole = folder.join(".whole");
    if !whole.exists() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fetch(&folder);
        fs::write(whole, "").unwrap();
    }
    folder
}
