//! Pictures as files: checks of the flags, and writing.

use crate::cli::{Picture, ThemeChoice};
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_diag::Diagnostic;
use kbc_figures::{Fault, Figure, Theme};
use kbc_views::picture::{Form, encode, fault};
use std::path::Path;

/// Checks the arguments before anything is computed.
///
/// # Errors
/// Returns E591 for an unknown extension, and E416 for a width of a format without pixels.
pub fn check(picture: &Picture) -> Outcome {
    let form = Form::of(&picture.output).map_err(|d| Failure::Usage(d.into()))?;
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

/// Writes a chart to its file, and reports what it shows.
///
/// # Errors
/// Those of [`save`].
pub fn write(session: &Session, picture: &Picture, drawn: Result<Figure, Fault>) -> Outcome {
    let figure = save(picture, drawn)?;
    let text = format!("{}: {}\n", picture.output, figure.about());
    let json = serde_json::json!({
        "schema": 1, "command": "plot", "ok": true, "output": picture.output, "about": figure.about(),
    });
    Ok(session.answer(&text, &json)?)
}

/// Writes a chart to its file.
///
/// # Errors
/// Returns E590 for a chart that cannot be drawn, E410 and E591.
pub fn save(picture: &Picture, drawn: Result<Figure, Fault>) -> Outcome<Figure> {
    let figure = drawn.map_err(|f| fault(&picture.output, &f))?;
    outdir::write_file(Path::new(&picture.output), &encode(&picture.output, &figure, picture.width)?)?;
    Ok(figure)
}
