//! Uses of algorithms in programs: options among their arguments, which is an old form.
//!
//! The check needs no types, so it covers programs that nothing compiles. [`super::collective`]
//! checks the names and values of the uses of a program that is lowered.

use super::instance::each_call_of;
use crate::ast::{Call, Item, OptionValue};
use crate::loaded::{Loaded, LoadedFile};
use kbc_diag::Diagnostics;
use kbc_rounds::options::among_arguments;

/// Reports options among the arguments of algorithms.
pub(super) fn check(loaded: &Loaded, file: &LoadedFile, found: &mut Diagnostics) {
    let library = &loaded.library;
    let mut see = |call: &Call| {
        for named in &call.named {
            let OptionValue::Use(u) = &named.value else { continue };
            // Which collective a call stands for may depend on placements, so an algorithm of any
            // collective may have the parameter.
            let own = |name: &str| {
                let named = library.algorithms_named(u.alg.span.file, &u.alg.node);
                named.into_iter().any(|id| library.algorithm(id).params.iter().any(|p| p.0.node == name))
            };
            found.list.extend(among_arguments(&u.alg, (&u.args, &u.options), u.span, own));
        }
    };
    for item in &file.tree().items {
        match item {
            Item::Program(p) => each_call_of(&p.body, &mut see),
            Item::Local(l) => l.parts.iter().for_each(|p| each_call_of(&p.body, &mut see)),
            _ => {}
        }
    }
}
