//! Tests of damaged texts: the answer is a message or rounds, never a panic, and it comes in finite
//! time.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use crate::common;

use common::World;
use kbc_rounds::checks::check_file;
use kbc_rounds::library::Layer;
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{Call, Limits, Verifier};

/// SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns words, numbers and signs; comments are dropped.
fn tokens(text: &str) -> Vec<String> {
    let mut out: Vec<String> = vec![];
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut word = String::new();
        for c in line.chars().chain([' ']) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                out.push(std::mem::take(&mut word));
            }
            if !c.is_whitespace() {
                out.push(c.to_string());
            }
        }
    }
    out
}

/// Exchanges two tokens, and replaces one by another or by an unlikely number.
fn garble(tokens: &[String], seed: u64) -> String {
    let mut out = tokens.to_vec();
    let n = out.len() as u64;
    let (i, j) = ((mix(seed) % n) as usize, (mix(seed ^ 7) % n) as usize);
    match seed % 4 {
        0 => out.swap(i, j),
        1 => out[i] = out[j].clone(),
        2 => {
            out[i] = ["0", "-1", "9223372036854775807", "1000003", "p", "r"][(mix(seed ^ 9) % 6) as usize]
                .to_owned()
        }
        _ => drop(out.remove(i)),
    }
    // Joins signs of two characters again.
    let mut text = out.join(" ");
    for pair in ["- >", "< -", ". .", "< <", "> >", "= =", "! =", "< =", "> =", "& &", "| |"] {
        text = text.replace(pair, &pair.replace(' ', ""));
    }
    text
}

#[test]
fn damaged_texts_are_answered() {
    let library = World::with_library();
    let sources = &library.sources;
    let files: Vec<Vec<String>> = sources
        .files()
        .map(|(_, f)| tokens(&f.text))
        .filter(|t| t.iter().any(|w| w == "algorithm"))
        .collect();
    let limits = Limits { transfers: 2000, atoms: 512, steps: 20_000, depth: 8 };
    let (mut parsed, mut right, mut wrong) = (0, 0, 0);
    for seed in 0..2000 {
        let text = garble(&files[(seed % files.len() as u64) as usize], seed);
        let mut world = library.clone();
        let (file, found) = world.add("garbled.kb", &text, Layer::User);
        if found.has_errors() {
            continue;
        }
        parsed += 1;
        let faults = check_file(&world.lib, file);
        let mut verifier = Verifier::new(&world.lib, limits);
        for alg in world.lib.algorithms_in(file) {
            let decl = world.lib.algorithm(alg);
            let sizes: Vec<i64> = [3, 2, 2].iter().copied().cycle().take(decl.axes.len()).collect();
            let root = decl.root.as_ref().map(|_| coordinates(&sizes, 2));
            match verifier.verify(&Call { alg, sizes, root, args: vec![] }) {
                Ok(_) => right += 1,
                Err(d) => {
                    assert!(d.has_errors());
                    wrong += 1;
                }
            }
        }
        // Static errors have static codes.
        assert!(faults.list.iter().all(|d| d.code < "E100"));
    }
    assert!(parsed > 250 && right > 100 && wrong > 100, "{parsed} parsed, {right} right, {wrong} wrong");
}
