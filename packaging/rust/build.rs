//! Compiles one allocator from the same headers and sources as the shared libraries, by the C++ compiler that `cc` finds.

use std::{env, fs, path::Path, path::PathBuf};

const ALLOCATORS: [&str; 5] = ["hslab", "wfslab", "tlsf", "hslabd", "hslab_hardened"];
/// The interface NAME_malloc and what starts, settles and reports; malloc itself, and what reads a preloaded heap, stay out.
const FILES: [&str; 9] = [
    "packaging/rust/start",
    "abi/library",
    "abi/conf",
    "abi/idle",
    "abi/report",
    "abi/trap",
    "abi/snapshot",
    "abi/resident",
    "abi/profile",
];
const FLAGS: [&str; 7] = [
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-builtin-malloc",
    "-fno-stack-protector",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
];

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let chosen: Vec<_> = ALLOCATORS
        .into_iter()
        .filter(|name| env::var(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_ok())
        .collect();
    let name = match chosen.as_slice() {
        [] => "hslab",
        [one] => one,
        several => panic!("one allocator per program, but the features {} are on", several.join(", ")),
    };
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        panic!("mortise runs on Linux; this is for {}", env::var("TARGET").unwrap());
    }
    settings(&fs::read_to_string(root.join("abi/abi.toml")).expect("abi/abi.toml"), &out);

    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").opt_level(2).debug(false).define("NDEBUG", None).pic(true).warnings(false);
    build.cpp_link_stdlib(None).include(&root).include(root.join("include")).include(&out);
    build.define("MORTISE_HEADER", format!("\"mortise/allocators/{name}.hpp\"").as_str());
    build.define("MORTISE_ALLOCATOR", name).define("MORTISE_FILE_NAME", format!("\"{name}\"").as_str());
    build.define("MORTISE_VERSION", format!("\"{}\"", env::var("CARGO_PKG_VERSION").unwrap()).as_str());
    for flag in FLAGS {
        build.flag(flag);
    }
    for file in FILES {
        build.file(root.join(format!("{file}.cpp")));
    }
    build.compile("mortise_rust");
    bindings(name, &out);
    for place in ["abi", "include", "packaging/rust"] {
        println!("cargo:rerun-if-changed={}", root.join(place).display());
    }
}

/// The functions of abi/library.cpp, which carry the allocator's name.
fn bindings(name: &str, out: &Path) {
    let functions = [
        ("malloc", "(size: usize) -> *mut u8"),
        ("calloc", "(count: usize, size: usize) -> *mut u8"),
        ("realloc", "(p: *mut u8, size: usize) -> *mut u8"),
        ("aligned_alloc", "(align: usize, size: usize) -> *mut u8"),
        ("free", "(p: *mut u8)"),
        ("usable_size", "(p: *mut u8) -> usize"),
        ("trim", "() -> usize"),
        ("live_bytes", "() -> usize"),
        ("mapped_bytes", "() -> usize"),
    ];
    let mut text = format!("pub const NAME: &str = \"{name}\";\nextern \"C\" {{\n");
    for (verb, signature) in functions {
        text += &format!("    #[link_name = \"{name}_{verb}\"]\n    pub fn {verb}{signature};\n");
    }
    fs::write(out.join("bindings.rs"), text + "}\n").unwrap();
}

/// The two lists that conf.cpp includes, from the table of settings: X(name, "default") and X(name, NAME).
fn settings(table: &str, out: &Path) {
    let value = |line: &str, key: &str| line.strip_prefix(key)?.trim_start().strip_prefix('=').map(|v| v.trim().to_string());
    let (mut keys, mut variables) = (String::new(), String::new());
    for entry in table.split("[[").filter(|entry| entry.starts_with("key]]")) {
        let name = entry.lines().find_map(|line| value(line, "name")).expect("a setting has a name");
        let default = entry.lines().find_map(|line| value(line, "default")).expect("a setting has a default");
        let name = name.trim_matches('"');
        keys += &format!("X({name}, {default})\n");
        variables += &format!("X({name}, {})\n", name.to_uppercase());
    }
    assert!(!keys.is_empty(), "abi.toml has no settings");
    fs::write(out.join("keys.inc"), keys).unwrap();
    fs::write(out.join("variables.inc"), variables).unwrap();
}
