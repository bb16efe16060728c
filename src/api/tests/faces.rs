//! The registry as clients of ClawHub and of agent-skills discovery read it.

use std::{collections::BTreeMap, io::Read};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    setup::{Open, open, open_with},
    skills::{archive, config, get, notes, put, put_as_agent, skill},
};

const INDEX: &str = "/.well-known/agent-skills/index.json";

fn unzip(bytes: &[u8]) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut files = BTreeMap::new();
    for n in 0..zip.len() {
        let (mut file, mut content) = (zip.by_index(n).unwrap(), Vec::new());
        file.read_to_end(&mut content).unwrap();
        files.insert(file.name().unwrap().into_owned(), (content, file.unix_mode().unwrap() & 0o777));
    }
    files
}

fn slugs(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|s| s["slug"].as_str().unwrap().to_owned()).collect()
}

async fn status(open: &Open, path: &str) -> u16 {
    open.call("GET", path, "").await.status
}

/// Every place that would tell of the skill `notes`.
async fn told_of_notes(open: &Open, version: &str) -> Vec<bool> {
    let index = get(open, INDEX).await["skills"].clone();
    vec![
        slugs(&get(open, "/api/v1/skills?limit=200").await).contains(&"notes".to_owned()),
        get(open, "/api/v1/search?q=notes").await["results"]
            .as_array()
            .unwrap()
            .iter()
            .any(|s| s["slug"] == "notes"),
        status(open, "/api/v1/skills/notes").await == 200,
        status(open, "/api/v1/skills/notes/versions").await == 200,
        status(open, &format!("/api/v1/skills/notes/versions/{version}")).await == 200,
        status(open, &format!("/api/v1/skills/notes/file?path=SKILL.md&version={version}")).await == 200,
        status(open, &format!("/api/v1/download?slug=notes&version={version}")).await == 200,
        status(open, &format!("/api/v1/resolve?slug=notes&hash={}", "0".repeat(64))).await == 200,
        index.as_array().unwrap().iter().any(|s| s["name"] == "notes"),
        status(open, &format!("/.well-known/agent-skills/notes/{version}/SKILL.md")).await == 200,
        status(open, &format!("/.well-known/agent-skills/notes/{version}/skill.zip")).await == 200,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_others_may_use_is_told_of() {
    let open = open_with(&config("manual", "")).await;
    put_as_agent(&open, &notes("one")).await;
    let judge = async |verb: &str| {
        let done = open.call("POST", &format!("/v1/skills/notes/{verb}"), "").await;
        assert_eq!(done.status, 200, "{verb}: {done:?}");
    };
    let all = |told| vec![told; 11];
    assert_eq!(told_of_notes(&open, "0.0.0").await, all(false), "pending");
    judge("versions/0.0.0/approve").await;
    assert_eq!(told_of_notes(&open, "0.0.0").await, all(true), "approved");
    judge("disable").await;
    assert_eq!(told_of_notes(&open, "0.0.0").await, all(false), "disabled");
    judge("enable").await;
    // A newer one that waits is not seen, nor what it says of itself.
    let next = "---\nname: notes\ndescription: Something secret.\n---\n\ntwo\n";
    put_as_agent(&open, &archive(&[("SKILL.md", next)])).await;
    let shown = get(&open, "/api/v1/skills/notes").await;
    assert_eq!(shown["latestVersion"]["version"], "0.0.0");
    assert_eq!(shown["skill"]["summary"], "Takes notes.");
    assert!(!get(&open, INDEX).await.to_string().contains("secret"));
    assert_eq!(status(&open, "/api/v1/skills/notes/versions/0.0.1").await, 404);
    judge("versions/0.0.1/reject").await;
    judge("versions/0.0.0/reject").await;
    assert_eq!(told_of_notes(&open, "0.0.0").await, all(false), "rejected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yanked_version_is_gone_and_still_known_by_its_fingerprint() {
    let open = open().await;
    put(&open, &skill("clock", "1.0.0", "one", &[])).await;
    put(&open, &skill("clock", "1.1.0", "two", &[])).await;
    let zip = unzip(&open.call("GET", "/api/v1/download?slug=clock&version=1.1.0", "").await.bytes);
    open.call("POST", "/v1/skills/clock/versions/1.1.0/yank", "").await;
    for path in [
        "/api/v1/skills/clock/versions/1.1.0",
        "/api/v1/skills/clock/file?path=manifest.json&version=1.1.0",
        "/api/v1/download?slug=clock&version=1.1.0",
        "/.well-known/agent-skills/clock/1.1.0/skill.zip",
    ] {
        assert_eq!(status(&open, path).await, 410, "{path}");
    }
    let versions = get(&open, "/api/v1/skills/clock/versions").await;
    assert_eq!(versions["items"].as_array().unwrap().len(), 1);
    assert_eq!(get(&open, "/api/v1/skills/clock").await["skill"]["tags"], json!({ "latest": "1.0.0" }));
    // Paths as JavaScript sorts them; what clients of ClawHub compute of an installed folder.
    let lines: Vec<String> = ["context/about.md", "manifest.json", "SKILL.md"]
        .map(|path| format!("{path}:{}", hex::encode(Sha256::digest(&zip[path].0))))
        .to_vec();
    let hash = hex::encode(Sha256::digest(lines.join("\n")));
    let resolved = get(&open, &format!("/api/v1/resolve?slug=clock&hash={hash}")).await;
    assert_eq!(
        resolved,
        json!({ "slug": "clock", "match": { "version": "1.1.0" }, "latestVersion": { "version": "1.0.0" } })
    );
    open.call("POST", "/v1/skills/clock/versions/1.0.0/yank", "").await;
    let shown = get(&open, "/api/v1/skills/clock").await;
    assert_eq!((&shown["latestVersion"], &shown["skill"]["slug"]), (&Value::Null, &json!("clock")));
    assert_eq!(status(&open, "/api/v1/download?slug=clock").await, 410);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_is_the_same_each_time_and_holds_what_agents_see() {
    let open = open().await;
    let digest = put(&open, &skill("clock", "1.0.0", "ticks", &[])).await.json()["digest"].clone();
    let path = "/api/v1/download?slug=clock";
    let (first, second) = (open.call("GET", path, "").await, open.call("GET", path, "").await);
    assert_eq!(first.header("content-type"), "application/zip");
    assert_eq!(first.header("content-disposition"), "attachment; filename=\"clock-1.0.0.zip\"");
    assert_eq!(first.header("skep-digest"), digest);
    assert!(!first.bytes.is_empty() && first.bytes == second.bytes);
    let files = unzip(&first.bytes);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["SKILL.md", "context/about.md", "manifest.json"]);
    assert_eq!(files["context/about.md"], (b"ticks".to_vec(), 0o644));
    let shown = get(&open, "/api/v1/skills/clock/versions/1.0.0").await;
    for file in shown["version"]["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let (bytes, _) = &files[path];
        assert_eq!(file["sha256"], hex::encode(Sha256::digest(bytes)), "{path}");
        assert_eq!(file["size"], bytes.len());
        let alone = open.call("GET", &format!("/api/v1/skills/clock/file?path={path}"), "").await;
        assert_eq!(&alone.bytes, bytes, "{path}");
    }
    for path in ["nothing", "../clock", "context", "%2e%2e%2fx", "vars.json"] {
        assert_eq!(status(&open, &format!("/api/v1/skills/clock/file?path={path}")).await, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_are_listed_in_the_order_that_is_asked_for_page_by_page() {
    let open = open().await;
    for id in ["b-one", "a-two", "b-three"] {
        put(&open, &skill(id, "1.0.0", "x", &[])).await;
    }
    let newest = slugs(&get(&open, "/api/v1/skills?sort=newest&limit=3").await);
    assert_eq!(newest, ["b-three", "a-two", "b-one"]);
    put(&open, &skill("b-one", "1.1.0", "y", &[])).await;
    for sort in ["", "&sort=updated", "&sort=downloads", "&sort=installsAllTime", "&sort=trending"] {
        let listed = slugs(&get(&open, &format!("/api/v1/skills?limit=1{sort}")).await);
        assert_eq!(listed, ["b-one"], "{sort}");
    }
    assert_eq!(slugs(&get(&open, "/api/v1/skills?prefix=b-").await), ["b-one", "b-three"]);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&open, &format!("/api/v1/skills?sort=name&limit=2&cursor={cursor}")).await;
        seen.extend(slugs(&page));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, slugs(&get(&open, "/api/v1/skills?sort=name&limit=4000000000").await));
    assert!(seen.is_sorted() && seen.len() > 5, "{seen:?}");
    let first = &get(&open, "/api/v1/skills?limit=1").await["items"][0];
    assert_eq!((&first["latestVersion"]["version"], &first["stats"]), (&json!("1.1.0"), &json!({})));
    assert!(first["updatedAt"].as_i64().unwrap() > 1_600_000_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_gives_the_best_first_or_exactly_one() {
    let open = open().await;
    put(&open, &skill("pigeons", "1.0.0", "coo", &[])).await;
    put(&open, &skill("clock", "1.0.0", "frightens pigeons", &[])).await;
    let found = async |q: &str| {
        let found = get(&open, &format!("/api/v1/search?q={q}")).await;
        let results = found["results"].as_array().unwrap().clone();
        assert!(results.is_sorted_by(|a, b| a["score"].as_f64() >= b["score"].as_f64()));
        results.iter().map(|r| r["slug"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("pigeons").await, ["pigeons", "clock"]);
    assert_eq!(found("pigeons&limit=1").await, ["pigeons"]);
    assert_eq!(found("clock&mode=exact").await, ["clock"]);
    for nothing in ["cloc&mode=exact", "", "%00", "%22%22%22"] {
        assert_eq!(found(nothing).await, Vec::<String>::new(), "{nothing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_a_line_of_text_as_clawhub_gives_it() {
    let open = open().await;
    for (path, status, says) in [
        ("/api/v1/skills/nothing", 404, "there is no skill nothing"),
        ("/api/v1/skills/alpha-tols", 404, "did you mean alpha-tools?"),
        ("/api/v1/skills/alpha-tools?ownerHandle=@writer", 404, "of writer"),
        ("/api/v1/skills/alpha-tools/versions/1.2.3", 404, "has no version 1.2.3"),
        ("/api/v1/skills/alpha-tools/versions/one", 400, "\"one\" is no version like 1.2.3"),
        ("/api/v1/download?slug=alpha-tools&tag=beta", 404, "no tag"),
        ("/api/v1/download", 400, "slug"),
        ("/api/v1/search", 400, "q"),
        ("/api/v1/search?q=x&mode=fuzzy", 400, "mode"),
        ("/api/v1/skills?sort=beauty", 400, "sort"),
        ("/api/v1/skills?cursor=!", 400, "cursor"),
        ("/api/v1/resolve?slug=alpha-tools&hash=12", 400, "64 hex digits"),
        ("/api/v1/nowhere", 404, "there is no route"),
    ] {
        let answer = open.call("GET", path, "").await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{path}");
        assert!(answer.body.contains(says) && !answer.body.contains("{\""), "{path}: {answer:?}");
    }
    let owned = open.call("GET", "/api/v1/skills/alpha-tools?ownerHandle=@Operator", "").await;
    assert_eq!((owned.status, &owned.json()["owner"]["handle"]), (200, &json!("operator")));
    assert_eq!(open.call("POST", "/api/v1/skills", "{}").await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_learn_who_they_are_and_where_the_registry_is() {
    let open = open().await;
    let operator = get(&open, "/api/v1/whoami").await;
    assert_eq!(
        (&operator["user"]["handle"], &operator["user"]["role"]),
        (&json!("operator"), &json!("admin"))
    );
    let agent = open.call_as_agent("GET", "/api/v1/whoami", "").await.json();
    assert_eq!((&agent["user"]["handle"], &agent["user"]["role"]), (&json!("writer"), &json!("user")));
    assert_eq!(get(&open, "/.well-known/clawhub.json").await["apiBase"], "http://skep");
    let proxied = [("X-Forwarded-Proto", "https")];
    let place = open.call_with("GET", "/.well-known/clawhub.json", &proxied, "").await.json();
    assert_eq!(place["apiBase"], "https://skep");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_tells_the_digests_of_what_its_urls_give() {
    let open = open().await;
    put(&open, &skill("clock", "1.0.0", "ticks", &[])).await;
    put(&open, &skill("clock", "1.1.0+build.1", "tocks", &[])).await;
    for id in ["odd--name", "odd-"] {
        assert_eq!(put(&open, &skill(id, "1.0.0", "x", &[])).await.status, 201);
    }
    let index = open.call("GET", INDEX, "").await;
    assert_eq!(index.header("content-type"), "application/json");
    let index = index.json();
    assert_eq!(index["$schema"], "https://schemas.agentskills.io/discovery/0.2.0/schema.json");
    let skills = index["skills"].as_array().unwrap();
    let named = |name: &str| skills.iter().find(|s| s["name"] == name);
    assert!(named("odd--name").is_none() && named("odd-").is_none(), "the format forbids such names");
    assert_eq!(named("alpha-tools").unwrap()["type"], "skill-md");
    assert_eq!(named("clock").unwrap()["type"], "archive");
    assert_eq!(named("clock").unwrap()["description"], "clock for tests");
    for skill in skills {
        let url = skill["url"].as_str().unwrap();
        let answer = open.call("GET", url, "").await;
        assert_eq!(answer.status, 200, "{url}");
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&answer.bytes)));
        assert_eq!(skill["digest"], digest, "{url}");
        if skill["type"] == "archive" {
            assert_eq!(answer.header("content-type"), "application/zip");
            assert!(unzip(&answer.bytes).contains_key("SKILL.md"), "{url}");
        } else {
            assert_eq!(answer.header("content-type"), "text/markdown; charset=utf-8");
            assert!(answer.body.starts_with("---\n"), "{url}");
        }
        let head = open.call("HEAD", url, "").await;
        assert_eq!((head.status, head.bytes.len()), (200, 0), "{url}");
    }
    assert_eq!(status(&open, "/.well-known/agent-skills/nothing/1.0.0/SKILL.md").await, 404);
    // What the index told holds when a newer version comes.
    let url = named("clock").unwrap()["url"].as_str().unwrap();
    put(&open, &skill("clock", "1.2.0", "tacks", &[])).await;
    let still = open.call("GET", url, "").await;
    assert_eq!(
        named("clock").unwrap()["digest"],
        format!("sha256:{}", hex::encode(Sha256::digest(&still.bytes)))
    );
}
