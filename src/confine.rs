//! The folder that a replay writes to: it takes the place of every path that the replayed command names.
//!
//! A file that a crash left holds a command line, and whoever gives such a file to somebody else chooses that line. So
//! nothing it names is written where it says: [`begin`] is called before the command is, and from then on every file
//! and folder of [`crate::outdir`] goes below a folder that did not exist before.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Name of the folder; with a number behind it where one exists.
const FOLDER: &str = "kbc-replay";

/// Folders of that name that are tried.
const MOST: u32 = 10_000;

/// Where this process writes.
enum Place {
    /// Where a path says.
    Named,
    /// Below a new folder, which is made for the first file.
    Below(Option<PathBuf>),
}

static PLACE: Mutex<Place> = Mutex::new(Place::Named);

fn place<T>(f: impl FnOnce(&mut Place) -> T) -> T {
    f(&mut PLACE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// From now on everything is written below a new folder.
pub fn begin() {
    place(|p| {
        if matches!(p, Place::Named) {
            *p = Place::Below(None);
        }
    });
}

/// Whether everything is written below a new folder.
pub fn is_on() -> bool {
    place(|p| matches!(p, Place::Below(_)))
}

/// The folder, if something was written to it.
pub fn folder() -> Option<PathBuf> {
    place(|p| match p {
        Place::Named => None,
        Place::Below(folder) => folder.clone(),
    })
}

/// Where a path is written. Below the folder of a replay the folders of the path are made.
///
/// # Errors
/// Of making folders.
pub fn placed(path: &Path) -> io::Result<PathBuf> {
    let folder = place(|p| match p {
        Place::Named => Ok(None),
        Place::Below(Some(folder)) => Ok(Some(folder.clone())),
        Place::Below(none) => {
            let made = fresh()?;
            *none = Some(made.clone());
            Ok::<_, io::Error>(Some(made))
        }
    })?;
    let Some(mut out) = folder else { return Ok(path.to_owned()) };
    // What would lead out of the folder is left out.
    out.extend(path.components().filter(|c| matches!(c, Component::Normal(_))));
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(out)
}

/// Makes a folder that was not there.
fn fresh() -> io::Result<PathBuf> {
    for n in 1..=MOST {
        let name = if n == 1 { FOLDER.to_owned() } else { format!("{FOLDER}-{n}") };
        match fs::create_dir(&name) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| PathBuf::from(name)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
