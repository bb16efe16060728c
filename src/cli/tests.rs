use super::*;

fn help_of(path: &[&str]) -> String {
    let args = ["skep"].iter().chain(path).chain(&["--help"]);
    // Whatever the terminal that the tests run on.
    let error = Cli::command().term_width(100).try_get_matches_from(args).unwrap_err();
    error.to_string()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_help_lists_what_there_is() {
    insta::assert_snapshot!(help_of(&[]), @r"
    Runs AI agents, each in a hardened container with its skills and secrets

    Usage: skep [OPTIONS] <COMMAND>

    Commands:
      init         Make a new hive with one working agent
      validate     Check skep.toml, skills and references; change nothing
      up           Run the supervisor, which starts the agents
      down         Stop the agents and the supervisor
      ps           Show the agents and how they are
      logs         Print the output of an agent's main process
      exec         Run a command in an agent's container
      shell        Open a shell in an agent's container
      start        Start agents
      stop         Stop agents; they stay stopped until they are started
      restart      Start agents anew, each in a new container
      prompt       Print the prompt that an agent is given
      tools        List what an agent can call: scripts, tools of MCP servers, and the hive's own
      call         Call a tool of an agent now
      resolve      Show which skill versions agents get, and why
      update       Take newer skill versions within what skep.toml allows, and rewrite skep.lock
      skill        List, add, check, publish and approve skills
      job          Make, list, run and pause jobs: what agents do by themselves, and when
      run          List, show and cancel the runs of jobs, and print what they wrote
      task         List, show and cancel background tasks: what agents queued with `queue_task`
      mail         List, send and show mail between agents and the operator
      halt         Keep new runs from starting, those of one agent or all
      resume       Let runs start again
      events       Show what happened in the hive, and what happens; raise events
      secret       List, set and remove secrets
      doctor       Look for what is missing, wrong or unsafe on this machine
      backup       Put the whole hive into one file, while it runs or not
      restore      Make a hive of a backup
      completions  Print a script that completes skep's commands in a shell

    Options:
          --dir <DIR>   Folder of the hive [default: the nearest one upwards with a skep.toml; env:
                        SKEP_DIR]
          --host <URL>  Supervisor to talk to over TCP, like http://127.0.0.1:7117 [env: SKEP_HOST,
                        SKEP_TOKEN]
      -v, --verbose...  Tell more: each request, and `up` logs more; twice: even more
      -q, --quiet       Tell nothing but results, warnings and errors
      -h, --help        Print help
      -V, --version     Print version

    Exit codes: 0 it worked, 1 it failed, 2 the command line or the configuration is wrong;
    `exec` and `shell` end with the exit code of their command.
    ");
}

#[test]
fn the_help_of_exec_tells_how_input_and_terminals_go() {
    insta::assert_snapshot!(help_of(&["exec"]), @r"
    Run a command in an agent's container

    Usage: skep exec [OPTIONS] <AGENT> -- <CMD>...

    Arguments:
      <AGENT>   Which agent
      <CMD>...  Program and its arguments, after --

    Options:
          --dir <DIR>        Folder of the hive [default: the nearest one upwards with a skep.toml; env:
                             SKEP_DIR]
      -i, --interactive      Pass on what is typed; without it a terminal's input is left alone
          --host <URL>       Supervisor to talk to over TCP, like http://127.0.0.1:7117 [env: SKEP_HOST,
                             SKEP_TOKEN]
      -t, --tty              Give the command a terminal
      -e, --env <KEY=VALUE>  Set an environment variable; may be given several times
      -v, --verbose...       Tell more: each request, and `up` logs more; twice: even more
      -q, --quiet            Tell nothing but results, warnings and errors
      -w, --workdir <DIR>    Working directory in the container [default: /workspace]
      -h, --help             Print help
    ");
}
