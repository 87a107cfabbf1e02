//! C printer for kernels: the function that a rank runs in a call.
//!
//! The printer decides nothing. A kernel comes with offsets in the window and addresses of tiles,
//! and [`crate::orders::Orders`] says which notifies and waits have an order.

mod compute;
mod direct;
mod expr;
mod function;
mod fused;
mod lengths;
mod names;
mod printer;
mod rows;

pub use expr::{Named, print as expression};
pub use names::{ctype, literal, plain as ident};

use crate::device;
use crate::refused::ordered;
use compute::computes;
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::types::DType;
use kbc_tiles::args::incomplete as refuse;
use kbc_tiles::package::KernelText;
use kbc_tiles::tile::*;
use names::{comment, mentions};
use printer::Printer;

/// Prints a kernel as a C function, with the functions of its tables before it.
///
/// # Errors
/// Returns E449 for a kernel without offsets or addresses, E451 for an operation that has no form
/// in C, and E470 for a notify or wait that has no order.
pub fn kernel(k: &Kernel, text: &KernelText) -> Result<String, Diagnostic> {
    let name = ident(&k.name);
    let mut printer = Printer::new(k);
    // Passes may have changed what is accessed between fences.
    ordered(k, &printer.orders)?;
    printer.statements(&k.body, 1)?;
    let Printer { scope, names, out: body, chosen, .. } = &printer;
    let code = code_of(body);
    let mut out = String::new();
    let by = format!("{name}: emitted by kbc from {}.", text.source);
    comment(&mut out, &format!("{by} Do not edit: change the program and emit again."));
    text.notes.iter().for_each(|n| comment(&mut out, n));
    let halves = k.tiles.iter().any(|t| matches!(t.dtype, DType::F16 | DType::BF16));
    let header = match computes(&k.body) {
        true => "kbc_compute.h",
        false if halves => "kbc_halves.h",
        false => "kbc_host.h",
    };
    out += &format!("\n#include \"{header}\"\n\n");
    for (t, (value, ident)) in k.tables.iter().zip(&names.tables) {
        // C compilers complain about functions that nothing calls.
        if mentions(&code, value) {
            out += &table(&name, ident, t);
        }
    }
    for (i, f) in printer.functions.iter().enumerate() {
        out += &f.print(&printer.function(i));
    }
    let line = |out: &mut String, ident: &str, text: String| {
        if mentions(&code, ident) {
            *out += &format!("    {text}\n");
        }
    };
    out += &format!(
        "/* What a rank does in a call. Notifies have release order after a release fence of the schedule,\n   \
         and waits have acquire order before an acquire fence. */\n\
         static void {name}_kernel(struct kbc_rank *me, int64_t count, int64_t call, void *const *tensors) {{\n"
    );
    let of = |n: Named<'_>| scope.ident(n);
    let bound = |e: &Expr| expr::print(e, 0, &of);
    // Sizes are declared whether or not the body reads them, because offsets may.
    for (n, value) in
        [(RANK, "me->rank"), (NRANKS, "me->nranks"), (COUNT, "count"), (CALL, "call"), (CORE, "0")]
    {
        let ident = of(Named::Variable(&n.into()));
        if ident != value {
            out += &format!("    const int64_t {ident} = {value};\n");
        }
        out += &format!("    (void){ident};\n");
    }
    for (i, (t, ident)) in k.tensors.iter().zip(&names.tensors).enumerate() {
        let (ty, constant) = (ctype(t.dtype), if t.access == TensorUse::In { "const " } else { "" });
        line(&mut out, ident, format!("{constant}{ty} *const {ident} = tensors[{i}];"));
    }
    for (i, (t, ident)) in k.tensors.iter().zip(&names.reached).enumerate() {
        if t.reach == Reach::Peers {
            line(&mut out, ident, format!("const int64_t {ident} = me->inputs[{i}];"));
        }
    }
    for (ident, own) in &names.tables {
        line(
            &mut out,
            ident,
            format!("const int64_t *const {ident} = {name}_{own}({});", of(Named::Variable(&NRANKS.into()))),
        );
    }
    for (s, ident) in k.signals.iter().zip(&names.signals) {
        let at = s.at.as_ref().ok_or_else(|| refuse(format!("signals @{} have no offset", s.name)))?;
        line(&mut out, ident, format!("const int64_t {ident} = {};", bound(at)));
    }
    for (a, (ident, stride)) in k.areas.iter().zip(&names.areas) {
        let at = a.at.as_ref().ok_or_else(|| refuse(format!("area @{} has no offset", a.name)))?;
        line(&mut out, ident, format!("const int64_t {ident} = {};", bound(at)));
        line(&mut out, stride, format!("const int64_t {stride} = {};", bound(&a.stride())));
    }
    let (places, _) = device::places(&k.tiles);
    for ((t, place), (ident, pitch)) in k.tiles.iter().zip(places).zip(names.tiles.iter().zip(&names.pitches))
    {
        let at = place.ok_or_else(|| refuse(format!("tile ${} has no address", t.name)))?;
        line(&mut out, ident, printer.declared(t, [ident, pitch], at));
    }
    line(&mut out, chosen, format!("int64_t {chosen} = 0;"));
    out += "    (void)tensors;\n\n";
    out += body;
    out += "}\n";
    Ok(out)
}

/// Returns the function that yields the entries of a table for a number of ranks.
fn table(kernel: &str, ident: &str, t: &Table) -> String {
    let mut out = format!("static const int64_t *{kernel}_{ident}(int64_t nranks) {{\n");
    for (i, (ranks, values)) in t.values.iter().enumerate() {
        // C has no arrays without elements.
        let all: Vec<String> =
            values.iter().chain(values.is_empty().then_some(&0)).map(i64::to_string).collect();
        let mut lines = String::new();
        for chunk in all.chunks(16) {
            lines += &format!("        {},\n", chunk.join(", "));
        }
        out += &format!("    static const int64_t of_{i}[] = {{\n{lines}    }};\n");
        out += &format!("    if (nranks == {ranks}) return of_{i};\n");
    }
    out + "    return 0;\n}\n\n"
}

/// Returns a printed text without its comments and strings, which use no identifier.
fn code_of(text: &str) -> String {
    let plain = text.split("/*").map(|p| p.split_once("*/").map_or(p, |(_, rest)| rest));
    let mut out = String::new();
    for line in plain.collect::<String>().lines() {
        let mut quoted = false;
        let mut before = ' ';
        for c in line.chars() {
            let ends = c == '"' && before != '\\';
            if !quoted && !ends {
                out.push(c);
            }
            quoted ^= ends;
            // A backslash may itself be escaped.
            before = if c == '\\' && before == '\\' { ' ' } else { c };
        }
        out.push('\n');
    }
    out
}
