//! The default jobs that an operator may add (systems.md A27).

use super::*;

const SEED: &str = include_str!("../../../../examples/default-jobs.json");

/// Name, schedule, steps, tools, as the reference prints them; the last is from its other document.
#[rustfmt::skip]
const TABLE: &[(&str, &str, u32, &[&str])] = &[
    ("Email Processor", "60m", 15, &["gmail_get_new_emails", "memory_list_contacts", "memory_list_projects"]),
    ("Morning Briefing", "0 6 * * *", 15, &["gmail_list_events", "gmail_get_new_emails", "memory_list_projects", "memory_list_facts"]),
    ("Evening Recap", "0 18 * * *", 12, &["gmail_list_events", "gmail_list_emails", "memory_list_facts"]),
    ("Weekly Digest", "0 18 * * SUN", 15, &["gmail_list_events", "gmail_list_emails", "memory_list_projects"]),
    ("Follow-up Tracker", "0 9 * * *", 10, &["gmail_list_emails", "memory_list_contacts", "memory_list_projects"]),
    ("Pre-meeting Prep", "15m", 10, &["gmail_list_events", "memory_list_contacts", "memory_list_projects", "gmail_list_emails", "memory_list_facts"]),
    ("Meeting Overload Warning", "0 20 * * *", 6, &["gmail_list_events"]),
    ("Daily Email Classification", "0 5 * * *", 15, &["gmail_get_new_emails", "gmail_list_labels", "gmail_modify_labels"]),
];

#[test]
fn the_default_jobs_are_those_of_the_table_and_begin_disabled() {
    let bodies: Vec<Value> = serde_json::from_str(SEED).unwrap();
    assert_eq!(bodies.len(), TABLE.len());
    for (body, (name, when, steps, tools)) in bodies.iter().zip(TABLE) {
        let job = created(body);
        assert_eq!((job.name.as_str(), job.spec.max_steps), (*name, *steps));
        assert_eq!(job.spec.required_tools, *tools, "{name}");
        let trigger = if when.ends_with('m') { every(when) } else { cron(when, "America/New_York") };
        assert_eq!(job.spec.trigger, trigger, "{name}");
        assert_eq!((job.enabled, job.spec.tier()), (false, Tier::Agent), "{name}");
        assert!(!job.spec.description.is_empty() && body.get("agent").is_none(), "{name}");
        assert_eq!(job.notes.len(), 1, "only the agent is filled in: {:?}", job.notes);
    }
}
