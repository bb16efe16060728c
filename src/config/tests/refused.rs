//! Each mistake by itself: its message and its remedy.

use super::{super::keys, faults, only, warnings};

#[test]
fn a_wrong_type_is_told_for_every_known_key() {
    for (header, section) in keys::SECTIONS {
        // A date is right there.
        for key in section.iter().filter(|key| key.name != "at") {
            let text = format!("{}\n{} = 1979-05-27\n", opened(header, key.name), key.name);
            let line = text.lines().count();
            let told: Vec<_> = faults(&text).into_iter().filter(|f| f.line == Some(line)).collect();
            assert_eq!(told.len(), 1, "{text}: {told:?}");
            assert_eq!(told[0].column, Some(key.name.len() + 4), "{text}");
            let (message, help) = (&told[0].message, told[0].help.clone().unwrap_or_default());
            assert!(message.contains(key.name) && message.ends_with("not a date or time"), "{message}");
            assert!(!help.is_empty());
        }
    }
    for key in keys::ROOT {
        assert!(only(&format!("{} = 5", key.name)).2.starts_with(key.name));
    }
}

/// A section that lacks nothing but one key.
fn opened(header: &str, key: &str) -> String {
    let header = header.replace("<id>", "a");
    let Some((before, after)) = header.split_once("jobs") else { return header };
    let kind = ["schedule", "every", "event"].contains(&key);
    let rest = [("name", "name = 'x'"), ("tool", "tool = 't'"), ("manual", "manual = true")];
    let rest = rest.iter().filter(|(name, _)| *name != key && !(*name == "manual" && kind));
    let job = rest.map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
    let inner = if after.starts_with('.') { format!("\n{header}") } else { String::new() };
    format!("[[{}jobs]]\n{job}{inner}", before.trim_start_matches('['))
}

#[test]
fn unknown_keys_are_told_with_the_nearest_known_one() {
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str)] = &[
        ("[agents.a]\nmemry = 1", "unknown key \"memry\"", "did you mean \"memory\"?"),
        ("[agents.a]\nmain-restart = 1", "unknown key \"main-restart\"", "did you mean \"main_restart\"?"),
        ("[agents.a]\nenvironment = 1", "unknown key \"environment\"", "did you mean \"env\"?"),
        ("[agent.a]", "unknown key \"agent\"", "did you mean \"agents\"?"),
        ("listen = 'none'", "unknown key \"listen\"", "\"listen\" belongs in [api]"),
        ("[hive]\nmemory = 1", "unknown key \"memory\"", "\"memory\" belongs in [agents.<id>]"),
        ("[secrets]\nquux = 1", "unknown key \"quux\"", "known keys are file"),
        ("[defaults]\ncpu = 1", "unknown key \"cpu\"", "did you mean \"cpus\"?"),
        ("[agents.a]\nschedule = 1", "unknown key \"schedule\"", "\"schedule\" belongs in [[agents.<id>.jobs]]"),
        ("[runs]\nmax_runing = 1", "unknown key \"max_runing\"", "did you mean \"max_running\"?"),
        ("[registry.limits]\nfilez = 1", "unknown key \"filez\"", "did you mean \"files\"?"),
    ];
    for (text, message, help) in CASES {
        let (_, _, told, advice) = only(text);
        assert_eq!((told.as_str(), advice.as_str()), (*message, *help));
    }
}

#[test]
fn wrong_values_are_told_with_a_remedy() {
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str)] = &[
        ("network = { allow = ['api.example.com:443'] }", "not yet enforced", "\"none\""),
        ("network = 'intrenet'", "cannot be \"intrenet\"", "did you mean \"internet\"?"),
        ("network = 'host'", "cannot be \"host\"", "use \"none\" or \"internet\""),
        ("network = none", "none is not a TOML value", "\"none\""),
        ("network = internet", "internet is not a TOML value", "\"internet\""),
        ("main_restart = 'on_failure'", "cannot be", "did you mean \"on-failure\"?"),
        ("memory = '15MiB'", "at least 16MiB", "or more"),
        ("memory = -1", "at least 16MiB", "or more"),
        ("memory = '64k'", "not a size", "64KiB"),
        ("memory = 0.5", "must be a size, not a number", "512MiB"),
        ("memory = '9000PiB'", "larger", "smaller"),
        ("memory = 99999999999999999999", "out of range", "smaller"),
        ("disk = '1kB'", "at least 1MiB", "or more"),
        ("cpus = 0", "from 0.01 to 1024", "1.0"),
        ("cpus = nan", "from 0.01 to 1024", "1.0"),
        ("cpus = inf", "from 0.01 to 1024", "1.0"),
        ("cpus = 1025", "from 0.01 to 1024", "1.0"),
        ("cpus = '1'", "must be a number, not a string", "without quotes"),
        ("pids = 7", "from 8", "256"),
        ("pids = 5000000", "from 8", "256"),
        ("stop_grace = 10", "a duration", "\"10s\""),
        ("stop_grace = '10'", "not a duration", "\"10s\""),
        ("stop_grace = '2h'", "at most 1h", "shorter"),
        ("image = 'Agent:latest'", "not an image", "\"agent:latest\""),
        ("image = 'a b'", "not an image", "name:tag"),
        ("image = 'a@sha256:12'", "not an image", "name:tag"),
        ("image = ''", "is empty", "remove"),
        ("runtime = '-x'", "not a runtime name", "runsc"),
        ("workspace = '..'", "leads out of the hive", "inside the hive"),
        ("workspace = './a/../../b'", "leads out of the hive", "inside the hive"),
        ("workspace = '/srv'", "absolute", "inside the hive"),
        ("workspace = './'", "the hive itself", "inside the hive"),
        ("workspace = './.skep/x'", ".skep", "outside of .skep"),
        ("workspace = 'data'", "cannot be \"data\"", "\"./data\""),
        ("workspace = 'Named'", "cannot be", "did you mean \"named\"?"),
        ("workspace = './skills/x'", "write a source of skills", "\"./work\""),
        ("workspace = './secrets'", "write the secrets file", "\"./work\""),
        ("soul = '~/soul.md'", "not expanded", "inside the hive"),
        ("soul = \"a\\u0000b\"", "NUL", "remove"),
        ("skills = ['Bad']", "not a valid skill id", ""),
        ("skills = ['a@abc']", "not a skill reference", ""),
        ("skills = ['a@1.0.0', 'a@^2']", "as \"a@1.0.0\" and as \"a@^2\"", "keep one"),
        ("skills = 'a'", "must be an array", "[\"a\"]"),
        ("secrets = ['A-B']", "not a valid secret name", ""),
        ("secrets = ['A', 'A']", "listed twice", "remove"),
        ("env = { A = '1' }\nsecrets = ['A']", "both in env and in secrets", "keep the secret"),
        ("env = { A = 1 }", "must be a string, not an integer", "in quotes: \"1\""),
        ("env = { A = true }", "must be a string, not a boolean", "in quotes: \"true\""),
        ("env = { SKEP_AGENT = 'x' }", "set by skep itself", "SKEP_"),
        ("env = { HOME = '/' }", "always /workspace/home", "remove"),
        ("env = { 'A B' = '/' }", "not a name of an environment variable", "letters"),
        ("env = ['A=1']", "must be a table", "[agents.a.env]"),
        ("main = 'node server.mjs'", "must be an array", "[\"node\", \"server.mjs\"]"),
        ("main = 'a | b'", "must be an array", "[\"sh\", \"-c\", \"a | b\"]"),
        ("command = []", "names no program", "remove"),
        ("command = ['']", "names no program", "remove"),
        ("command = ['a', 1]", "must be a string", "\"1\""),
        ("command = [\"a\\u0000\"]", "NUL", "remove"),
        ("description = 3", "must be a string", "\"3\""),
        ("autostart = 'yes'", "true or false", "without quotes"),
        ("jobs = {}", "an array of tables", "[[agents.a.jobs]]"),
    ];
    for (line, message, help) in CASES {
        let (at, _, told, advice) = only(&format!("[agents.a]\n{line}\n"));
        assert!(at >= 2, "{line}");
        assert!(told.contains(message), "{line}: {told}");
        assert!(advice.contains(help), "{line}: {advice}");
    }
}

#[test]
fn wrong_values_of_the_hive_are_told_with_a_remedy() {
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str)] = &[
        ("[hive]\nname = 'My Hive'", "not a valid hive name", ""),
        ("[hive]\ntimezone = 'Europe/Berln'", "not a known time zone", "did you mean \"Europe/Berlin\"?"),
        ("[hive]\ntimezone = 'new york'", "not a known time zone", "did you mean \"America/New_York\"?"),
        ("[hive]\ntimezone = 'x/y/z/w/v/u'", "not a known time zone", "IANA"),
        ("[hive]\ndefault_agent = 'wrtier'\n[agents.writer]", "no agent \"wrtier\"", "did you mean \"writer\"?"),
        ("[hive]\ndefault_agent = 'x'", "no agent \"x\"", "[agents.x]"),
        ("[hive]\nca_bundle = '../ca.pem'", "leads out", "inside"),
        ("[api]\nlisten = 'localhost:80'", "not an IP address", "\"127.0.0.1:80\""),
        ("[api]\nlisten = ':80'", "not an IP address", "\"127.0.0.1:80\""),
        ("[api]\nlisten = '::1'", "not an IP address", "\"[::1]:7117\""),
        ("[api]\nlisten = 80", "must be a string", "\"80\""),
        ("[api]\nlisten = 'unix:/x'", "not an IP address", "none"),
        ("[api]\nallowed_hosts = ['https://x']", "not a host name", "no scheme"),
        ("[api]\nallowed_hosts = ['*']", "not a host name", "wildcard"),
        ("[registry]\nsources = ['a', './a']", "listed twice", "remove"),
        ("[registry]\nsources = ['.']", "the hive itself", "inside"),
        ("[registry]\nagent_skills = 'atuo'", "cannot be", "did you mean \"auto\"?"),
        ("[registry]\nlimits.files = 0", "at least 1", "2000"),
        ("[registry]\nlimits.file = 0", "at least 1B", "or more"),
        ("[secrets]\nfile = '/etc/env.json'", "absolute", "inside the hive"),
        ("[defaults]\nskills = ['a']", "each agent's own", "[agents.<id>]"),
        ("[defaults]\njobs = []", "each agent's own", "[agents.<id>]"),
        ("[agents.'A b']", "not a valid agent name", ""),
        ("[agents]\na = 5", "agents.a must be a table", "[agents.a]"),
        ("[agents.a]\nworkspace='./w'\n[agents.b]\nworkspace='./w/b'", "inside that of agent \"a\"", "beside each other"),
        ("[agents.a]\nworkspace='./souls'\n[agents.b]\nsoul='souls/b.md'", "write a soul file", "apart"),
        ("[runs]\nmax_running = 0", "from 1 to 10000, not 0", "within"),
        ("[runs]\nmax_running_per_agent = 10001", "from 1 to 10000", "within"),
        ("[runs]\noutput = '1kB'", "at least 4KiB", "or more"),
        ("[runs]\noutput = 0.5", "must be a size", "512MiB"),
        ("[runs]\nkeep_output = 14", "must be a duration", "\"14s\""),
        ("[runs]\nkeep_output = '30s'", "from 1m to 36500d", "within"),
        ("[runs]\nkeep_history = '40000d'", "from 1m to 36500d", "within"),
        ("[runs]\nkeep_output_size = '1MiB'", "runs.keep_output_size, 1MiB, does not hold the output of one run, 8MiB", "lower runs.output"),
        ("[runs]\noutput = '2GiB'", "does not hold the output of one run, 2GiB", "raise runs.keep_output_size"),
        ("[runs]\nmax_running = '10'", "must be a whole number, not a string", "without quotes"),
        ("runs = 5", "runs must be a table", "[runs]"),
        ("[hive]\nname = 'a'\nname = 'b'", "duplicate key", ""),
        ("[hive]\n[hive]", "duplicate key", ""),
    ];
    for (text, message, help) in CASES {
        let (_, _, told, advice) = only(text);
        assert!(told.contains(message), "{text}: {told}");
        assert!(advice.contains(help), "{text}: {advice}");
    }
}

#[test]
fn what_is_probably_not_meant_is_a_warning_only() {
    #[rustfmt::skip]
    const CASES: &[(&str, &str)] = &[
        ("[api]\nlisten = '0.0.0.0:7117'", "skep.toml:2:10: the API listens on 0.0.0.0:7117"),
        ("[agents.a]\nmain_restart = 'never'", "skep.toml:2:16: agents.a.main_restart has no effect without main"),
        ("[agents.a]\nworkspace='./w'\n[agents.b]\nworkspace='./w'", "skep.toml:4:11: agents \"a\" and \"b\" share the workspace \"w\""),
        ("[runs]\nmax_running = 2\nmax_running_per_agent = 3", "skep.toml:3:25: runs.max_running_per_agent is more than the 2 of the whole hive"),
        ("[runs]\nkeep_output = '100d'", "skep.toml:2:15: runs.keep_output is longer than keep_history"),
        ("[[agents.a.jobs]]\nname = 'x'\nevery = '1h'\ntool = 't'\ntimezone = 'UTC'", "skep.toml:5:1: agents.a.jobs[0].timezone has no effect on every"),
    ];
    for (text, told) in CASES {
        let all = warnings(text);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with(told), "{all:?}");
    }
}
