//! The JavaScript module `skep` that every container has, for scripts that read skill documents (systems.md B4).
//!
//! Without dependencies, for Node and Bun, loaded by `import` and by `require`; it reads and changes nothing.

/// Its files, by name.
pub const FILES: [(&str, &str); 4] = [
    ("package.json", include_str!("module/package.json")),
    ("skep.cjs", include_str!("module/skep.cjs")),
    ("skep.mjs", include_str!("module/skep.mjs")),
    ("skep.d.ts", include_str!("module/skep.d.ts")),
];
