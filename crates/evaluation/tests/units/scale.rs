//! The cost of kbc by size: cases, their inputs, slopes and summaries.

use kbc_evaluation::scale::cases::{all, chosen};
use kbc_evaluation::scale::inputs::{inputs, mesh_links, orders, ring_links};
use kbc_evaluation::scale::report::{ProcessCost, ScaleCaseReport, ScaleFigures, ScaleRow, ScaleSide};
use kbc_evaluation::scale::slope::{last_slope, slope};
use std::collections::BTreeSet;

#[test]
fn every_case_has_inputs_at_every_size() {
    let all = all().unwrap();
    let names: BTreeSet<&str> = all.iter().map(|c| c.name.as_str()).collect();
    assert_eq!((names.len(), chosen(&[], &[]).unwrap()), (all.len(), all.clone()));
    for case in &all {
        assert_eq!(case.unit.is_some(), !case.sizes.is_empty(), "{}", case.name);
        let found = chosen(std::slice::from_ref(&case.name), &case.sizes).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [case]);
        for size in [16, 64] {
            let made = inputs(case, case.unit.as_ref().map(|_| size));
            assert_eq!(made, inputs(case, case.unit.as_ref().map(|_| size)), "{}", case.name);
            let file = |word: &String| made.files.iter().any(|(name, _)| name == word);
            assert_eq!(made.words.iter().any(file), !made.files.is_empty(), "{}", case.name);
            let texts = made.words.iter().chain(made.files.iter().map(|(_, text)| text));
            let places = ["{N}", "links}", "{orders}"];
            assert!(!places.iter().any(|p| texts.clone().any(|t| t.contains(p))), "{made:?}");
        }
    }
}

#[test]
fn wrong_names_and_sizes_are_errors() {
    let code = |names: &[&str], sizes: &[u64]| {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        chosen(&names, sizes).map_err(|d| (d.code, d.help.clone().unwrap_or_default()))
    };
    let (wrong, near) = code(&["check-rnig"], &[]).unwrap_err();
    assert!(wrong == "E416" && near.contains("check-ring"), "{near}");
    for sizes in [&[0][..], &[8, 4], &[8, 8], &[0, 1]] {
        assert_eq!(code(&["check-ring"], sizes).unwrap_err().0, "E413", "{sizes:?}");
    }
    assert_eq!(code(&["graph-mesh"], &[15]).unwrap_err().0, "E413");
    assert_eq!(code(&["graph-mesh", "start"], &[9, 16]).unwrap()[0].sizes, [9, 16]);
    assert!(code(&["start"], &[9, 16]).unwrap()[0].sizes.is_empty());
}

#[test]
fn machines_have_the_links_of_their_shape() {
    let links = |text: String| -> Vec<(u64, u64)> {
        let number = |s: &str| s.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        text.lines()
            .map(|l| l.split_once(':').unwrap().0.split_once("<->").unwrap())
            .map(|(a, b)| (number(a), number(b)))
            .collect()
    };
    assert_eq!(links(ring_links(4)), [(0, 1), (1, 2), (2, 3), (3, 0)]);
    assert_eq!((links(ring_links(2)), links(ring_links(1))), (vec![(0, 1)], vec![]));
    assert_eq!(links(mesh_links(4)), [(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert_eq!(links(mesh_links(256)).len(), 2 * 16 * 15);
}

#[test]
fn orders_are_those_of_all_others_and_differ() {
    let text = orders(16);
    assert_eq!(text, orders(16));
    let rows: Vec<Vec<u64>> =
        text.lines().map(|l| l.split(',').map(|n| n.parse().unwrap()).collect()).collect();
    assert_eq!(rows.len(), 16);
    for (r, row) in rows.iter().enumerate() {
        let mut sorted = row.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..16).filter(|n| *n != r as u64).collect::<Vec<_>>());
    }
    // Neither the same ranks nor the same distances, so that no shift maps a row to another.
    let distances =
        |(r, row): (usize, &Vec<u64>)| -> Vec<u64> { row.iter().map(|n| (n + 16 - r as u64) % 16).collect() };
    assert_eq!(rows.iter().enumerate().map(distances).collect::<BTreeSet<_>>().len(), 16);
}

#[test]
fn slopes_are_powers_of_the_size() {
    let square = [(2.0, 12.0), (4.0, 48.0), (16.0, 768.0)];
    assert!((slope(&square).unwrap() - 2.0).abs() < 1e-9);
    let bent = [(1.0, 1.0), (2.0, 2.0), (4.0, 16.0)];
    assert!((last_slope(&bent).unwrap() - 3.0).abs() < 1e-9);
    assert!((slope(&bent).unwrap() - 2.0).abs() < 1e-9);
    assert_eq!((slope(&[]), slope(&square[..1]), last_slope(&square[..1])), (None, None, None));
    assert_eq!(slope(&[(1.0, 0.0), (2.0, 1.0)]), None, "a cost of 0 has no logarithm");
}

#[test]
fn processes_are_summarised() {
    let cost = |cpu_seconds: f64, messages| ProcessCost {
        cpu_seconds,
        wall_seconds: 2.0 * cpu_seconds,
        peak_bytes: (cpu_seconds * 1e6) as u64,
        messages,
    };
    assert_eq!(ScaleFigures::of(&[]), None);
    let side =
        |costs: &[ProcessCost]| ScaleSide { figures: ScaleFigures::of(costs), why: None, failure: None };
    let three = side(&[cost(3.0, Some(10)), cost(1.0, Some(10)), cost(2.0, Some(10))]);
    let f = three.figures.clone().unwrap();
    assert_eq!((f.runs, f.cpu_seconds, f.smallest_cpu_seconds, f.largest_cpu_seconds), (3, 2.0, 1.0, 3.0));
    assert_eq!((f.wall_seconds, f.peak_bytes, f.messages_per_cpu_second), (4.0, 3_000_000, Some(5.0)));
    let two = side(&[cost(8.0, None), cost(4.0, None)]);
    let row =
        |n, own: &ScaleSide, other: &ScaleSide| ScaleRow::new(Some(n), own.clone(), Some(other.clone()));
    let rows = vec![row(1, &three, &two), row(3, &two, &two)];
    assert_eq!(rows[0].ratio.as_ref().map(|r| (r.cpu_seconds, r.peak_bytes)), Some((2.0 / 6.0, 3.0 / 8.0)));
    let case = &all().unwrap()[0];
    let report = ScaleCaseReport::new(case, rows);
    assert!((report.own.slope.unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(report.against.unwrap().slope_of_last_two, Some(0.0));
}
