//! A skill's folder as the archive that it is registered with: tar (ustar), gzip without compression.
//!
//! Regular files alone; a link or a device in the folder is an error, as the supervisor would refuse it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::Failure;

/// What a skill may hold at most; the supervisor checks more.
const MAX_BYTES: usize = 64 << 20;
const BLOCK: usize = 512;

/// Packs a folder.
pub fn pack(folder: &Path) -> Result<Vec<u8>, Failure> {
    let mut tar = Vec::new();
    add(folder, "", &mut tar)?;
    if tar.is_empty() {
        return Err(Failure::Failed(format!("{} holds no files", folder.display())));
    }
    tar.resize(tar.len() + 2 * BLOCK, 0);
    Ok(gzip(&tar))
}

fn add(folder: &Path, inner: &str, tar: &mut Vec<u8>) -> Result<(), Failure> {
    let told = |e: std::io::Error| Failure::Failed(format!("{}: {e}", folder.join(inner).display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join(inner)).map_err(told)? {
        names.push(entry.map_err(told)?.file_name());
    }
    names.sort();
    for name in names {
        let name = name.to_str().ok_or_else(|| Failure::Failed(format!("{name:?} is not UTF-8")))?;
        let path = if inner.is_empty() { name.to_owned() } else { format!("{inner}/{name}") };
        let at = folder.join(&path);
        let meta = fs::symlink_metadata(&at).map_err(told)?;
        if meta.is_dir() {
            if name != ".git" {
                add(folder, &path, tar)?;
            }
        } else if meta.is_file() {
            let bytes = fs::read(&at).map_err(told)?;
            if tar.len() + bytes.len() > MAX_BYTES {
                return Err(Failure::Failed(format!("the folder is larger than {MAX_BYTES} bytes")));
            }
            let header = header(&path, bytes.len(), meta.permissions().mode() & 0o100 != 0);
            tar.extend(header.ok_or_else(|| Failure::Failed(format!("the path {path} is too long")))?);
            tar.extend(&bytes);
            tar.resize(tar.len().next_multiple_of(BLOCK), 0);
        } else {
            return Err(Failure::Failed(format!("{path} is neither a file nor a folder")));
        }
    }
    Ok(())
}

fn header(path: &str, size: usize, executable: bool) -> Option<[u8; BLOCK]> {
    let (prefix, name) = if path.len() <= 100 {
        ("", path)
    } else {
        let slash = path.bytes().enumerate().find(|(i, b)| *b == b'/' && path.len() - i - 1 <= 100)?.0;
        (&path[..slash], &path[slash + 1..])
    };
    if prefix.len() > 155 {
        return None;
    }
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, if executable { "0000755" } else { "0000644" });
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    put(345, prefix);
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Some(block)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    const MOST: usize = u16::MAX as usize;
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let count = bytes.len().div_ceil(MOST);
    for (i, piece) in bytes.chunks(MOST).enumerate() {
        let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
        out.push(u8::from(i + 1 == count));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(piece);
    }
    let crc = bytes.iter().fold(u32::MAX, |crc, b| {
        (0..8).fold(crc ^ u32::from(*b), |c, _| if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 })
    });
    out.extend((!crc).to_le_bytes());
    out.extend(u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(0).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_takes_long_paths_apart_and_refuses_what_does_not_fit() {
        let long = format!("{}/{}", "a".repeat(120), "b".repeat(90));
        let block = header(&long, 5, true).unwrap();
        assert_eq!(&block[345..465], "a".repeat(120).as_bytes());
        assert_eq!(&block[..90], "b".repeat(90).as_bytes());
        assert_eq!(&block[124..135], b"00000000005");
        assert!(header(&"c".repeat(101), 0, false).is_none());
        assert!(header(&format!("{}/x", "d".repeat(156)), 0, false).is_none());
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        let packed = gzip(b"123456789");
        assert_eq!(packed[packed.len() - 8..], [0x26, 0x39, 0xf4, 0xcb, 9, 0, 0, 0]);
    }
}
