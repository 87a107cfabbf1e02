//! Makes the parser from the grammar; a conflict in the grammar fails the build.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    lalrpop::Configuration::new()
        .set_in_dir("src")
        .set_out_dir(std::env::var("OUT_DIR")?)
        .emit_rerun_directives(true)
        .emit_comments(false)
        .log_quiet()
        .process()
}
