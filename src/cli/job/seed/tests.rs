use serde_json::json;

use super::*;

#[test]
fn a_file_holds_one_body_or_a_list_of_them() {
    let one = bodies("f", "{\"name\": \"a\"}", None).unwrap();
    assert_eq!(one, [json!({"name": "a"})]);
    assert_eq!(bodies("f", "[{}, {}]", None).unwrap().len(), 2);
    for (text, why) in [("7", "neither"), ("[{}, 1]", "number 2 of the list is no object"), ("{", "EOF")] {
        let failure = bodies("f", text, None).unwrap_err();
        assert!(failure.message.contains(why), "{}", failure.message);
        assert_eq!(failure.code, 2);
    }
}

#[test]
fn bodies_that_name_no_agent_are_given_the_one_that_was_named() {
    let text = r#"[{"name": "a"}, {"agent": "x"}, {"agent_id": "y"}, {"agent": null}]"#;
    let agents: Vec<Value> = bodies("f", text, Some(&"writer".parse().unwrap()))
        .unwrap()
        .into_iter()
        .map(|body| body.get("agent").cloned().unwrap_or_default())
        .collect();
    assert_eq!(agents, [json!("writer"), json!("x"), Value::Null, json!("writer")]);
}

#[test]
fn the_summary_counts_what_became_of_them() {
    let name = || "a".to_owned();
    let exists = || Done::Exists { name: name(), detail: String::new() };
    let refused = Done::Refused { name: name(), detail: String::new(), errors: vec![] };
    assert_eq!(summary(&[exists(), refused, exists()]), "0 added, 2 left alone, 1 refused");
    assert_eq!(summary(&[]), "0 added");
}

#[test]
fn the_jobs_that_come_with_skep_begin_disabled() {
    let jobs = bodies(DEFAULT_JOBS, DEFAULTS, None).unwrap();
    assert!(!jobs.is_empty());
    for job in jobs {
        assert_eq!(job["enabled"], false, "{}", job["name"]);
    }
}
