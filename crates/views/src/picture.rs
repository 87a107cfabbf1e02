//! Pictures: the form that a file's name asks for, and the bytes of a figure in that form.

use kbc_diag::Diagnostic;
use kbc_figures::{Fault, Figure};
use std::path::Path;

/// Width of a PNG in pixels, unless the caller asks for another: twice the width of the SVG.
pub const WIDTH: u32 = 1600;

/// Format of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Scalable.
    Svg,
    /// Pixels.
    Png,
}

/// Extensions of file names, with their formats.
const FORMS: [(&str, Form); 2] = [("svg", Form::Svg), ("png", Form::Png)];

impl Form {
    /// Returns the form of a file by its name.
    ///
    /// # Errors
    /// Returns E591 for a name whose ending is no form of a picture.
    pub fn of(out: &str) -> Result<Form, Diagnostic> {
        let ending = Path::new(out).extension().map(|e| e.to_string_lossy().to_lowercase());
        let found = ending.as_ref().and_then(|e| FORMS.iter().find(|f| f.0 == *e));
        found.map(|f| f.1).ok_or_else(|| {
            let known: Vec<String> = FORMS.iter().map(|f| format!(".{}", f.0)).collect();
            let what = ending.map_or_else(|| "no extension".to_owned(), |e| format!("the extension .{e}"));
            Diagnostic::error("E591", format!("{out} has {what}, which is not a picture format"))
                .help(format!("the formats are {}", known.join(" and ")))
        })
    }
}

/// Returns the message for a figure that is not drawn (E590), by the name of its file.
pub fn fault(name: &str, why: &Fault) -> Diagnostic {
    Diagnostic::error("E590", format!("{name} cannot be drawn: {}", why.reason))
}

/// Returns the bytes of a figure for the file `out`. `width` is the width of a PNG in pixels.
///
/// # Errors
/// Returns E591 for a name without a form, and E590 for a figure that cannot be drawn as pixels.
pub fn encode(out: &str, figure: &Figure, width: Option<u32>) -> Result<Vec<u8>, Diagnostic> {
    match Form::of(out)? {
        Form::Svg => Ok(figure.svg().as_bytes().to_vec()),
        Form::Png => figure.png(width.unwrap_or(WIDTH)).map_err(|f| fault(out, &f)),
    }
}
