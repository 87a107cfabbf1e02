//! `kbc compare A B`: two algorithms, machines or programs over sizes: which is faster where, the
//! crossovers, and the reasons.

use super::sweep::Rows;
use crate::cli::{Compare, Picture};
use crate::picture;
use crate::session::{Outcome, Session, write_stderr};
use kbc_compiler::load::refuse;
use kbc_evaluation::compare::{check, compare, draw, human, rows};

/// Compares and prints.
///
/// # Errors
/// Returns E588 for two items of different kinds or without a program, the errors of reading and
/// building, and E585 for rows that are wrong or rejected on both sides.
pub fn run(session: &mut Session, args: &Compare) -> Outcome {
    let sides = args.plain();
    if sides.are_rows() {
        refuse(&[("--output", args.output.is_some())], "two files of rows")?;
        let found = rows::compare(session, &sides)?;
        session.answer(&rows::human(&found), &found)?;
        return Ok(());
    }
    check(&sides)?;
    let picture =
        args.output.as_ref().map(|out| Picture { output: out.clone(), theme: args.theme, width: None });
    picture.as_ref().map_or(Ok(()), picture::check)?;
    let rows = Rows::new(session);
    let mut hear = |text: &str| write_stderr(&format!("{text}\n"));
    let found = compare(session, &sides, &rows.within(None), &mut hear)?;
    if let Some(picture) = &picture {
        picture::save(picture, draw(&found, picture.theme.into()))?;
    }
    session.answer(&human(&found), &found)?;
    Ok(())
}
