//! Sample charts for all tests. Those of all-reduces show figures of `kbc run .. --format json
//! --no-data`.

#![allow(dead_code, reason = "no test uses all of them")]

use kbc_figures::algorithms::{Algorithms, Baseline};
use kbc_figures::latency::Latency;
use kbc_figures::matrix::{Matrix, MatrixCell};
use kbc_figures::memory::Memory;
use kbc_figures::published::{self, Published};
use kbc_figures::reference::{self, Reference};
use kbc_figures::roofline::{Roof, Roofline, RooflinePoint};
use kbc_figures::scaling::{Measure, Scaling};
use kbc_figures::topology::{AxisDirection, AxisLayout, Form, Link, Node, Topology};
use kbc_figures::units::Quantity;
use kbc_figures::{Fault, Figure, Heading, Series, Theme};

/// Bytes per rank of the all-reduces below.
const SIZES: [f64; 10] =
    [64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];

fn over_sizes(name: &str, ys: [f64; 10]) -> Series {
    Series::new(name, SIZES.into_iter().zip(ys).collect())
}

/// Returns the times in ns of all-reduce algorithms (one_phase, ring and others) on a ring of 8 at
/// 50 GB/s and 500 ns.
pub fn on_a_ring() -> Vec<Series> {
    vec![
        over_sizes(
            "ring",
            [7002.2, 7009.0, 7035.8, 7143.4, 7573.4, 9293.8, 16175.0, 43700.2, 153800.6, 594202.6],
        ),
        over_sizes(
            "bidirectional_ring",
            [7001.1, 7004.5, 7017.9, 7071.7, 7286.7, 8146.9, 11587.5, 25350.1, 80400.3, 300601.3],
        ),
        over_sizes(
            "recursive_doubling",
            [3503.8, 3515.4, 3561.4, 3745.8, 4483.0, 10675.0, 38200.2, 148300.6, 588702.6, 2350310.2],
        ),
        over_sizes(
            "one_phase",
            [2005.1, 2020.5, 2081.9, 2327.7, 3949.1, 13607.2, 52928.8, 210215.2, 839360.8, 3355943.2],
        ),
        over_sizes(
            "swing",
            [5002.2, 5009.0, 5035.8, 5143.4, 5573.4, 7293.8, 14175.0, 44943.0, 170772.2, 674088.6],
        ),
        over_sizes(
            "halving_doubling",
            [7002.2, 7009.0, 7035.8, 7143.4, 7573.4, 10225.9, 31525.1, 114100.5, 444401.9, 1765607.7],
        ),
        over_sizes(
            "nhr",
            [7002.2, 7009.0, 7035.8, 7143.4, 7573.4, 9293.8, 18728.6, 65914.6, 254658.2, 1009633.0],
        ),
        over_sizes(
            "double_tree",
            [7003.8, 7015.4, 7061.4, 7245.8, 7983.0, 11398.2, 30593.0, 101371.8, 384487.4, 1516949.4],
        ),
        over_sizes(
            "rotate",
            [3509.0, 3535.8, 3643.4, 4073.4, 5793.8, 12675.0, 40200.2, 150300.6, 590702.6, 2352310.2],
        ),
    ]
}

/// Returns the bound of these, in ns.
pub fn ring_bound() -> Series {
    over_sizes("bound", [2000.0, 2000.0, 2000.0, 2000.0, 2000.0, 2000.0, 4587.5, 18350.1, 73400.3, 293601.3])
        .with_bottleneck(["latency"; 6].into_iter().chain(["links"; 4]))
}

/// Draws four of them.
pub fn latency(theme: Theme) -> Result<Figure, Fault> {
    let mut series = on_a_ring();
    series.truncate(4);
    Latency {
        heading: Heading::new(
            "All-reduce on a ring of 8: one_phase for small vectors, both directions for large ones",
            "ring(8), 50 GB/s and 500 ns a link, f32; size and algorithm varied",
        )
        .with_theme(theme),
        x_label: "bytes per rank".into(),
        series,
        bounds: vec![ring_bound()],
    }
    .draw()
}

/// Draws the times of the selected algorithms, with long bottleneck texts.
pub fn latency_long(theme: Theme) -> Result<Figure, Fault> {
    let words =
        ["latency of 4 hops from (0) to (4)"; 6].into_iter().chain(["traffic of every single rank"; 4]);
    Latency {
        heading: Heading::new(
            "All-reduce on a ring of 8",
            "ring(8), 50 GB/s and 500 ns a link, f32; size varied",
        )
        .with_theme(theme),
        x_label: "bytes per rank".into(),
        series: vec![
            over_sizes(
                "what select takes",
                [2005.1, 2020.5, 2081.9, 2327.7, 3483.0, 5310.7, 11587.5, 25350.1, 80400.3, 300601.3],
            )
            .with_bottleneck(words),
        ],
        bounds: vec![ring_bound()],
    }
    .draw()
}

/// Draws all of them relative to the fastest, with a selection that is wrong twice.
pub fn algorithms(theme: Theme) -> Result<Figure, Fault> {
    let took = ["one_phase", "one_phase", "one_phase", "one_phase", "recursive_doubling", "swing"];
    let took = took.into_iter().chain(["bidirectional_ring"; 4]);
    Algorithms {
        heading: Heading::new(
            "All-reduce on a ring of 8: nine algorithms",
            "ring(8), 50 GB/s and 500 ns a link, f32; size varied",
        )
        .with_theme(theme),
        x_label: "bytes per rank".into(),
        series: on_a_ring(),
        against: Baseline::Best,
        chosen: SIZES.into_iter().zip(took.map(str::to_owned)).collect(),
    }
    .draw()
}

/// Draws them relative to the bound, without a selection.
pub fn against_bound(theme: Theme) -> Result<Figure, Fault> {
    let mut series = on_a_ring();
    series.truncate(5);
    Algorithms {
        heading: Heading::new(
            "All-reduce on a ring of 8 against the bound",
            "ring(8), 50 GB/s and 500 ns a link",
        )
        .with_theme(theme),
        x_label: "bytes per rank".into(),
        series,
        against: Baseline::Bound(ring_bound().points),
        chosen: vec![],
    }
    .draw()
}

/// Draws kinds of memory. The row of tcm is published (specs/reference/kernbench.yaml), the others
/// are invented.
pub fn memory(theme: Theme) -> Result<Figure, Fault> {
    let sizes = [256.0, 2048.0, 16384.0, 65536.0];
    let kind = |name, ys: [f64; 4]| Series::new(name, sizes.into_iter().zip(ys).collect());
    Memory {
        heading: Heading::new(
            "All-reduce by kind of buffer",
            "six SIPs as torus 3 x 2, 96 cubes, hierarchical centre root",
        )
        .with_theme(theme),
        x_label: "bytes per PE".into(),
        kinds: vec![
            kind("tcm", [1678.0, 1957.0, 4225.0, 12001.0]),
            kind("sram", [1732.0, 2137.0, 5382.0, 16500.0]),
            kind("hbm", [1850.0, 2650.0, 9050.0, 30900.0]),
        ],
    }
    .draw()
}

/// Draws percentages of a bound from 0 to 100, with a cell that is missing and names of columns
/// that are wider than cells.
pub fn matrix(theme: Theme) -> Result<Figure, Fault> {
    let blocks = ["all_gather", "reduce_scatter", "broadcast", "all_reduce"];
    let columns = ["64 KiB", "1 MiB", "16 MiB", "256 MiB"];
    let mut cells = vec![];
    for i in 0..9 {
        for (b, block) in blocks.into_iter().enumerate() {
            for (c, column) in columns.into_iter().enumerate() {
                let percent = 100.0 - 12.5 * ((i + b + c) % 9) as f64;
                let row = format!("hierarchy of {i} rings");
                cells.push(MatrixCell { row, block: block.into(), column: column.into(), percent });
            }
        }
    }
    cells.remove(40);
    let heading = Heading::new("Percent of the bound", "9 machines, four collectives").with_theme(theme);
    Matrix { heading, cells }.draw()
}

/// Draws kinds of memory with times so far apart that bars would not show them.
pub fn memory_far(theme: Theme) -> Result<Figure, Fault> {
    let sizes = [256.0, 65536.0, 16777216.0];
    let kind = |name, ys: [f64; 3]| Series::new(name, sizes.into_iter().zip(ys).collect());
    Memory {
        heading: Heading::new("All-reduce by kind of buffer", "three sizes").with_theme(theme),
        x_label: "bytes per PE".into(),
        kinds: vec![kind("tcm", [1678.0, 12001.0, 2.6e6]), kind("hbm", [1994.0, 59401.0, 5.2e6])],
    }
    .draw()
}

/// Draws values that are 1 to 12,000 apart, with two breaks in the axis. Some are invented, so that
/// there are deviations.
pub fn reference(theme: Theme) -> Result<Figure, Fault> {
    let row = |name: &str, model, reference| reference::ReferenceRow { name: name.into(), model, reference };
    Reference {
        heading: Heading::new(
            "The model beside published figures",
            "a machine of packages; what is published is a model, too, not hardware",
        )
        .with_theme(theme),
        quantity: Quantity::Time,
        label: "time".into(),
        names: ["kbc".into(), "published".into()],
        rows: vec![
            row("queue, PE to PE, 128 B", 31.14, 31.14),
            row("queue, PE to PE, 384 B", 34.2, 34.14),
            row("PE DMA of 16 KB, local slice", 75.1, 77.0),
            row("PE DMA of 16 KB, the same PE of the next SIP", 421.0, 409.0),
            row("all-reduce, 256 B a PE", 1678.04, 1678.04),
            row("all-reduce, 2048 B a PE", 1957.04, 1957.04),
            row("all-reduce, 16384 B a PE", 4225.04, 4225.04),
            row("all-reduce, 65536 B a PE", 11801.0, 12001.04),
            row("all-reduce, 96 KB a PE, an external simulator", 17200.0, 366_000.0),
        ],
    }
    .draw()
}

/// Draws curves and two points of others: one among the curves, one far above; `far` multiplies the
/// last one.
pub fn published(theme: Theme, far: f64) -> Result<Figure, Fault> {
    let point = |name: &str, x, y| published::PublishedPoint { name: name.into(), x, y };
    Published {
        heading: Heading::new("The model beside another simulator", "six packages of sixteen cubes")
            .with_theme(theme),
        x_label: "bytes per PE".into(),
        series: vec![
            Series::new(
                "torus_2d",
                vec![(256.0, 1678.04), (2048.0, 1957.04), (16384.0, 4225.04), (98304.0, 17185.0)],
            ),
            Series::new(
                "ring_1d",
                vec![(256.0, 1921.0), (2048.0, 2245.0), (16384.0, 5036.0), (98304.0, 20670.0)],
            ),
        ],
        points: vec![point("published", 65536.0, 12001.04), point("another simulator", 98304.0, far)],
    }
    .draw()
}

/// Draws matmuls in three variants of staging, with invented rates.
pub fn roofline(theme: Theme) -> Result<Figure, Fault> {
    let mut points = vec![];
    for (name, intensity, rates) in [
        ("256 x 256 x 256", 85.3, [5.1e12, 6.2e12, 7.0e12]),
        ("128 x 256 x 128", 51.2, [3.9e12, 5.0e12, 6.1e12]),
        ("32 x 128 x 32", 14.2, [0.6e12, 0.9e12, 1.3e12]),
        ("32 x 3072 x 32", 16.0, [2.4e12, 3.2e12, 3.6e12]),
    ] {
        for (kind, rate) in ["both streamed", "one staged", "both staged"].into_iter().zip(rates) {
            let kind = kind.to_owned();
            points.push(RooflinePoint { name: name.into(), intensity, rate, kind });
        }
    }
    Roofline {
        heading: Heading::new(
            "Matrix products of one PE",
            "f16, tile 32 x 64 x 32, three variants of staging operands",
        )
        .with_theme(theme),
        compute: vec![Roof { name: "MAC".into(), rate: 8e12 }],
        memory: vec![Roof { name: "hbm".into(), rate: 256e9 }, Roof { name: "sram".into(), rate: 128e9 }],
        points,
    }
    .draw()
}

const RANKS: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Draws all-reduce of 1 MiB on rings of 2 to 64.
pub fn scaling(theme: Theme, measure: Measure) -> Result<Figure, Fault> {
    let of = |name: &str, ns: [f64; 6], percent: [f64; 6], busbw: [f64; 6]| {
        let ys = match measure {
            Measure::Time => ns,
            Measure::Percent => percent,
            Measure::Bandwidth => busbw,
        };
        Series::new(name, RANKS.into_iter().zip(ys).collect())
    };
    let bound = [20971.5, 15728.6, 18350.1, 19660.8, 20316.2, 20643.8];
    let bounds = match measure {
        Measure::Time => vec![Series::new("bound", RANKS.into_iter().zip(bound).collect())],
        _ => vec![],
    };
    Scaling {
        heading: Heading::new("All-reduce of 1 MiB on rings", "50 GB/s and 500 ns a link; ranks varied")
            .with_theme(theme),
        measure,
        series: vec![
            of(
                "ring",
                [21971.5, 34457.3, 43700.2, 54321.6, 71632.3, 104287.7],
                [95.4, 45.6, 42.0, 36.2, 28.4, 19.8],
                [47.7, 45.6, 42.0, 36.2, 28.4, 19.8],
            ),
            of(
                "halving_doubling",
                [21971.5, 54428.8, 114100.5, 226201.0, 442037.6, 871434.1],
                [95.4, 28.9, 16.1, 8.7, 4.6, 2.4],
                [47.7, 28.9, 16.1, 8.7, 4.6, 2.4],
            ),
            of(
                "one_phase",
                [21471.5, 63414.6, 210215.2, 755474.7, 2852626.7, 11073462.6],
                [97.7, 24.8, 8.7, 2.6, 0.7, 0.2],
                [48.8, 24.8, 8.7, 2.6, 0.7, 0.2],
            ),
        ],
        bounds,
    }
    .draw()
}

/// Returns a product of axes with the links along them. They wrap around if `wrap`; `full` connects
/// a circle completely.
pub fn product(axes: &[AxisLayout], wrap: bool, full: u32) -> (Vec<Node>, Vec<Link>) {
    let count: u32 = axes.iter().map(|a| a.size).product();
    let at = |mut i: u32| {
        let mut out = vec![0; axes.len()];
        for (place, axis) in out.iter_mut().zip(axes).rev() {
            (*place, i) = (i % axis.size, i / axis.size);
        }
        out
    };
    let name = |at: &[u32]| format!("({})", at.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    let nodes: Vec<Node> =
        (0..count).map(|i| Node { name: name(&at(i)), at: at(i), ..Node::default() }).collect();
    let mut links = vec![];
    for (from, node) in nodes.iter().enumerate() {
        for (k, axis) in axes.iter().enumerate() {
            let stride: u32 = axes[k + 1..].iter().map(|a| a.size).product();
            for c in 0..axis.size {
                let here = node.at[k];
                let next = (here + 1) % axis.size == c || (c + 1) % axis.size == here;
                let around = here.abs_diff(c) + 1 == axis.size && axis.size > 2;
                let joined = if axis.direction == AxisDirection::Circle && axis.size == full {
                    c != here
                } else {
                    next && c != here && (wrap || !around)
                };
                if joined {
                    let to = from + (c * stride) as usize - (here * stride) as usize;
                    links.push(Link {
                        from,
                        to,
                        wrap: around && axis.direction != AxisDirection::Circle,
                        ..Link::default()
                    });
                }
            }
        }
    }
    (nodes, links)
}

/// Gives every link a utilisation that depends on its position.
fn used(mut links: Vec<Link>, most: f64) -> Vec<Link> {
    for (i, l) in links.iter_mut().enumerate() {
        l.percent = Some(if i % 5 == 0 { 0.0 } else { most * ((i * 37 % 100) as f64) / 99.0 });
    }
    links
}

/// Returns an axis drawn as a row.
pub fn row(size: u32) -> AxisLayout {
    AxisLayout { size, direction: AxisDirection::Row }
}

/// Returns an axis drawn as planes.
pub fn behind(size: u32) -> AxisLayout {
    AxisLayout { size, direction: AxisDirection::Behind }
}

/// Returns an axis drawn as a circle.
pub fn round(size: u32) -> AxisLayout {
    AxisLayout { size, direction: AxisDirection::Circle }
}

/// Draws a machine by its axes.
pub fn machine(
    title: &str,
    theme: Theme,
    axes: &[AxisLayout],
    wrap: bool,
    full: u32,
    most: Option<f64>,
) -> Result<Figure, Fault> {
    let (nodes, links) = product(axes, wrap, full);
    let links = most.map_or(links.clone(), |m| used(links, m));
    let heading = Heading::new(title, "50 GB/s and 500 ns a link").with_theme(theme);
    Topology { heading, form: Form::Product(axes.to_vec()), nodes, links }.draw()
}

/// Draws a tree of switches above devices.
pub fn tree(theme: Theme, arity: u32, depth: u32) -> Result<Figure, Fault> {
    let devices = arity.pow(depth);
    let mut nodes: Vec<Node> =
        (0..devices).map(|i| Node { name: format!("({i})"), at: vec![i], ..Node::default() }).collect();
    let mut links = vec![];
    let (mut below, mut count) = (0, devices);
    for level in 1..=depth {
        let begin = nodes.len();
        for i in 0..count {
            let (down, up) = (below + i as usize, begin + (i / arity) as usize);
            links.push(Link { from: down, to: up, ..Link::default() });
            links.push(Link { from: up, to: down, ..Link::default() });
        }
        count /= arity;
        for i in 0..count {
            nodes.push(Node { name: format!("x.{level}#{i}"), switch: true, level, ..Node::default() });
        }
        below = begin;
    }
    let links = used(links, 87.0);
    let heading =
        Heading::new(format!("tree({arity}, {depth})"), "50 GB/s and 500 ns a link").with_theme(theme);
    Topology { heading, form: Form::Layers, nodes, links }.draw()
}

/// Draws a list of links: two complete groups of four, joined by two relays.
pub fn graph(theme: Theme) -> Result<Figure, Fault> {
    let mut nodes: Vec<Node> = (0..8).map(|i| Node { name: format!("({i})"), ..Node::default() }).collect();
    nodes.extend((0..2).map(|i| Node { name: format!("#{i}"), switch: true, ..Node::default() }));
    let mut links = vec![];
    let mut join = |a: usize, b: usize| {
        links.push(Link { from: a, to: b, ..Link::default() });
        links.push(Link { from: b, to: a, ..Link::default() });
    };
    for group in 0..2 {
        for a in 0..4 {
            for b in 0..a {
                join(4 * group + a, 4 * group + b);
            }
            join(4 * group + a, 8 + group);
        }
    }
    join(8, 9);
    let heading = Heading::new("graph(8, 2)", "two groups of four behind relays").with_theme(theme);
    Topology { heading, form: Form::Free, nodes, links: used(links, 40.0) }.draw()
}

/// Returns every sample with its name.
pub fn all(theme: Theme) -> Vec<(&'static str, Result<Figure, Fault>)> {
    vec![
        ("latency", latency(theme)),
        ("latency_long", latency_long(theme)),
        ("algorithms", algorithms(theme)),
        ("against_bound", against_bound(theme)),
        ("matrix", matrix(theme)),
        ("memory", memory(theme)),
        ("memory_far", memory_far(theme)),
        ("reference", reference(theme)),
        ("published", published(theme, 366_000.0)),
        ("published_near", published(theme, 30_000.0)),
        ("roofline", roofline(theme)),
        ("scaling_time", scaling(theme, Measure::Time)),
        ("scaling_percent", scaling(theme, Measure::Percent)),
        ("scaling_busbw", scaling(theme, Measure::Bandwidth)),
        ("torus", machine("torus(8, 8)", theme, &[row(8), row(8)], true, 0, Some(74.0))),
        ("torus_small", machine("torus(2, 3)", theme, &[row(2), row(3)], true, 0, None)),
        ("torus3", machine("torus(3, 3, 3)", theme, &[behind(3), row(3), row(3)], true, 0, Some(9.0))),
        ("ring", machine("ring(8)", theme, &[round(8)], true, 0, Some(100.0))),
        ("ring_large", machine("ring(64)", theme, &[round(64)], true, 0, Some(50.0))),
        ("full", machine("full(8)", theme, &[round(8)], true, 8, Some(30.0))),
        ("full_large", machine("full(64)", theme, &[round(64)], true, 64, Some(30.0))),
        ("nested", machine("hierarchy(full(4), ring(6))", theme, &[round(6), round(4)], true, 4, Some(66.0))),
        ("tree", tree(theme, 2, 3)),
        ("tree_large", tree(theme, 4, 3)),
        ("graph", graph(theme)),
        ("mesh_line", machine("mesh(40)", theme, &[row(40)], false, 0, Some(60.0))),
        (
            "hypercube",
            machine("hypercube(4)", theme, &[row(2), row(2), row(2), row(2)], false, 0, Some(60.0)),
        ),
        ("large", machine("torus(32, 32)", theme, &[row(32), row(32)], true, 0, Some(60.0))),
    ]
}
