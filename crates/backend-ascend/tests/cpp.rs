//! Tests of kernels as C++: the printed text of complete kernels, and kernels that are rejected.

use crate::kernels::parse;
use crate::needs::{Need, found};
use kbc_backend_ascend::cpp::kernel;
use kbc_diag::FileId;
use kbc_tiles::args::tables_tensor;
use kbc_tiles::package::KernelText;
use kbc_tiles::tile::Kernel;

fn read(name: &str) -> Kernel {
    let path = format!("{}/tests/tile/good/{name}.tile", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("it can be read");
    parse(&text, FileId(0)).expect("it is a kernel")
}

fn text(source: &str) -> KernelText {
    KernelText { source: source.into(), notes: vec![] }
}

#[test]
fn complete_kernels() {
    for (name, source) in [
        ("onephase", "all_reduce.kb"),
        ("elementwise", "ffn.kb"),
        ("tables", "broadcast.kb"),
        ("chosen", "embedding.kb"),
    ] {
        let printed = kernel(&read(name), &text(source)).expect(name);
        insta::assert_snapshot!(name, printed);
        for (i, line) in printed.lines().enumerate() {
            assert!(line.len() <= 120, "{name}:{}: {line}", i + 1);
            assert_eq!(line.trim_end(), line, "{name}:{}", i + 1);
        }
    }
}

/// Incomplete kernels, and operations without an instruction, are rejected.
#[test]
fn refused() {
    let head = "tile 1\nkernel @k aiv\nscalar nranks\nscalar call\ntensor %x : f32[8] in 0\n\
                signals @s[1] per call 1 at 0\nwindow @w : f32[1 x 8] arena 0 at 64\n\
                tile $a : f32[8] at 0\ntile $b : f32[8] at 32\ntile $i : i32[8] at 64\ntile $h : bf16[16] at 96\n\
                tile $m : u8[32] at 128\n\nbody\n";
    for (line, why) in [
        ("fence.release", "the kernel still contains a fence of the schedule: run pass `fences"),
        ("fill $i[8] = 0.5", "0.5 is not a number of i32"),
        ("fill $h[8] = 0.5", "tiles of bf16 do not support"),
        ("add $a[8] = 1.0, $b", "`add` has the wrong operands"),
        ("convert $h = $a nearest", "differ in length"),
        ("select $a[8] = $a < $b, $a, $b mask $m", "$m is not a mask"),
        ("flag.set S -> V 8", "event 8 of S to V does not exist"),
        ("load $a[8] = %x[1][0]", "a tensor has neither slots nor peers"),
        ("tiles i, m in 8 by 0", "a loop over tiles has step 0"),
    ] {
        let k = parse(&format!("{head}  {line}\n"), FileId(0)).expect(line);
        let d = kernel(&k, &text("x.kb")).expect_err(line);
        assert_eq!(d.code, if line == "fence.release" { "E449" } else { "E451" }, "{line}");
        assert!(d.title.contains(why), "{line}: {}", d.title);
    }
    for (from, to, why) in [
        ("scalar call\n", "", "has no scalar `call`"),
        (" at 0\nwindow", "\nwindow", "signals @s has no offset"),
        (" at 64\ntile $a", "\ntile $a", "area @w has no offset"),
        ("f32[8] at 0", "f32[8]", "tile $a has no address"),
    ] {
        let k = format!("{head}  notify (0) : @s[0]\n  load $a[8] = @w[0][0]\n").replace(from, to);
        let d = kernel(&parse(&k, FileId(0)).expect(&k), &text("x.kb")).expect_err(why);
        assert!(d.title.contains(why), "{why}: {}", d.title);
    }
}

/// Numbers are printed in the element type; integers can be subtracted.
#[test]
fn numbers() {
    let head = "tile 1\nkernel @k aiv\nscalar call\ntile $a : f32[8] at 0\ntile $h : f16[16] at 32\n\
                tile $i : i32[8] at 64\ntile $b : f32[8] at 96\n\nbody\n";
    for (line, want) in [
        ("fill $a[8] = 0.1", "TEXPANDS(a, 0.1f);"),
        ("fill $a[8] = 16777217.0", "TEXPANDS(a, 16777216.0f);"),
        ("fill $a[8] = -inf", "TEXPANDS(a, -__builtin_inff());"),
        ("max $a[8] = $a, 1e-40", "TMAXS(a, a, 1e-40f);"),
        ("fill $h[16] = 0.1", "TEXPANDS(h, static_cast<half>(0.099975586f));"),
        ("fill $h[16] = 100000.0", "TEXPANDS(h, static_cast<half>(__builtin_inff()));"),
        ("fill $i[8] = -2147483648.0", "TEXPANDS(i, -2147483648);"),
        ("sub $i[8] = $i, 16777217.0", "TADDS(i, i, -16777217);"),
        ("sub $i[8] = $i, -2147483648.0", "TADDS(i, i, -2147483648);"),
        ("sub $a[8] = $a, 1.0", "TSUBS(a, a, 1.0f);"),
        ("div $b[8] = $a, 3.0", "TDIVS(b, a, 3.0f);"),
    ] {
        let k = parse(&format!("{head}  {line}\n"), FileId(0)).expect(line);
        let printed = kernel(&k, &text("x.kb")).expect(line);
        assert!(printed.contains(want), "{line}: no {want} in\n{printed}");
    }
}

/// The first entries state where each table begins.
#[test]
fn tables_as_a_tensor() {
    let k = read("tables");
    let four = tables_tensor(&k, 4).expect("entries for 4 ranks");
    assert_eq!(four, [2, 6, -1, 0, 0, 1, 1, 3, -1, -1, 2, -1, -1, -1]);
    let six = tables_tensor(&k, 6).expect("entries for 6 ranks");
    assert_eq!((six[0], six[1], six[six[1] as usize], six.len()), (2, 8, 1, 20));
    let none = tables_tensor(&k, 5).expect_err("no entries for 5 ranks");
    assert_eq!((none.code, none.title.contains("4, 6")), ("E449", true));
    assert_eq!(tables_tensor(&read("onephase"), 5), Ok(vec![]));
}

/// Names of the IR are renamed if C++ rejects them, if the text uses them itself, or if they are
/// already visible.
#[test]
fn names() {
    let k = "tile 1\nkernel @k aiv\nscalar nranks\nscalar call\ntensor %float : f32[8] in 0\ntensor %float#1 : f32[8] in 1\n\
             tensor %status : f32[8] out 0\ntile $`a b` : f32[8] at 0\n\nbody\n  let Mod = 1\n  let k = Mod + 1\n  \
             for k in k..9\n    let k = k + 1\n    load $`a b`[8] = %float#1[k]\n  for j in 0..k\n    store %status[j] = $`a b`[8]\n";
    let printed = kernel(&parse(k, FileId(0)).expect("a kernel"), &text("x.kb")).expect("C++");
    for line in [
        "const int64_t v_Mod = 1;",
        "const int64_t k = v_Mod + 1;",
        "for (int64_t k_2 = k; k_2 < 9; ++k_2) {",
        "const int64_t k_3 = k_2 + 1;",
        "Load(a_b, float_2 + k_3, 8);",
        "for (int64_t j = 0; j < k; ++j) {",
        "Store(status_ + j, a_b, 8);",
    ] {
        assert!(printed.contains(line), "no {line} in\n{printed}");
    }
}

/// Printed kernels compile as C++17 without a warning, with the stand-in headers: for the devices,
/// and for the simulator, whose headers define `__CPU_SIM`.
#[test]
fn printed_kernels_compile() {
    let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ascend/standin");
    let Some(compiler) = found(Need::Cxx) else { return };
    let folder = std::env::temp_dir().join(format!("kbc-cpp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let compiled = |name: &str, printed: &str, more: &[&str]| {
        let file = folder.join(format!("{name}.cpp"));
        std::fs::write(&file, printed).expect("a file");
        let ran = std::process::Command::new(&compiler)
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", headers])
            .args(more)
            .arg(&file)
            .output()
            .expect("it started before");
        if ran.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ran.stderr).into_owned()) }
    };
    let simulator = &["-D__CPU_SIM"][..];
    for name in ["onephase", "elementwise", "tables", "matrix_rows"] {
        let printed = kernel(&read(name), &text("x.kb")).expect(name);
        assert_eq!(compiled(name, &printed, &[]), Ok(()), "{name}");
        assert_eq!(compiled(name, &printed, simulator), Ok(()), "{name} for the simulator");
    }
    // Sums of rows: the simulator asks for more than the devices do.
    let path = format!("{}/tests/tile/good/matrix_rows.tile", env!("CARGO_MANIFEST_DIR"));
    let sums = std::fs::read_to_string(path).expect("it can be read").replace("reduce.max", "reduce.add");
    let sums = parse(&sums, FileId(0)).expect("it is a kernel");
    let printed = kernel(&sums, &text("x.kb")).expect("sums");
    assert_eq!(compiled("sums", &printed, &[]), Ok(()));
    assert_eq!(compiled("sums", &printed, simulator), Ok(()));
    let (helper, body) = printed.split_once("TROWSUM(sums, rows, work);").expect("the helper");
    let direct = format!("{helper}TROWSUM(sums, rows, work);{}", body.replace("RowSum(", "TROWSUM("));
    assert_eq!(compiled("direct", &direct, &[]), Ok(()));
    let why = compiled("direct", &direct, simulator).expect_err("the rows are not equally many");
    assert!(why.contains("equally many rows"), "{why}");
    std::fs::remove_dir_all(&folder).expect("it was made above");
}
