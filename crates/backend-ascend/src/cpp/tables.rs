//! Content of the tensor argument `tables`.

use super::errors::refuse;
use kbc_diag::Diagnostic;
use kbc_tiles::tile::Kernel;

/// Returns the content of the argument `tables` for a number of ranks: first the start index of
/// each table, then the tables one after another. It is empty if the kernel has no tables.
///
/// # Errors
/// Returns E449 if a table has no entries for that number of ranks, or if a start index or an entry
/// does not fit in 32 bits.
pub fn tables_tensor(k: &Kernel, nranks: u64) -> Result<Vec<i32>, Diagnostic> {
    let mut starts = vec![];
    let mut entries: Vec<i32> = vec![];
    for t in &k.tables {
        let at = k.tables.len() + entries.len();
        starts
            .push(i32::try_from(at).map_err(|_| refuse(format!("table @{} begins beyond 32 bits", t.name)))?);
        let values = t.values.get(&nranks).ok_or_else(|| {
            let known: Vec<String> = t.values.keys().map(u64::to_string).collect();
            refuse(format!(
                "table @{} has no entries for {nranks} ranks, it has them for {}",
                t.name,
                known.join(", ")
            ))
        })?;
        for v in values {
            let entry = i32::try_from(*v);
            entries.push(
                entry.map_err(|_| {
                    refuse(format!("table @{} has {v}, which does not fit in 32 bits", t.name))
                })?,
            );
        }
    }
    starts.extend(entries);
    Ok(starts)
}
