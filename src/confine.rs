//! Confinement of a replay: all files that a replayed command writes go below one new folder.
//!
//! The file of a crash contains a command line, which its author chose. The command must therefore
//! not write to the paths that it names. [`begin`] is called before the command, and from then on
//! every file and folder of [`crate::outdir`] is written below a folder that did not exist before.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Name of the folder. A number is appended if it exists.
const FOLDER: &str = "kbc-replay";

/// Largest number of folder names that are tried.
const MAX_FOLDERS: u32 = 10_000;

/// Where this process writes.
enum WriteTarget {
    /// At the given path.
    Named,
    /// Below a new folder, which is created for the first file.
    Below(Option<PathBuf>),
}

static PLACE: Mutex<WriteTarget> = Mutex::new(WriteTarget::Named);

fn place<T>(f: impl FnOnce(&mut WriteTarget) -> T) -> T {
    f(&mut PLACE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// From now on, everything is written below a new folder.
pub fn begin() {
    place(|p| {
        if matches!(p, WriteTarget::Named) {
            *p = WriteTarget::Below(None);
        }
    });
}

/// Checks whether everything is written below a new folder.
pub fn is_on() -> bool {
    place(|p| matches!(p, WriteTarget::Below(_)))
}

/// Returns the folder, if something was written to it.
pub fn folder() -> Option<PathBuf> {
    place(|p| match p {
        WriteTarget::Named => None,
        WriteTarget::Below(folder) => folder.clone(),
    })
}

/// Returns the path to write to. In a replay, the folders of the path are created.
///
/// # Errors
/// Returns the error of creating a folder.
pub fn placed(path: &Path) -> io::Result<PathBuf> {
    let folder = place(|p| match p {
        WriteTarget::Named => Ok(None),
        WriteTarget::Below(Some(folder)) => Ok(Some(folder.clone())),
        WriteTarget::Below(none) => {
            let made = fresh()?;
            *none = Some(made.clone());
            Ok::<_, io::Error>(Some(made))
        }
    })?;
    let Some(mut out) = folder else { return Ok(path.to_owned()) };
    // Parts that would leave the folder are omitted.
    out.extend(path.components().filter(|c| matches!(c, Component::Normal(_))));
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(out)
}

/// Creates a folder that does not exist yet.
fn fresh() -> io::Result<PathBuf> {
    for n in 1..=MAX_FOLDERS {
        let name = if n == 1 { FOLDER.to_owned() } else { format!("{FOLDER}-{n}") };
        match fs::create_dir(&name) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| PathBuf::from(name)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
