//! Picture files: the format that a file name asks for, and writing the file.

use crate::cli::{Picture, ThemeChoice};
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_diag::Diagnostic;
use kbc_figures::{Fault, Figure, Theme};
use std::path::Path;

/// Default width of a PNG in pixels: twice the width of the SVG.
pub const WIDTH: u32 = 1600;

/// Format of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Svg,
    Png,
}

/// Extensions of file names, with their formats.
const FORMS: [(&str, Form); 2] = [("svg", Form::Svg), ("png", Form::Png)];

/// Returns the format of a file by its name.
///
/// # Errors
/// Returns E591.
fn form(out: &str) -> Result<Form, Diagnostic> {
    let ending = Path::new(out).extension().map(|e| e.to_string_lossy().to_lowercase());
    let found = ending.as_ref().and_then(|e| FORMS.iter().find(|f| f.0 == *e));
    found.map(|f| f.1).ok_or_else(|| {
        let known: Vec<String> = FORMS.iter().map(|f| format!(".{}", f.0)).collect();
        let what = ending.map_or_else(|| "no extension".to_owned(), |e| format!("the extension .{e}"));
        Diagnostic::error("E591", format!("{out} has {what}, which is not a picture format"))
            .help(format!("the formats are {}", known.join(" and ")))
    })
}

/// Checks the arguments before anything is computed.
///
/// # Errors
/// Returns E591 for an unknown extension, and E416 for a width of a format without pixels.
pub fn check(picture: &Picture) -> Outcome {
    let form = form(&picture.out).map_err(|d| Failure::Usage(d.into()))?;
    if form == Form::Svg && picture.width.is_some() {
        let d = Diagnostic::error("E416", "--width does not apply to an .svg, which has no pixels")
            .help("write a .png");
        return Err(Failure::Usage(d.into()));
    }
    Ok(())
}

impl From<ThemeChoice> for Theme {
    fn from(t: ThemeChoice) -> Theme {
        match t {
            ThemeChoice::Light => Theme::Light,
            ThemeChoice::Dark => Theme::Dark,
        }
    }
}

/// Returns E590: why a figure cannot be drawn, with the name of its file.
pub fn fault(name: &str, why: &Fault) -> Diagnostic {
    Diagnostic::error("E590", format!("{name} cannot be drawn: {}", why.reason))
}

/// Writes a chart to its file, and reports what it shows.
///
/// # Errors
/// Those of [`save`].
pub fn write(session: &Session, picture: &Picture, drawn: Result<Figure, Fault>) -> Outcome {
    let figure = save(picture, drawn)?;
    session.result(&format!("{}: {}\n", picture.out, figure.about()));
    Ok(())
}

/// Writes a chart to its file.
///
/// # Errors
/// Returns E590 for a chart that cannot be drawn, E410 and E591.
pub fn save(picture: &Picture, drawn: Result<Figure, Fault>) -> Outcome<Figure> {
    let figure = drawn.map_err(|f| fault(&picture.out, &f))?;
    let bytes = match form(&picture.out)? {
        Form::Svg => figure.svg().as_bytes().to_vec(),
        Form::Png => figure.png(picture.width.unwrap_or(WIDTH)).map_err(|f| fault(&picture.out, &f))?,
    };
    outdir::write_file(Path::new(&picture.out), &bytes)?;
    Ok(figure)
}
