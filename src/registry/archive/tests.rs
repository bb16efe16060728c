//! Archives as people, tools and attackers make them.

use std::io::{Cursor, Write as _};

use proptest::prelude::*;
use zip::write::SimpleFileOptions;

use super::*;

const SKILL: &[u8] = b"---\nname: one\ndescription: Does one thing.\n---\nBody\n";
const FORMATS: [Format; 4] = [Format::Tar, Format::TarGz, Format::TarZst, Format::Zip];

struct Bench {
    dir: tempfile::TempDir,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        Self { dir, store }
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Staged, CopyError> {
        let format = Format::detect(bytes).expect("an archive");
        unpack(bytes, format, &self.store, &SkillLimits::default())
    }

    fn refusal(&self, bytes: &[u8]) -> String {
        let told = self.unpack(bytes).expect_err("it is refused").to_string();
        assert_eq!(std::fs::read_dir(self.store.staging()).unwrap().count(), 0, "nothing stays behind");
        told
    }

    fn outside(&self) -> usize {
        walkdir::WalkDir::new(self.dir.path())
            .into_iter()
            .flatten()
            .filter(|e| e.file_type().is_file())
            .count()
    }
}

/// One header and its content.
struct Piece<'a> {
    name: &'a [u8],
    kind: tar::EntryType,
    mode: u32,
    content: &'a [u8],
    link: &'a str,
}

fn file<'a>(name: &'a str, content: &'a [u8]) -> Piece<'a> {
    Piece { name: name.as_bytes(), kind: tar::EntryType::Regular, mode: 0o644, content, link: "" }
}

fn of_kind(name: &str, kind: tar::EntryType) -> Piece<'_> {
    Piece { kind, link: "/etc/passwd", ..file(name, b"") }
}

/// A tar with exactly these names, whatever they are.
fn tar_of(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..piece.name.len()].copy_from_slice(piece.name);
        header.set_entry_type(piece.kind);
        header.set_mode(piece.mode);
        header.set_size(piece.content.len() as u64);
        if !piece.link.is_empty() {
            header.set_link_name_literal(piece.link).unwrap();
        }
        header.set_cksum();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(piece.content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn zip_of(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, content) in files {
        zip.start_file(*name, SimpleFileOptions::default().unix_permissions(*mode)).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn made(format: Format, files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let tar =
        || tar_of(&files.iter().map(|(n, mode, c)| Piece { mode: *mode, ..file(n, c) }).collect::<Vec<_>>());
    match format {
        Format::Tar => tar(),
        Format::TarGz => gzip(&tar()),
        Format::TarZst => zstd::encode_all(tar().as_slice(), 3).unwrap(),
        Format::Zip => zip_of(files),
    }
}

#[test]
fn every_format_is_told_by_its_bytes_and_gives_the_same_skill() {
    let bench = Bench::new();
    let files = [("SKILL.md", 0o644, SKILL), ("scripts/run.sh", 0o755, b"#!/bin/sh\n".as_slice())];
    let digests: Vec<_> = FORMATS
        .iter()
        .map(|format| {
            let bytes = made(*format, &files);
            assert_eq!(Format::detect(&bytes), Some(*format));
            let staged = bench.unpack(&bytes).unwrap();
            assert_eq!(staged.source().skill_md.as_deref(), Some(SKILL));
            assert!(staged.source().files["scripts/run.sh"].executable);
            assert!(!staged.source().files["SKILL.md"].executable);
            staged.digest()
        })
        .collect();
    assert!(digests.iter().all(|d| *d == digests[0]));
    assert_eq!(Format::detect(b"# A skill\n"), None);
    assert_eq!(Format::detect(&[0; 1024]), None);
}

#[test]
fn one_common_top_folder_is_left_away_and_so_are_traces_of_tools() {
    let bench = Bench::new();
    let expected =
        bench.unpack(&made(Format::Tar, &[("SKILL.md", 0o644, SKILL), ("a/b", 0o644, b"x")])).unwrap();
    for format in FORMATS {
        let files: &[(&str, u32, &[u8])] = &[
            ("repo-1a2b/SKILL.md", 0o644, SKILL),
            ("repo-1a2b/a/b", 0o644, b"x"),
            ("repo-1a2b/.git/HEAD", 0o644, b"x"),
            ("repo-1a2b/.DS_Store", 0o644, b"x"),
            ("repo-1a2b/vars.json", 0o644, b"{}"),
            ("repo-1a2b/._SKILL.md", 0o644, b"x"),
            ("__MACOSX/repo-1a2b/._SKILL.md", 0o644, b"x"),
            ("._repo-1a2b", 0o644, b"x"),
        ];
        let all = if format == Format::Zip { files } else { &files[..7] };
        let staged = bench.unpack(&made(format, all)).unwrap();
        assert_eq!(staged.digest(), expected.digest(), "{format}: {:?}", staged.source().files.keys());
    }
    let dotted = tar_of(&[
        of_kind("./", tar::EntryType::Directory),
        of_kind("./a/", tar::EntryType::Directory),
        file("./a/b", b"x"),
        file("./SKILL.md", SKILL),
    ]);
    assert_eq!(bench.unpack(&dotted).unwrap().digest(), expected.digest());
}

#[test]
fn what_leads_out_or_deceives_is_refused_by_entry_and_rule() {
    let bench = Bench::new();
    let before = bench.outside();
    for (name, rule) in [
        ("/etc/cron.d/x", "/etc/cron.d/x: the name is absolute"),
        ("../x", "../x: the name leads out of its folder"),
        ("a/../../x", "a/../../x: the name leads out of its folder"),
        ("a//b", "a//b: the name is empty"),
        ("a/./b", "a/./b: the name leads out of its folder"),
        ("a\\..\\b", "a\\\\..\\\\b: the name holds a backslash"),
        ("C:\\b", "C:\\\\b: the name holds a backslash"),
        ("a\nb", "a\\nb: the name holds control characters"),
        ("gpj.\u{202e}exe", "gpj.\\u{202e}exe: the name holds control characters"),
    ] {
        let tar = tar_of(&[file("SKILL.md", SKILL), file(name, b"x")]);
        for bytes in [tar.clone(), gzip(&tar)] {
            let told = bench.refusal(&bytes);
            assert!(told.contains(rule), "{told}");
        }
        let told = bench.refusal(&zip_with_name(name));
        assert!(told.contains(rule), "{told}");
    }
    assert_eq!(bench.outside(), before, "nothing was written");
}

/// A zip whose second entry has this name, which the writer itself might change.
fn zip_with_name(name: &str) -> Vec<u8> {
    let stand_in = "z".repeat(name.len());
    let mut bytes = zip_of(&[("SKILL.md", 0o644, SKILL), (&stand_in, 0o644, b"x")]);
    let at: Vec<usize> = bytes
        .windows(name.len())
        .enumerate()
        .filter(|(_, w)| *w == stand_in.as_bytes())
        .map(|(i, _)| i)
        .collect();
    assert_eq!(at.len(), 2);
    for at in at {
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    }
    bytes
}

#[test]
fn only_files_and_folders_are_taken() {
    use tar::EntryType as T;
    let bench = Bench::new();
    for (kind, rule) in [
        (T::Symlink, "is a link"),
        (T::Link, "is a hard link"),
        (T::Char, "is a device"),
        (T::Block, "is a device"),
        (T::Fifo, "is a FIFO"),
        (T::GNUSparse, "is a sparse file"),
        (T::new(b'V'), "is neither a file nor a folder"),
    ] {
        let told = bench.refusal(&tar_of(&[file("SKILL.md", SKILL), of_kind("thing", kind)]));
        assert!(told.contains(&format!("thing: {rule}")), "{told}");
    }
    let setuid = Piece { mode: 0o4755, ..file("thing", b"x") };
    assert!(bench.refusal(&tar_of(&[file("SKILL.md", SKILL), setuid])).contains("thing: is setuid"));
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("thing", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let told = bench.refusal(&zip.finish().unwrap().into_inner());
    assert!(told.contains("thing: is a link"), "{told}");
}

#[test]
fn an_entry_that_is_there_twice_is_refused_and_case_alone_is_not() {
    let bench = Bench::new();
    let twice = tar_of(&[file("SKILL.md", SKILL), file("a", b"good"), file("./a", b"evil")]);
    assert!(bench.refusal(&twice).contains("a: is there twice"));
    let both = tar_of(&[file("SKILL.md", SKILL), file("a", b"x"), file("a/b", b"y")]);
    assert!(bench.refusal(&both).contains("a: is a file and a folder at once"));
    let both = tar_of(&[file("SKILL.md", SKILL), file("a", b"x"), of_kind("a/", tar::EntryType::Directory)]);
    assert!(bench.refusal(&both).contains("a: is a file and a folder at once"));
    // In a folder they are two files, too; the check of the skill warns.
    let case = tar_of(&[file("SKILL.md", SKILL), file("a", b"x"), file("A", b"y")]);
    assert_eq!(bench.unpack(&case).unwrap().source().files.len(), 3);
    // Both entries of a zip under one name.
    let mut zip = zip_of(&[("SKILL.md", 0o644, SKILL), ("a", 0o644, b"x"), ("b", 0o644, b"y")]);
    let local = zip.windows(4).rposition(|w| w == b"PK\x03\x04").unwrap();
    zip[local + 30] = b'a';
    let central = zip.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    zip[central + 46] = b'a';
    let told = bench.refusal(&zip);
    assert!(told.contains("duplicate file names"), "{told}");
}

#[test]
fn a_second_root_beside_a_skill_is_named() {
    let bench = Bench::new();
    let told = bench.refusal(&tar_of(&[file("one/SKILL.md", SKILL), file("two/SKILL.md", SKILL)]));
    assert!(told.contains("two/SKILL.md: stands beside the folder one"), "{told}");
    let many = unpack_many(
        tar_of(&[
            file("r/one/SKILL.md", SKILL),
            file("r/two/SKILL.md", SKILL),
            of_kind("r/l", tar::EntryType::Symlink),
        ])
        .as_slice(),
        &bench.store,
        &SkillLimits::default(),
    )
    .unwrap();
    let paths: Vec<_> = many.staged.source().files.keys().cloned().collect();
    assert_eq!(paths, ["one/SKILL.md", "two/SKILL.md"]);
    assert_eq!(many.left_out[0].to_string(), "l: is a link; put the file itself there");
}

#[test]
fn bombs_meet_the_caps_in_every_format() {
    let bench = Bench::new();
    let limits = SkillLimits { files: 10, total: 100_000, file: 50_000, manifest: 10_000 };
    let big = vec![0; 50_001];
    let part = vec![0; 50_000];
    for format in FORMATS {
        let refused = |files: &[(&str, u32, &[u8])]| {
            let bytes = made(format, files);
            unpack(bytes.as_slice(), format, &bench.store, &limits).expect_err("a bomb").to_string()
        };
        let told = refused(&[("SKILL.md", 0o644, SKILL), ("a", 0o644, &big)]);
        assert!(told.contains("a: has 50001 bytes; 50000 are allowed (registry.limits.file)"), "{told}");
        if format != Format::Tar {
            let told = refused(&[("SKILL.md", 0o644, SKILL), ("a", 0o644, &vec![0; 4 << 20])]);
            assert!(
                told.contains("a: has 4194304 bytes; 50000 are allowed (registry.limits.file)"),
                "{told}"
            );
        }
        let told = refused(&[("SKILL.md", 0o644, &big[..10_001])]);
        assert!(told.contains("registry.limits.manifest"), "{told}");
        let told = refused(&[("a", 0o644, &part), ("b", 0o644, &part), ("c", 0o644, &part)]);
        assert!(told.contains("registry.limits.total"), "{told}");
        let names: Vec<String> = (0..11).map(|i| format!("f{i}")).collect();
        let files: Vec<(&str, u32, &[u8])> =
            names.iter().map(|n| (n.as_str(), 0o644, b"x".as_slice())).collect();
        assert!(refused(&files).contains("registry.limits.files"));
        let names: Vec<String> = (0..200).map(|i| format!("f{i}")).collect();
        let files: Vec<(&str, u32, &[u8])> =
            names.iter().map(|n| (n.as_str(), 0o644, b"x".as_slice())).collect();
        assert!(refused(&files).contains("registry.limits.files"));
    }
    // A gigabyte of zeros behind the end of a small tar.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    bomb.write_all(&tar_of(&[file("SKILL.md", SKILL)])).unwrap();
    for _ in 0..1024 {
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let told = bench.refusal(&bomb.finish().unwrap());
    assert!(told.contains("unpacks to more than"), "{told}");
}

#[test]
fn sizes_that_lie_are_refused() {
    let bench = Bench::new();
    // A tar whose entry says that it is longer than what is there.
    let mut tar = tar_of(&[file("SKILL.md", SKILL)]);
    tar.truncate(1024);
    let header = &mut tar[..512];
    header[124..136].copy_from_slice(b"00077777777\0");
    let sum: u32 = header
        .iter()
        .enumerate()
        .map(|(i, b)| if (148..156).contains(&i) { 32 } else { u32::from(*b) })
        .sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let told = bench.refusal(&tar);
    assert!(told.contains("cannot be read as tar: "), "{told}");
    // A zip whose directory says that an entry is shorter or longer than it is.
    for size in [1u32, 4_000] {
        let mut zip = zip_of(&[("SKILL.md", 0o644, SKILL), ("a", 0o644, &[7; 2_000])]);
        let central = zip.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
        zip[central + 24..central + 28].copy_from_slice(&size.to_le_bytes());
        let told = bench.refusal(&zip);
        assert!(told.contains("cannot be read as zip"), "{told}");
    }
}

#[test]
fn long_names_are_read_and_bounded() {
    let bench = Bench::new();
    let long = format!("{}/{}", "d".repeat(150), "f".repeat(150));
    let mut header = of_kind("././@LongLink", tar::EntryType::GNULongName);
    let name = [long.as_bytes(), b"\0"].concat();
    header.content = &name;
    let names =
        |bytes: &[u8]| bench.unpack(bytes).unwrap().source().files.keys().cloned().collect::<Vec<_>>();
    assert!(names(&tar_of(&[file("SKILL.md", SKILL), header, file("cut", b"x")])).contains(&long));

    let endless = vec![b'a'; 20_000];
    let header = Piece { content: &endless, ..of_kind("././@LongLink", tar::EntryType::GNULongName) };
    let told = bench.refusal(&tar_of(&[header, file("cut", b"x")]));
    assert!(told.contains("an extended header has more than 16384 bytes"), "{told}");

    let pax = |text: &str| {
        let piece = Piece { content: text.as_bytes(), ..of_kind("pax", tar::EntryType::XHeader) };
        tar_of(&[file("SKILL.md", SKILL), piece, file("cut", b"x")])
    };
    assert!(names(&pax("16 path=a/b/c\u{e9}\n")).contains(&"a/b/cé".to_owned()));
    assert!(bench.refusal(&pax("13 path=../x\n")).contains("../x: the name leads out"));
    assert!(bench.refusal(&pax("12 size=900\n")).contains("two sizes"));
    assert!(bench.refusal(&pax("22 GNU.sparse.major=1\n")).contains("is a sparse file"));
}

#[test]
fn what_is_cut_off_or_altered_is_refused() {
    let bench = Bench::new();
    for format in FORMATS {
        let whole = made(format, &[("SKILL.md", 0o644, SKILL), ("a", 0o644, &[7; 5_000])]);
        for keep in [whole.len() - 1, whole.len() / 2, 20] {
            // The end of a tar is two empty blocks; one byte of them more or less says nothing.
            if format != Format::Tar || keep + 1024 < whole.len() {
                let cut = unpack(&whole[..keep], format, &bench.store, &SkillLimits::default());
                assert!(cut.is_err(), "{format} cut at {keep} of {}", whole.len());
            }
        }
    }
    let mut altered = gzip(&tar_of(&[file("SKILL.md", SKILL)]));
    let crc = altered.len() - 8;
    altered[crc] ^= 1;
    assert!(bench.refusal(&altered).contains("cannot be read as tar in gzip"));
    assert!(bench.refusal(&gzip(b"no tar at all")).contains("cannot be read as tar in gzip"));
    assert!(
        bench.refusal(&tar_of(&[of_kind("empty/", tar::EntryType::Directory)])).contains("holds no files")
    );
}

#[test]
fn what_is_packed_unpacks_to_the_same_digest_and_packs_to_the_same_bytes() {
    let bench = Bench::new();
    let long = format!("{}/{}.md", "d".repeat(200), "naïve".repeat(30));
    let files = [
        ("SKILL.md", 0o644, SKILL),
        (long.as_str(), 0o644, b"x".as_slice()),
        ("run.sh", 0o755, b"#!/bin/sh\n"),
    ];
    let files: Vec<_> = files.iter().map(|(p, mode, b)| (*p, mode & 0o100 != 0, *b)).collect();
    let first = bench.store.stage_files("one", files, &SkillLimits::default()).unwrap();
    for format in [Format::Tar, Format::TarGz, Format::TarZst] {
        let packed = pack(first.path(), first.source(), format, Vec::new()).unwrap();
        let second = bench.unpack(&packed).unwrap();
        assert_eq!(second.digest(), first.digest(), "{format}");
        assert_eq!(pack(second.path(), second.source(), format, Vec::new()).unwrap(), packed);
    }
    assert!(pack(first.path(), first.source(), Format::Zip, Vec::new()).is_err());
}

#[test]
fn archives_of_the_usual_tools_are_read() {
    let bench = Bench::new();
    let at = bench.dir.path().join("mine");
    std::fs::create_dir_all(at.join("scripts")).unwrap();
    std::fs::write(at.join("SKILL.md"), SKILL).unwrap();
    std::fs::write(at.join("scripts/run.sh"), "#!/bin/sh\n").unwrap();
    let mut digests = std::collections::BTreeSet::new();
    for (line, out) in [
        ("tar cf a.tar mine", "a.tar"),
        ("tar czf a.tgz --format=pax mine", "a.tgz"),
        ("tar cf b.tar --format=v7 -C mine .", "b.tar"),
        ("tar cf c.tar --format=ustar -C mine SKILL.md scripts", "c.tar"),
        ("python3 -c \"import shutil; shutil.make_archive('z', 'zip', '.', 'mine')\"", "z.zip"),
    ] {
        let ran = std::process::Command::new("sh")
            .args(["-c", line])
            .current_dir(bench.dir.path())
            .status()
            .unwrap();
        if !ran.success() {
            // Not every machine has every tool.
            continue;
        }
        let bytes = std::fs::read(bench.dir.path().join(out)).unwrap();
        digests.insert(bench.unpack(&bytes).unwrap_or_else(|e| panic!("{line}: {e}")).digest());
    }
    assert_eq!(digests.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic_or_leave_something_behind(
        format in prop::sample::select(FORMATS.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let bench = Bench::new();
        let mut bytes = made(format, &[("t/SKILL.md", 0o644, SKILL), ("t/s/run.sh", 0o755, b"#!/bin/sh\n")]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let cut = 1 + cut.index(bytes.len() * 4);
        bytes.truncate(cut);
        let limits = SkillLimits::default();
        for many in [false, true] {
            let taken = if many {
                unpack_many(bytes.as_slice(), &bench.store, &limits).map(|m| m.staged)
            } else {
                unpack(bytes.as_slice(), format, &bench.store, &limits)
            };
            if let Ok(staged) = taken {
                for path in staged.source().files.keys() {
                    prop_assert!(super::super::names::check_path(path).is_ok());
                    prop_assert!(staged.path().join(path).is_file());
                }
            }
            prop_assert_eq!(std::fs::read_dir(bench.store.staging()).unwrap().count(), 0);
        }
    }
}
