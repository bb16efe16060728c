//! Backups: a hive as one file, made while it runs or not, and a hive made of such a file.
//!
//! Works on the hive's files directly, so that it needs no supervisor; whatever it reads is checked, and nothing is
//! changed before all of it was found whole. Blocks: call it on a thread that may.

pub mod archive;
mod contents;
mod pack;
mod restore;
mod sent;
mod unpack;
mod variables;
mod walk;

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Serialize;

pub use self::restore::{RestoreRequest, Restored, restore};
use self::{
    archive::{FORMAT, Head, Kind, Manifest, Note, Writer},
    contents::Contents,
    pack::{Pack, named},
};
use crate::{
    config::model::Config,
    db::{self, DbError},
    paths::HivePaths,
    registry::store::StoreError,
    secrets::{SecretValue, mask::Masker, store::SecretStore},
};

/// Told of each file and its bytes; an error ends the work.
pub type Progress = Box<dyn FnMut(&str, u64) -> io::Result<()> + Send>;

/// Why there is no backup, or no hive of one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It was not begun, or what was read is not whole.
    #[error("{message}")]
    Refused {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// The database cannot be copied or is damaged.
    #[error(transparent)]
    Db(#[from] DbError),
    /// A skill's content is missing or was altered.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl BackupError {
    pub(super) fn refused(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Refused { message: message.into(), help: help.into() }
    }
}

/// What is backed up, and where to.
pub struct BackupRequest {
    /// The hive.
    pub paths: HivePaths,
    /// What its `skep.toml` says.
    pub config: Config,
    /// The file to write.
    pub file: PathBuf,
    /// Secrets, token and secret variables too.
    pub with_secrets: bool,
    /// In place of a file that is there.
    pub replace: bool,
}

/// A backup that was written.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it is.
    pub file: PathBuf,
    /// Its bytes.
    pub size: u64,
    /// Whose it is.
    #[serde(flatten)]
    pub head: Head,
    /// Files in it.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Names of secrets that are set; their values are in it only with secrets.
    pub secrets: Vec<String>,
    /// What is not in it, and why.
    pub left_out: Vec<Note>,
    /// What is in it and not as it should be.
    pub warnings: Vec<Note>,
}

/// Writes a backup; under its name only once it is whole.
///
/// # Errors
/// The file is there already, or something cannot be read, is damaged, or cannot be written.
pub fn create(request: &BackupRequest, progress: Progress) -> Result<Report, BackupError> {
    let file = &request.file;
    if !request.replace && fs::symlink_metadata(file).is_ok() {
        let message = format!("{} is there already", file.display());
        return Err(BackupError::refused(message, "name another file, or add --force to replace it"));
    }
    let folder = file.parent().filter(|f| *f != Path::new("")).unwrap_or(Path::new("."));
    let scratch = tempfile::Builder::new().prefix(".skep-backup-").tempdir_in(folder);
    let scratch = scratch.map_err(|e| named(folder, e))?;
    let half = scratch.path().join("archive");
    let to = File::options().write(true).create_new(true).mode(0o600).open(&half)?;
    let (manifest, warnings) = write(request, scratch.path(), &to, progress)?;
    to.sync_all()?;
    let size = to.metadata()?.len();
    fs::rename(&half, file).map_err(|e| named(file, e))?;
    File::open(folder)?.sync_all()?;
    let (files, bytes) = amount(&manifest);
    let Manifest { head, secrets, left_out, .. } = manifest;
    Ok(Report { file: file.clone(), size, head, files, bytes, secrets, left_out, warnings })
}

fn write(
    request: &BackupRequest,
    scratch: &Path,
    to: &File,
    progress: Progress,
) -> Result<(Manifest, Vec<Note>), BackupError> {
    let (paths, config) = (&request.paths, &request.config);
    let copy = scratch.join("skep.db");
    // Before the files that it names: what is in the store by then stays there while a supervisor runs.
    let database = if paths.database().exists() {
        db::backup::copy(&paths.database(), &copy)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
        Some(db::backup::check(&copy)?)
    } else {
        None
    };
    let created_at = format!("{:.3}", Timestamp::now());
    let store = SecretStore::new(&paths.root, &config.secrets_file);
    let set = store.load().map_err(|e| {
        BackupError::refused(
            format!("the secrets cannot be read, so they cannot be kept out: {e}"),
            "mend the file",
        )
    })?;
    let names = set.secrets.names().into_iter().map(String::from).collect();
    let published = database.as_ref().map(|content| &content.skills[..]).unwrap_or_default();
    let values = (!request.with_secrets).then(|| variables::read(paths, config, published));
    let masker = match &values {
        Some(values) => {
            let token = fs::read_to_string(paths.token()).ok();
            let token = token.and_then(|token| SecretValue::new(token.trim()).ok());
            let set = set.secrets.iter().map(|(_, value)| value);
            Masker::new(set.chain(&values.secrets).chain(&token))
        }
        None => Masker::new([]),
    };
    let head = Head {
        format: FORMAT,
        skep: env!("CARGO_PKG_VERSION").to_owned(),
        hive: config.name.to_string(),
        created_at,
        schema: database.as_ref().map(|content| content.schema),
        with_secrets: request.with_secrets,
    };
    let mut pack = Pack::new(Writer::new(to, head)?, scratch, masker, progress);
    let database = database.as_ref().map(|content| (copy.as_path(), content));
    Contents { paths, config, database, values }.pack(&mut pack)?;
    let Pack { writer, left_out, warnings, .. } = pack;
    let (_, manifest) = writer.finish(names, left_out)?;
    Ok((manifest, warnings))
}

/// Files of a backup and their bytes.
fn amount(manifest: &Manifest) -> (usize, u64) {
    let sizes = manifest.entries.iter().filter_map(|entry| match entry.kind {
        Kind::File { size, .. } => Some(size),
        _ => None,
    });
    sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}
