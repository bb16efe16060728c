//! How long it takes to resolve an agent's skills in a large registry.
//!
//! 10,000 skills with 5 versions each, all of them reached. Peers in the same run, on the same
//! data: the solver library's own offline provider, filled ahead; and a walk that takes the newest
//! fitting version of everything and checks nothing, which is less than any answer needs.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark ends when its data is wrong")]

use std::{
    collections::{BTreeMap, HashSet},
    hint::black_box,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use pubgrub::{OfflineDependencyProvider, Ranges, SemanticVersion};
use semver::Version;
use skep::{
    ids::{Digest, Requirement, SkillId, SkillRef},
    registry::index::{About, Index, Owner, SkillEntry, Trust, VersionEntry},
    resolver::{LockedAgent, Request, Update, solve},
};

const SKILLS: usize = 10_000;
const VERSIONS: u64 = 5;
const ROUNDS: usize = 25;
/// Below every list of dependencies: every skill is reached from the first hundred.
const ROOTS: usize = 100;

fn id(i: usize) -> String {
    format!("skill-{i:05}")
}

/// Three dependencies each: one reaches further skills, two tie distant ones together.
fn needs(i: usize) -> Vec<usize> {
    let further = [i + ROOTS, i + 7 * ROOTS + i % 13, (i * 31 + 17) % SKILLS];
    further.into_iter().filter(|n| *n < SKILLS && *n != i).collect()
}

fn entry(i: usize) -> SkillEntry {
    let references = |minor: u64| -> Vec<SkillRef> {
        let wanted = if minor.is_multiple_of(2) { "^1" } else { ">=1.1.0" };
        let all = needs(i).into_iter();
        all.map(|n| format!("{}@{wanted}", id(n)).parse().unwrap()).collect()
    };
    let version = |minor: u64| VersionEntry {
        version: Version::new(1, minor, 0),
        digest: Digest([u8::try_from(minor).unwrap(); 32]),
        dependencies: references(minor),
        yanked: false,
        deprecated: None,
        trust: Trust::Trusted,
    };
    SkillEntry {
        id: id(i).parse().unwrap(),
        owner: Owner::Operator,
        enabled: true,
        versions: (0..VERSIONS).map(|m| (Version::new(1, m, 0), version(m))).collect(),
        registered_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        about: About::default(),
    }
}

fn registry() -> Index {
    let skills = (0..SKILLS).map(|i| (id(i).parse().unwrap(), entry(i).into()));
    Index { skills: skills.collect() }
}

type Offline = OfflineDependencyProvider<String, Ranges<SemanticVersion>>;

fn offline(index: &Index, roots: &[SkillRef]) -> Offline {
    let semantic = |v: &Version| -> SemanticVersion {
        let part = |n: u64| u32::try_from(n).unwrap();
        (part(v.major), part(v.minor), part(v.patch)).into()
    };
    let range = |wanted: &SkillRef| match &wanted.requirement {
        Requirement::Range(r) if r.to_string() == "^1" => {
            Ranges::between(SemanticVersion::new(1, 0, 0), SemanticVersion::new(2, 0, 0))
        }
        Requirement::Range(_) => Ranges::higher_than(SemanticVersion::new(1, 1, 0)),
        Requirement::Exact(v) => Ranges::singleton(semantic(v)),
        Requirement::Bare | Requirement::Latest => Ranges::full(),
    };
    let all = |wanted: &[SkillRef]| -> Vec<(String, Ranges<SemanticVersion>)> {
        wanted.iter().map(|w| (w.id.to_string(), range(w))).collect()
    };
    let mut provider = Offline::new();
    provider.add_dependencies("root".to_owned(), (0, 0, 0), all(roots));
    for skill in index.skills.values() {
        for version in skill.versions.values() {
            let needs = all(&version.dependencies);
            provider.add_dependencies(skill.id.to_string(), semantic(&version.version), needs);
        }
    }
    provider
}

/// The newest fitting version of everything reached, whether or not others agree.
fn greedy<'a>(index: &'a Index, roots: &'a [SkillRef]) -> BTreeMap<&'a SkillId, &'a Version> {
    let mut seen: HashSet<&SkillId> = HashSet::new();
    let mut chosen = BTreeMap::new();
    let mut todo: Vec<&SkillRef> = roots.iter().collect();
    while let Some(wanted) = todo.pop() {
        if !seen.insert(&wanted.id) {
            continue;
        }
        let skill = &index.skills[&wanted.id];
        let fits = |v: &&VersionEntry| match &wanted.requirement {
            Requirement::Range(range) => range.matches(&v.version),
            Requirement::Exact(exact) => *exact == v.version,
            Requirement::Bare | Requirement::Latest => true,
        };
        let version = skill.versions.values().rev().find(fits).unwrap();
        chosen.insert(&skill.id, &version.version);
        todo.extend(&version.dependencies);
    }
    chosen
}

fn median(mut run: impl FnMut()) -> Duration {
    run();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

fn report(name: &str, ours: Duration, peer: &str, theirs: Duration) {
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{name}: {:.1} ms ({peer}: {:.1} ms, ratio {ratio:.2})", ms(ours), ms(theirs));
}

fn main() {
    let index = registry();
    let roots: Vec<SkillRef> = (0..ROOTS).map(|i| format!("{}@^1", id(i)).parse().unwrap()).collect();
    let resolve = |lock: Option<&LockedAgent>| {
        let request = Request { agent: None, skills: &roots, lock, update: Update::None };
        solve(&index, &request).unwrap()
    };
    let resolution = resolve(None);
    assert_eq!(resolution.skills.len(), SKILLS, "every skill is reached");
    let lock = resolution.locked();
    let provider = offline(&index, &roots);

    let ours = median(|| drop(black_box(resolve(None))));
    let locked = median(|| drop(black_box(resolve(Some(&lock)))));
    let library = median(|| {
        let solution = pubgrub::resolve(&provider, "root".to_owned(), (0, 0, 0)).unwrap();
        drop(black_box(solution));
    });
    let walk = median(|| drop(black_box(greedy(&index, &roots))));
    let name = format!("resolve {SKILLS} x {VERSIONS}");
    report(&name, ours, "pubgrub's offline provider, filled ahead", library);
    report(&name, ours, "unchecked greedy walk", walk);
    report(&format!("{name}, locked"), locked, "without a lock", ours);
}
