//! Unit tests of the benchmark of this computer: statistics, rows, and the times of calibration.

use kbc_diag::SourceMap;
use kbc_evaluation::calibration::{MeasuredTime, PhaseFigures, PhaseTimes};
use kbc_evaluation::host_bench::row::mark_best;
use kbc_evaluation::host_bench::{BENCH_COLLECTIVES, BenchRow, BenchStage, csv, read};
use kbc_evaluation::samples::Samples;

fn row(contestant: &str, stage: BenchStage, times: &[f64], reference: Option<&[f64]>) -> BenchRow {
    let empty = BenchRow {
        collective: "all_gather".into(),
        ranks: 2,
        bytes: 100,
        count: 25,
        element: "f32".into(),
        contestant: contestant.into(),
        transport: "memory".into(),
        stage,
        compared: Some(3),
        ..BenchRow::default()
    };
    let reference = reference.map(|r| Samples(r.to_vec()));
    empty.with(&Samples(times.to_vec()), reference.as_ref(), Some(0.5))
}

#[test]
fn samples_have_a_median_and_quartiles() {
    let five = Samples(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
    assert_eq!((five.median(), five.quantile(0.0), five.quantile(1.0)), (3.0, 1.0, 5.0));
    assert_eq!((five.quantile(0.25), five.quantile(0.75)), (2.0, 4.0));
    assert_eq!(Samples(vec![4.0, 1.0]).median(), 2.5);
    assert_eq!((Samples(vec![]).median(), Samples(vec![]).quantile(0.5)), (0.0, 0.0));
}

/// A ratio is the median of the quotients of the rounds, not the quotient of the medians.
#[test]
fn ratios_are_taken_round_by_round() {
    let r = row("a", BenchStage::Measured, &[10.0, 30.0, 40.0], Some(&[10.0, 10.0, 20.0]));
    assert_eq!((r.rounds, r.time_ns, r.min_ns, r.max_ns), (3, 30.0, 10.0, 40.0));
    assert_eq!((r.ratio, r.ratio_min, r.ratio_max), (Some(2.0), Some(1.0), Some(3.0)));
    assert_eq!((r.algbw_gbs, r.busbw_gbs), (3.333333, Some(1.666667)));
}

#[test]
fn the_fastest_measured_row_is_marked_and_rows_survive_a_file() {
    let mut rows = vec![
        row("kbc", BenchStage::Screened, &[1.0], None),
        row("kbc", BenchStage::Measured, &[9.0], Some(&[8.0])),
        row("kbc", BenchStage::Measured, &[8.0], Some(&[8.0])),
        row("other", BenchStage::Measured, &[20.0], Some(&[8.0])),
    ];
    mark_best(&mut rows);
    assert_eq!(rows.iter().map(|r| r.best).collect::<Vec<_>>(), [false, false, true, true]);
    let text = String::from_utf8(csv(&rows).expect("CSV")).expect("text");
    let mut map = SourceMap::default();
    let file = map.add("rows.csv", text.clone());
    let found = read(&text, file).expect("its own file");
    assert_eq!((&found.rows, found.others, found.swept), (&rows, 0, false));
    let wrong = text.replace(",measured,", ",guessed,");
    let found = read(&wrong, file).expect_err("an unknown stage");
    assert_eq!(found.code, "E481");
}

/// Rows of a sweep become rows of the benchmark; those that are computed, refused or wrong do not.
#[test]
fn measured_rows_of_a_sweep_are_rows() {
    let text = "row,engine,collective,status,checked,mismatches,operation,algorithm,ranks,bytes,time_ns,algbw_gbs,\
                busbw_gbs,why,transport,element,rounds,repeat,min_ns,q1_ns,q3_ns,max_ns\n\
                0,sim,a,right,8,0,all_reduce,ring,2,32,500,,,,,,,,,,,\n\
                1,host,a,right,8,0,all_reduce,ring,2,32,400,0.08,0.08,,memory,f16,3,10,390,391,410,420\n\
                2,mpi,a,wrong,8,2,all_reduce,ring,2,32,,,,E430 two,mpi,f16,3,10,390,391,410,420\n\
                3,host,a,refused,0,0,,,,,,,,E451 exp,,,,,,,,\n";
    let mut map = SourceMap::default();
    let file = map.add("rows.csv", text.to_owned());
    let found = read(text, file).expect("a file of rows");
    assert_eq!((found.rows.len(), found.others, found.swept), (1, 3, true));
    let row = &found.rows[0];
    assert_eq!((&*row.collective, row.ranks, row.bytes, row.count), ("all_reduce", 2, 32, 16));
    assert_eq!((&*row.element, &*row.transport, row.stage), ("f16", "memory", BenchStage::Measured));
    assert_eq!((row.time_ns, row.min_ns, row.max_ns, row.repeat), (400.0, 390.0, 420.0, Some(10)));
}

#[test]
fn counts_are_whole_elements_of_every_rank() {
    let any = BENCH_COLLECTIVES[0];
    assert_eq!([(2, 8), (4, 8), (3, 100), (2, 1)].map(|(p, n)| any.count(p, n)), [2, 4, 27, 2]);
}

/// The slowest rank of each block counts, and no rank may be missing.
#[test]
fn phases_are_those_of_the_slowest_rank() {
    let rank = |rank, put: [f64; 3]| {
        let other = vec![1.0; 3];
        PhaseTimes {
            rank,
            put: put.to_vec(),
            combine: other.clone(),
            copy: other.clone(),
            get: other.clone(),
            f32: other.clone(),
            f16: other.clone(),
            bf16: other.clone(),
            i32: other,
        }
    };
    let both = [rank(0, [1.0, 9.0, 3.0]), rank(1, [2.0, 4.0, 5.0])];
    let found = PhaseFigures::of(&both, 2).expect("both ranks");
    assert_eq!(found.put, MeasuredTime { ns: 5.0, min_ns: 2.0, max_ns: 9.0 });
    assert_eq!(found.put.uncertainty(), 70.0);
    assert_eq!(found.put.over(2.0).ns, 2.5);
    assert_eq!(PhaseFigures::of(&both[..1], 2), None);
    assert_eq!(PhaseFigures::of(&[rank(0, [0.0; 3])], 1), None);
}
