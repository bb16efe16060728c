//! What of a hive is in its backup, and where it stands.
//!
//! Not in it is what skep makes anew (views, sockets, programs, the view file of the registry), what belongs to this
//! machine (containers, images, locks, skep's own log), and, unless asked for, secrets.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Component, Path},
};

use super::{
    BackupError,
    pack::{Pack, Tree, Whose, named},
    variables::Values,
};
use crate::{
    config::model::{Config, Workspace},
    db::backup::Content,
    ids::AgentId,
    paths::HivePaths,
    registry::store::Store,
};

/// Of a folder without a limit of its own, so many bytes are taken.
const MAX_TREE: u64 = 64 << 30;

/// A path in the hive, relative and plain; none when it is outside, or the hive itself.
pub(super) fn inside(root: &Path, path: &Path) -> Option<String> {
    let relative = if path.is_absolute() { path.strip_prefix(root).ok()? } else { path };
    let mut parts = Vec::new();
    for part in relative.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_str()?),
            _ => return None,
        }
    }
    Some(parts.join("/"))
}

/// What a backup is made of.
pub(super) struct Contents<'a> {
    pub paths: &'a HivePaths,
    pub config: &'a Config,
    /// The database's copy and what it names; none: the hive had none yet.
    pub database: Option<(&'a Path, &'a Content)>,
    /// None when secrets are taken, and with them the files as they are.
    pub values: Option<Values>,
}

impl Contents<'_> {
    /// Puts everything into the archive.
    pub(super) fn pack(&self, pack: &mut Pack<'_>) -> Result<(), BackupError> {
        self.files(pack)?;
        self.values(pack)?;
        self.sources(pack)?;
        self.agents(pack)?;
        if let Some((copy, content)) = self.database {
            pack.above(&self.paths.root, ".skep/skep.db")?;
            pack.one(copy, ".skep/skep.db")?;
            self.store(pack, content)?;
            self.folder(pack, ".skep/mail", Whose::Ours, MAX_TREE)?;
        }
        Ok(())
    }

    /// The files of the operator's that have a name, and with secrets those too.
    fn files(&self, pack: &mut Pack<'_>) -> Result<(), BackupError> {
        let (root, config) = (&self.paths.root, self.config);
        let souls = config.agents.values().filter_map(|agent| agent.soul.as_deref());
        let bundle = config.ca_bundle.as_deref();
        let mut files: Vec<&Path> = ["skep.toml", "skep.lock", ".gitignore"].map(Path::new).to_vec();
        files.extend(souls.chain(bundle));
        let token = self.paths.token();
        if self.values.is_none() {
            files.extend([Path::new("variables.json"), &config.secrets_file, &token]);
        }
        for file in files {
            let at = self.paths.resolve(file);
            match inside(root, file) {
                Some(path) if at.exists() => {
                    pack.above(root, &path)?;
                    pack.one(&at, &path)?;
                }
                Some(_) => {}
                None => {
                    pack.leave_out(file.as_os_str().as_encoded_bytes(), "it is outside of the hive's folder");
                }
            }
        }
        Ok(())
    }

    fn values(&self, pack: &mut Pack<'_>) -> Result<(), BackupError> {
        let Some(values) = &self.values else { return Ok(()) };
        for (path, (meta, bytes)) in &values.files {
            pack.above(&self.paths.root, path)?;
            pack.instead(meta, path, bytes)?;
        }
        pack.left_out.extend(values.left_out.iter().cloned());
        Ok(())
    }

    fn sources(&self, pack: &mut Pack<'_>) -> Result<(), BackupError> {
        let root = &self.paths.root;
        for source in &self.config.registry.sources {
            match inside(root, source) {
                Some(path) => self.folder(pack, &path, Whose::Ours, MAX_TREE)?,
                None => pack.leave_out(
                    source.as_os_str().as_encoded_bytes(),
                    "this source is outside of the hive's folder; what was registered from it is in the store",
                ),
            }
        }
        self.folder(pack, "secrets.example", Whose::Ours, 1 << 20)
    }

    fn agents(&self, pack: &mut Pack<'_>) -> Result<(), BackupError> {
        let folders = match fs::read_dir(self.paths.agents()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| named(&self.paths.agents(), e))?,
        };
        let names: BTreeSet<String> =
            folders.filter_map(|folder| folder.ok()?.file_name().into_string().ok()).collect();
        for id in names.iter().filter_map(|name| name.parse::<AgentId>().ok()) {
            let agent = self.config.agents.get(&id);
            // Twice: an agent above its limit is paused, not cut short.
            let most = agent.map_or(MAX_TREE, |agent| agent.disk.saturating_mul(2));
            for (name, whose) in [("custom", Whose::Skills), ("workspace", Whose::Agent)] {
                self.folder(pack, &format!(".skep/agents/{id}/{name}"), whose, most)?;
            }
            self.folder(pack, &format!(".skep/agents/{id}/runs"), Whose::Output, MAX_TREE)?;
            if let Some(Workspace::Path(path)) = agent.map(|agent| &agent.workspace)
                && let Some(path) = inside(&self.paths.root, path)
            {
                self.folder(pack, &path, Whose::Agent, most)?;
            }
        }
        Ok(())
    }

    /// A folder of the hive, when it is there.
    fn folder(&self, pack: &mut Pack<'_>, path: &str, whose: Whose, most: u64) -> Result<(), BackupError> {
        let top = self.paths.root.join(path);
        match fs::symlink_metadata(&top) {
            Ok(meta) if meta.is_dir() => {}
            Ok(meta) if meta.is_symlink() => {
                pack.leave_out(path.as_bytes(), "it is a link, and links are not followed");
                return Ok(());
            }
            _ => return Ok(()),
        }
        pack.above(&self.paths.root, path)?;
        let skip = |inner: &[u8]| self.skipped(path, inner);
        pack.tree(&Tree { top: &top, path, whose, most, skip: &skip })?;
        Ok(())
    }

    /// What belongs to another part of the hive, or to none.
    fn skipped(&self, tree: &str, path: &[u8]) -> bool {
        if tree.starts_with(".skep/") {
            return false;
        }
        let secrets = inside(&self.paths.root, &self.config.secrets_file);
        let is_secrets = secrets.is_some_and(|secrets| secrets.as_bytes() == path);
        let valued = self.values.as_ref().is_some_and(|values| {
            let names = values.files.keys().chain(values.left_out.iter().map(|note| &note.path));
            names.map(String::as_bytes).any(|name| name == path)
        });
        is_secrets || valued || path == b".skep" || path.ends_with(b"/.git") || path == b".git"
    }

    fn store(&self, pack: &mut Pack<'_>, content: &Content) -> Result<(), BackupError> {
        let store = Store::open(&self.paths.store())?;
        for digest in &content.digests {
            store.verify(digest)?;
            let top = store.path(digest);
            let Some(path) = inside(&self.paths.root, &top) else { continue };
            pack.above(&self.paths.root, &path)?;
            pack.tree(&Tree {
                top: &top,
                path: &path,
                whose: Whose::Ours,
                most: u64::MAX - 1,
                skip: &|_| false,
            })?;
        }
        Ok(())
    }
}
