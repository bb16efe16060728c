//! The folders and files of one agent on the host that its container mounts.
//!
//! What the agent can write (`custom`, the workspace) is only ever made, never looked into, here.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use crate::{
    config::model::{Agent as AgentConfig, Workspace},
    init::module,
    paths::{AgentDir, HivePaths},
    sandbox::{spec, workspace},
    wire::spool,
};

/// Bytes kept of `main`'s output, per container.
pub const MAIN_SPOOL: spool::Bounds = spool::Bounds { head: 0, tail: 16 << 20 };

/// Where agent programs find the agent's MCP server, as most of them read it (`mcpServers`).
const MCP_CONFIG: &str = "{\"mcpServers\":{\"skep\":{\"command\":\"/skep/bin/skep\",\"args\":[\"mcp\"]}}}\n";

fn told(what: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let what = what.display().to_string();
    move |e| io::Error::new(e.kind(), format!("{what}: {e}"))
}

/// Makes a folder with this mode where it is missing.
fn folder(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(told(path))
}

/// Makes everything that the container mounts and answers the host paths.
///
/// # Errors
/// Of the file system, naming the path.
pub fn lay(
    paths: &HivePaths,
    dir: &AgentDir,
    agent: &AgentConfig,
    user: (u32, u32),
    privileged: bool,
    init: &Path,
) -> io::Result<spec::AgentPaths> {
    folder(&dir.root, 0o755)?;
    let door = [dir.skep(), dir.skep().join("bin"), dir.skep().join(spec::MODULE)];
    for path in door.into_iter().chain([dir.root.join("etc"), dir.view(), dir.view().join("custom")]) {
        folder(&path, 0o755)?;
    }
    folder(&dir.root.join("spool"), 0o700)?;
    let owner = privileged.then_some(workspace::Owner { uid: user.0, gid: user.1 });
    owned_folder(&dir.custom(), owner)?;
    let workspace = match &agent.workspace {
        Workspace::Named => {
            owned_folder(&dir.workspace(), owner)?;
            Some(dir.workspace())
        }
        Workspace::Tmpfs => None,
        Workspace::Path(path) => {
            workspace::make_workspace(&paths.root, path, owner)?;
            Some(paths.resolve(path))
        }
    };
    link_init(init, &dir.skep().join("init"))?;
    link_init(init, &dir.skep().join("bin/skep"))?;
    replace_file(&dir.skep().join("mcp.json"), MCP_CONFIG.as_bytes())?;
    for (name, content) in module::FILES {
        replace_file(&dir.skep().join(spec::MODULE).join(name), content.as_bytes())?;
    }
    write_if_changed(&dir.passwd(), spec::passwd_file(user.0, user.1).as_bytes())?;
    write_if_changed(&dir.group(), spec::group_file(user.1).as_bytes())?;
    Ok(spec::AgentPaths {
        skep: dir.skep(),
        view: dir.view(),
        custom: dir.custom(),
        workspace,
        soul: agent.soul.is_some().then(|| dir.soul()),
        passwd: dir.passwd(),
        group: dir.group(),
    })
}

/// A folder that belongs to the agent; its owner is set when it is made, so that no link is ever followed.
fn owned_folder(path: &Path, owner: Option<workspace::Owner>) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o750).create(path) {
        Ok(()) => owner.map_or(Ok(()), |o| chown(path, Some(o.uid), Some(o.gid)).map_err(told(path))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(told(path)(e)),
    }
}

/// A hard link, so that all agents share one inode and its pages; a new version takes the old one's place.
fn link_init(init: &Path, target: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let inode = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    if inode(init) == inode(target) {
        return Ok(());
    }
    let temporary = target.with_extension("new");
    fs::remove_file(&temporary).or_else(missing_is_fine).map_err(told(&temporary))?;
    fs::hard_link(init, &temporary).map_err(told(&temporary))?;
    fs::rename(&temporary, target).map_err(told(target))
}

fn missing_is_fine(e: io::Error) -> io::Result<()> {
    if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) }
}

/// Writes a file that containers bind by its inode: in place, and only when it says something else.
///
/// # Errors
/// Of the file system, naming the path.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(false);
    }
    fs::write(path, bytes).map_err(told(path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(told(path))?;
    Ok(true)
}

/// Replaces a file that is found by name inside a mounted folder, as a whole.
///
/// # Errors
/// Of the file system, naming the path.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let temporary = path.with_extension("new");
    fs::write(&temporary, bytes).map_err(told(&temporary))?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o644)).map_err(told(&temporary))?;
    fs::rename(&temporary, path).map_err(told(path))
}

/// The three segments of `main`'s spool, `current` or the one before it.
#[must_use]
pub fn main_segments(dir: &AgentDir, previous: bool) -> [PathBuf; 3] {
    let suffix = if previous { "previous." } else { "" };
    [0, 1, 2].map(|i| dir.main_spool().with_extension(format!("{suffix}{i}")))
}

/// Puts the output of the last `main` aside and opens a new spool for the next.
///
/// # Errors
/// Of the file system.
pub fn open_main_spool(dir: &AgentDir) -> io::Result<Vec<std::os::fd::OwnedFd>> {
    for (now, before) in main_segments(dir, false).iter().zip(main_segments(dir, true)) {
        fs::rename(now, &before).or_else(missing_is_fine).map_err(told(now))?;
    }
    main_segments(dir, false)
        .iter()
        .map(|path| {
            let mut options = fs::File::options();
            options.read(true).write(true).create_new(true);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(path).map(Into::into).map_err(told(path))
        })
        .collect()
}
