use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::fake::{FakeEngine, Op};

fn images(engine: &Arc<FakeEngine>) -> Images {
    let options = BuildOptions { ca_bundle: Some("none".into()), ..BuildOptions::default() };
    Images::new(engine.clone(), options)
}

fn progress() -> mpsc::Sender<String> {
    mpsc::channel(64).0
}

#[test]
fn the_whole_folder_of_the_agent_image_is_carried() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("images/agent");
    let mut found: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n != "ca-bundle.crt")
        .collect();
    found.sort();
    assert_eq!(found, agent::FOLDER.map(|(path, _, _)| path));
    for (path, executable, _) in agent::FOLDER {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o100 != 0, executable, "{path}");
    }
}

#[tokio::test]
async fn the_default_image_is_built_once_and_again_only_when_its_base_changes() {
    let engine = Arc::new(FakeEngine::new());
    engine.add_image("skep-base:bookworm", "sha256:base");
    let images = images(&engine);
    let first = images.ensure("skep-agent", &progress()).await.unwrap();
    let second = images.ensure(DEFAULT_IMAGE, &progress()).await.unwrap();
    assert_eq!(first, second);
    engine.add_image("skep-base:bookworm", "sha256:other");
    let third = images.ensure(DEFAULT_IMAGE, &progress()).await.unwrap();
    assert_ne!(first.id, third.id);
    let calls = engine.take_calls();
    let builds = calls.iter().filter(|c| c.starts_with("build ")).count();
    assert_eq!(builds, 2, "{calls:?}");
}

#[test]
fn a_certificate_that_is_not_trusted_gets_a_remedy() {
    let failed = "SSL: CERTIFICATE_VERIFY_FAILED certificate verify failed";
    assert!(with_hint(failed.to_owned()).contains("ca_bundle"));
    assert_eq!(with_hint("disk full".to_owned()), "disk full");
}

#[tokio::test]
async fn an_outage_stays_an_outage_and_a_missing_image_gets_a_remedy() {
    let engine = Arc::new(FakeEngine::new());
    let images = images(&engine);
    let error = images.ensure("skep-codex:latest", &progress()).await.unwrap_err();
    insta::assert_snapshot!(error, @"image skep-codex:latest is not there and cannot be pulled (pulling skep-codex:latest: there is no registry); build it with images/build.sh codex");
    engine.outage(true);
    let error = images.ensure("x", &progress()).await.unwrap_err();
    assert!(matches!(error, ImageError::Engine(EngineError::Unavailable(_))));
}

#[tokio::test]
async fn agents_that_ask_for_the_same_packages_at_once_share_one_build() {
    let engine = Arc::new(FakeEngine::new());
    engine.add_image("i", "sha256:i");
    let images = Arc::new(images(&engine));
    let base = engine.image("i").await.unwrap();
    let requests = PackageRequests::from([("jq".to_owned(), BTreeSet::from(["s".to_owned()]))]);
    let work = (0..8).map(|_| {
        let (images, base, requests) = (images.clone(), base.clone(), requests.clone());
        tokio::spawn(async move { images.with_packages("i", &base, &requests, &progress()).await })
    });
    let mut tags = BTreeSet::new();
    for work in work.collect::<Vec<_>>() {
        tags.insert(work.await.unwrap().unwrap().0);
    }
    assert_eq!(tags.len(), 1);
    let calls = engine.take_calls();
    let builds = calls.iter().filter(|c| c.starts_with("build ")).count();
    assert_eq!(builds, 1, "{calls:?}");
    let none = PackageRequests::new();
    let same = images.with_packages("i", &base, &none, &progress()).await;
    assert_eq!(same.unwrap().0, "i");
}

#[tokio::test]
async fn waiters_share_a_failure_and_the_next_caller_tries_anew() {
    let engine = Arc::new(FakeEngine::new());
    let images = images(&engine);
    let runs = AtomicUsize::new(0);
    let fail = || async {
        runs.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        Err(ImageError::Agent("no".to_owned()))
    };
    let (a, b) = tokio::join!(images.once("k", fail()), images.once("k", fail()));
    assert!(a.is_err() && b.is_err());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(images.once("k", fail()).await.is_err());
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn node_is_looked_up_once_for_each_image() {
    let engine = Arc::new(FakeEngine::new());
    engine.answer_probe("sha256:a", "v24.19.0\n");
    let images = images(&engine);
    engine.fail_next(Op::Probe, 1, &EngineError::Unavailable("x".to_owned()));
    assert!(images.node_version("sha256:a").await.is_err());
    for _ in 0..2 {
        let version = images.node_version("sha256:a").await.unwrap();
        assert_eq!(version, Some(Version::new(24, 19, 0)));
    }
    assert_eq!(images.node_version("sha256:b").await.unwrap(), None);
    assert_eq!(engine.take_calls().len(), 3);
}

#[tokio::test]
async fn pruning_spares_layers_that_are_kept_or_in_use() {
    let engine = Arc::new(FakeEngine::new());
    for name in ["a", "b", "c"] {
        let image = ImageInfo {
            id: format!("sha256:{name}"),
            tags: vec![format!("skep-layer:{name}")],
            labels: BTreeMap::from([(LABEL_LAYER.to_owned(), name.to_owned())]),
            ..ImageInfo::default()
        };
        engine.put_image(&format!("skep-layer:{name}"), image);
    }
    let mut spec = crate::sandbox::spec::example();
    (spec.image, spec.image_id) = ("skep-layer:c".to_owned(), "sha256:c".to_owned());
    engine.create(&spec, "x").await.unwrap();
    let keep = BTreeSet::from(["skep-layer:a".to_owned()]);
    let removed = images(&engine).prune(&keep).await.unwrap();
    assert_eq!(removed, ["skep-layer:b"]);
}

#[test]
fn the_digest_of_the_inputs_is_the_one_that_the_build_script_computes() {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("images");
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle");
    for content in ["", "-----BEGIN CERTIFICATE-----\n"] {
        std::fs::write(&bundle, content).unwrap();
        let output = std::process::Command::new("bash")
            .args(["-c", r#"eval "$(sed -n '/^inputs()/,/^}/p' "$1/build.sh")"; LC_ALL=C inputs "$1/agent" sha256:base "$2""#])
            .args(["test".as_ref(), images.as_os_str(), bundle.as_os_str()])
            .output()
            .unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        let ours = agent::inputs(&agent::FOLDER, "sha256:base", content.as_bytes());
        assert_eq!(script.trim(), ours, "{output:?}", output = output.stderr);
    }
}

#[tokio::test]
async fn containers_trust_the_hosts_certificates_and_the_configured_ones() {
    let engine = Arc::new(FakeEngine::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.pem");
    let options = |ca_bundle| BuildOptions { ca_bundle, ..BuildOptions::default() };
    let none = Images::new(engine.clone(), options(None)).container_bundle().await;
    assert_eq!(none.unwrap(), None);
    let images = Images::new(engine, options(Some(file.clone())));
    let error = images.container_bundle().await.unwrap_err().to_string();
    assert!(error.contains("proxy.pem") && error.contains("Remedy"), "{error}");
    std::fs::write(&file, "OUR CERTIFICATE\n").unwrap();
    let bundle = images.container_bundle().await.unwrap().unwrap();
    assert!(bundle.ends_with(b"\nOUR CERTIFICATE\n"));
}
