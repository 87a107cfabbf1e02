//! Checkout: default files of subcommands in the source tree of kbc, found from any working
//! directory.

use std::path::{Path, PathBuf};

/// Returns a file or folder of the checkout around the working directory, or else of the one in
/// which kbc is installed or was built. If there is none, returns the name itself, so that the
/// message contains it.
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
