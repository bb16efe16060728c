//! Builds `skep-init` by itself, statically linked, so that `skep` can carry it inside.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_HOST").is_none() {
        return;
    }
    for path in ["src/bin/skep-init", "src/wire", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let init = build_init(&out);
    let embedded = out.join("skep-init");
    fs::copy(&init, &embedded).unwrap_or_else(|e| panic!("cannot copy {}: {e}", init.display()));
}

fn build_init(out: &Path) -> PathBuf {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let target_dir = out.join("init-target");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .args(["build", "--no-default-features", "--features", "init", "--bin", "skep-init"])
        .args(["--profile", "init", "--target", &target])
        .arg("--target-dir")
        .arg(&target_dir)
        .current_dir(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    // The outer build's settings are not the inner one's: flags, wrappers, the shared build folder.
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let outer = ["CARGO", "RUSTFLAGS", "RUSTC", "RUSTDOC", "CLIPPY"].iter().any(|p| text.starts_with(p));
        if (outer && text != "CARGO_HOME") || text == "LLVM_PROFILE_FILE" || text == "__CARGO_FIX_PLZ" {
            cargo.env_remove(&name);
        }
    }
    if let Some(offline) = env::var_os("CARGO_NET_OFFLINE") {
        cargo.env("CARGO_NET_OFFLINE", offline);
    }
    cargo
        .env("CARGO_BUILD_BUILD_DIR", target_dir.join("build"))
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    if Path::new("Cargo.lock").exists() {
        cargo.arg("--locked");
    }
    let status = cargo.status().unwrap_or_else(|e| panic!("cannot run cargo for skep-init: {e}"));
    assert!(
        status.success(),
        "skep-init did not build. It is linked statically: on Debian and Ubuntu that needs libc6-dev, on Fedora \
         glibc-static"
    );
    target_dir.join(&target).join("init").join("skep-init")
}
