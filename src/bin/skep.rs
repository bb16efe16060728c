//! The `skep` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    skep::cli::main(std::env::args_os())
}
