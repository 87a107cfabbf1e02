//! Files of kbc's source: the checkout that holds them, from any working folder. The binary holds
//! the library of algorithms; programs, machines and figures of `specs` are in the source only.

use std::path::{Path, PathBuf};

/// Folders of the source that commands in the documentation name.
const FOLDERS: [&str; 3] = ["specs", "docs", "tests"];

/// The variable that names the checkout.
const VARIABLE: &str = "KBC_SOURCE";

/// Folders that may be inside a checkout: the one that `KBC_SOURCE` names, or else the working
/// folder, that of the binary, and the one in which the binary was built.
fn starts() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        return vec![named.into()];
    }
    let exe = std::env::current_exe().and_then(|p| p.canonicalize());
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    [std::env::current_dir().ok(), exe.ok(), Some(built)].into_iter().flatten().collect()
}

/// Returns a file or folder of the checkout. If there is no checkout, returns the name unchanged,
/// so that the message about the missing file has it.
pub fn find(name: &str) -> String {
    if Path::new(name).exists() {
        return name.to_owned();
    }
    let above = |from: PathBuf| from.ancestors().map(|d| d.join(name)).find(|p| p.exists());
    starts().into_iter().find_map(above).map_or_else(|| name.to_owned(), |p| p.to_string_lossy().into_owned())
}

/// Says where a file that does not exist is, or how to get it, if it is one of kbc's source: a path
/// such as `specs/ffn_tp.kb`, or the name of a file in `specs`.
pub fn remedy(path: &Path) -> Option<String> {
    let of_source = FOLDERS.iter().any(|f| path.starts_with(f));
    let above = |from: PathBuf| from.ancestors().find(|d| is_checkout(d)).map(Path::to_path_buf);
    match starts().into_iter().find_map(above) {
        Some(root) => {
            let there = Some(root.join(path)).filter(|p| of_source && p.exists());
            let found = there.or_else(|| named(&root.join("specs"), path.file_name()?))?;
            Some(format!("kbc's source has this file: {}", found.display()))
        }
        None if of_source => Some(
            "this file comes with kbc's source and not with the binary: get the source, and run kbc in its folder \
             or name that in KBC_SOURCE; `kbc new my_ring` writes programs to start with"
                .to_owned(),
        ),
        None => None,
    }
}

/// Whether a folder is a checkout of kbc's source.
fn is_checkout(folder: &Path) -> bool {
    ["Cargo.toml", "specs/lib", "tests/ascend/standin"].iter().all(|name| folder.join(name).exists())
}

/// Returns the file of this name in a folder or the folders in it; the first one in their order.
fn named(folder: &Path, name: &std::ffi::OsStr) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort_by_key(|p| (p.is_dir(), p.clone()));
    entries.into_iter().find_map(|p| match p.is_dir() {
        true => named(&p, name),
        false => (p.file_name() == Some(name)).then_some(p),
    })
}
