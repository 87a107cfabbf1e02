//! PyTorch programs as local programs and as global ones (`kbc import --lift`): the same numbers, bit for bit; and weights
//! from a file in the place of an archive's.

use kbc_backend_sim::formats;
use kbc_backend_sim::tensor::{Data, Tensor};
use std::path::{Path, PathBuf};
use std::process::Command;

fn kbc(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_kbc"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("kbc runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}

fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("torch_{name}"));
    std::fs::create_dir_all(&dir).expect("a folder");
    dir
}

/// The result of a program, as bits of f32 in row-major order, and its sizes.
fn result(program: &str, dir: &Path) -> (Vec<u64>, Vec<u32>) {
    let file = dir.join("out.safetensors");
    let file = file.to_str().expect("a name");
    kbc(&["compile", program, "--output", &format!("out={file}:out")]);
    let t: Tensor =
        formats::read(file, &std::fs::read(file).expect("a file"), Some("out")).expect("a tensor");
    let bits = t.data().to_f64().iter().map(|x| (*x as f32).to_bits()).collect();
    (t.shape().to_vec(), bits)
}

/// Both forms of the programs in a folder of `specs/torch`; the local one has a row a rank.
fn both(name: &str) -> [(Vec<u64>, Vec<u32>); 2] {
    let dir = folder(name);
    let source = format!("specs/torch/{name}");
    ["local", "whole"].map(|form| {
        let file = dir.join(format!("{form}.kb"));
        let file = file.to_str().expect("a name");
        let mut args = vec!["import", &source, "-o", file];
        if form == "whole" {
            args.push("--lift");
        }
        kbc(&args);
        result(file, &dir)
    })
}

#[test]
fn lifted_programs_have_the_same_numbers() {
    for name in ["block_tp2", "dynamic_tp2", "bf16_tp2"] {
        let [(local, rows), (whole, all)] = both(name);
        assert_eq!(local[1..], whole, "{name}");
        assert!(!all.is_empty());
        for row in rows.chunks(all.len()) {
            assert_eq!(row, all, "{name}");
        }
    }
}

#[test]
fn lifted_over_one_axis_of_two() {
    // rows over dp, whole over tp
    let [(local, rows), (whole, all)] = both("mlp_dp2xtp2");
    assert_eq!((local[0], local[1] * 2, local[2]), (4, whole[0], whole[1]));
    let part = all.len() / 2;
    for (rank, row) in rows.chunks(part).enumerate() {
        assert_eq!(row, &all[rank / 2 * part..(rank / 2 + 1) * part], "rank {rank}");
    }
}

#[test]
fn weights_come_from_a_file() {
    let dir = folder("weights");
    let local = dir.join("m.kb");
    kbc(&["import", "specs/torch/dynamic_tp2", "-o", local.to_str().expect("a name")]);
    let weights = dir.join("m.rank*.npz");
    let text = kbc(&["compile", "specs/torch/dynamic_tp2", "--weights", weights.to_str().expect("a name")]);
    assert!(text.contains("agree with rank*.npz:out__0"), "{text}");
    // weights that are other ones give other results
    for r in 0..2 {
        let file = dir.join(format!("m.rank{r}.npz"));
        let shown = file.to_str().expect("a name");
        let bytes = std::fs::read(&file).expect("a file");
        let keys = formats::keys(shown, &bytes).expect("keys");
        let read = |k: &String| formats::read(shown, &bytes, Some(k)).expect("an array");
        let mut list: Vec<(String, Tensor)> = keys.iter().map(|k| (k.clone(), read(k))).collect();
        let b2 = list.iter().position(|l| l.0 == "b2").expect("a bias");
        let zeros = Data::F32(vec![0.0; list[b2].1.elements()]);
        list[b2].1 = Tensor::new(list[b2].1.shape().to_vec(), zeros).expect("zeros");
        let out = dir.join(format!("other{r}.npz"));
        std::fs::write(out, formats::write_npz(&list).expect("an archive")).expect("written");
    }
    let out = Command::new(env!("CARGO_BIN_EXE_kbc"))
        .args(["compile", "specs/torch/dynamic_tp2", "--weights"])
        .arg(dir.join("other*.npz"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("kbc runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(!out.status.success() && text.contains("differ from rank*.npz:out__0"), "{text}");
}

#[test]
fn functions_are_what_pytorch_computes() {
    let text = kbc(&["compile", "specs/torch/functions_tp2"]);
    assert_eq!(text.matches("on all ranks agree with ").count(), 39, "{text}");
    assert!(!text.contains("nothing is said"), "{text}");
}
