//! Test of `kbc completions`: every command and every long flag is in the script of every shell,
//! and two runs give the same bytes.

use crate::common;

use clap::CommandFactory;
use common::{kbc, root};

#[test]
fn scripts_know_every_verb_and_flag() {
    let mut command = kbc::cli::Cli::command();
    command.build();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = kbc(root(), &["completions", shell], "");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert_eq!(kbc(root(), &["completions", shell], ""), ran);
        let mut flags = 0;
        let shown = |c: &&clap::Command| !c.is_hide_set();
        let dev = command.find_subcommand("dev").expect("a verb").get_subcommands();
        for verb in command.get_subcommands().chain(dev).filter(shown) {
            assert!(ran.stdout.contains(verb.get_name()), "{shell}: {}", verb.get_name());
            for long in verb.get_arguments().filter(|a| !a.is_hide_set()).filter_map(|a| a.get_long()) {
                // fish writes `-l flag`.
                let found =
                    ran.stdout.contains(&format!("--{long}")) || ran.stdout.contains(&format!("-l {long}"));
                assert!(found, "{shell}: {} --{long}", verb.get_name());
                flags += 1;
            }
        }
        assert!(flags > 40, "{flags}");
    }
}
