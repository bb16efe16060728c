//! The init program that `skep` carries inside, put where containers can mount it.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/skep-init"));

/// Writes the init below `folder` under the name of its hash, once; every agent hard-links that file,
/// so that its pages are shared by all.
///
/// # Errors
/// Of the file system.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let name = format!("skep-init-{}", &hex::encode(Sha256::digest(INIT))[..16]);
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|there| there == INIT) {
        return Ok(path);
    }
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, INIT)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o555))?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|e| e.error)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of the ELF program headers (64 bit).
    fn program_headers() -> Vec<u32> {
        let number = |at: usize, size: usize| {
            INIT[at..at + size].iter().rev().fold(0usize, |n, b| n << 8 | usize::from(*b))
        };
        let (start, size, count) = (number(32, 8), number(54, 2), number(56, 2));
        (0..count).map(|i| number(start + i * size, 4) as u32).collect()
    }

    #[test]
    fn the_embedded_init_is_a_static_program_installed_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = install(folder.path()).unwrap();
        let modified = fs::metadata(&first).unwrap().modified().unwrap();
        assert_eq!(install(folder.path()).unwrap(), first);
        assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), modified);
        assert!(INIT.starts_with(b"\x7fELF"));
        assert!(!program_headers().contains(&3), "PT_INTERP: it must need no loader");
        assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o555);
    }
}
