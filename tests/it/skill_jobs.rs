//! Jobs that skills bring by `trigger_config`, with a real supervisor where no engine answers.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Hive;

struct Up(Hive);

impl Drop for Up {
    fn drop(&mut self) {
        self.0.run(&["down", "--keep-agents"]);
    }
}

fn config(hive: &Hive, first: &str, second: &str) {
    hive.write(
        "skep.toml",
        &format!(
            "[hive]\nname = \"h\"\ntimezone = \"UTC\"\n[api]\nlisten = \"none\"\n\
             [agents.a]\ncommand = [\"cat\"]\nskills = [{first}]\n[agents.b]\ncommand = [\"cat\"]\nskills = [{second}]\n"
        ),
    );
}

fn skill(hive: &Hive, schedule: &str) {
    let trigger = format!("trigger_config: {{ schedule: \"{schedule}\", timezone: Europe/Berlin }}");
    let text = format!("---\nname: daily\ndescription: Does it\nmetadata:\n  {trigger}\n---\nDo it.\n");
    hive.write("skills/daily/SKILL.md", &text);
}

fn jobs(hive: &Hive) -> Vec<Value> {
    let ran = hive.run(&["job", "list", "--json"]);
    if ran.code != 0 {
        return Vec::new();
    }
    serde_json::from_str(&ran.out).unwrap()
}

fn until(hive: &Hive, what: &str, reached: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        // A newer version is taken only when it is asked for.
        hive.run(&["update"]);
        let jobs = jobs(hive);
        if reached(&jobs) {
            return jobs;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {jobs:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_skill_with_a_trigger_brings_each_of_its_agents_a_job_that_follows_it() {
    let hive = Hive::empty();
    skill(&hive, "0 9 * * *");
    config(&hive, "\"daily\"", "\"daily\"");
    let up = Up(hive);
    let hive = &up.0;
    hive.run(&["up", "-d", "--timeout", "0"]);
    let made = until(hive, "both have one", |jobs| jobs.len() == 2);
    for job in &made {
        assert_eq!(
            (&job["name"], &job["origin"], &job["enabled"]),
            (&"daily".into(), &"skill".into(), &true.into())
        );
        assert_eq!(job["trigger"]["timezone"], "Europe/Berlin");
    }
    let id = made[0]["id"].to_string();

    // The operator's word stands whatever the file says.
    assert_eq!(hive.run(&["job", "pause", "b/daily"]).code, 0);
    skill(hive, "30 7 * * *");
    let changed =
        until(hive, "both follow", |jobs| jobs.iter().all(|j| j["trigger"]["schedule"] == "30 7 * * *"));
    assert_eq!((changed[0]["id"].to_string(), &changed[0]["enabled"]), (id, &true.into()));
    assert_eq!(changed[1]["enabled"], false);

    config(hive, "", "");
    let gone = until(hive, "both are disabled", |jobs| jobs.iter().all(|j| j["enabled"] == false));
    assert!(gone[0]["disabled_reason"].as_str().unwrap().contains("no longer has the skill"));
    assert!(gone[1]["disabled_reason"].as_str().unwrap().contains("paused by the operator"));

    config(hive, "\"daily\"", "\"daily\"");
    let back = until(hive, "the first is back", |jobs| jobs[0]["enabled"] == true);
    assert_eq!(back[1]["enabled"], false, "what the operator disabled stays so");

    // What somebody removed is not made again.
    assert_eq!(hive.run(&["job", "rm", "--yes", "a/daily"]).code, 0);
    skill(hive, "0 6 * * *");
    until(hive, "the second follows", |jobs| {
        jobs.len() == 1 && jobs[0]["trigger"]["schedule"] == "0 6 * * *"
    });
}

#[test]
fn a_trigger_that_cannot_be_is_told_and_a_name_that_is_taken_is_left_alone() {
    let hive = Hive::empty();
    skill(&hive, "99 9 * * *");
    config(&hive, "\"daily\"", "");
    let up = Up(hive);
    let hive = &up.0;
    hive.run(&["up", "-d", "--timeout", "0"]);
    let began = Instant::now();
    while !hive.run(&["ps"]).err.contains("trigger_config/schedule") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", hive.run(&["ps"]).err);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(jobs(hive).is_empty());
    let add = ["job", "add", "--agent", "a", "--name", "daily", "--every", "1h", "--instructions", "Mine"];
    assert_eq!(hive.run(&add).code, 0);
    skill(hive, "0 9 * * *");
    let told = until(hive, "one job", |jobs| jobs.len() == 1);
    assert_eq!(told[0]["origin"], "api");
    let began = Instant::now();
    while !hive.run(&["ps"]).err.contains("has a job of this name already") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", hive.run(&["ps"]).err);
        std::thread::sleep(Duration::from_millis(100));
    }
}
