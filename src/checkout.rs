//! Files of kbc's source that a verb takes where nothing is said, from any folder.

use std::path::{Path, PathBuf};

/// A file or folder of the checkout around the working directory, or else of the one that kbc lies in or was built in; the
/// name as it is where there is none, so that the message names it.
pub fn find(name: &str) -> String {
    if Path::new(name).exists() {
        return name.to_owned();
    }
    let above = |from: PathBuf| from.ancestors().map(|d| d.join(name)).find(|p| p.exists());
    let here = std::env::current_dir().ok().and_then(above);
    let built = || std::env::current_exe().ok().and_then(|p| p.canonicalize().ok()).and_then(above);
    let source = || Some(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).filter(|p| p.exists());
    here.or_else(built).or_else(source).map_or_else(|| name.to_owned(), |p| p.to_string_lossy().into_owned())
}
