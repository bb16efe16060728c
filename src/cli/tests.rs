use super::*;

fn help_of(path: &[&str]) -> String {
    let args = ["skep"].iter().chain(path).chain(&["--help"]);
    let error = Cli::try_parse_from(args).unwrap_err();
    error.to_string()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_help_lists_what_there_is() {
    insta::assert_snapshot!(help_of(&[]), @"");
}

#[test]
fn the_help_of_exec_tells_how_input_and_terminals_go() {
    insta::assert_snapshot!(help_of(&["exec"]), @"");
}
