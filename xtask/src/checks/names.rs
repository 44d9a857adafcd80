//! A public type name means one thing: no two `pub` structs, enums, unions, traits or type aliases of
//! `crates/*/src` have the same name.

use std::collections::BTreeMap;

use super::Fault;
use crate::tree::Tree;

/// Names that several types have, each with the reason. An entry without such types is a fault.
const SHARED: &[(&str, &str)] =
    &[("Iter", "the iterator of a collection, named in its module as in `std::slice::Iter`")];

/// Keywords that define a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// Reports each public type whose name an earlier one has.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    duplicates(tree, SHARED)
}

fn duplicates(tree: &Tree, shared: &[(&str, &str)]) -> Vec<Fault> {
    let mut definitions: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    let sources = tree.sources.iter().filter(|source| {
        let in_crate = source.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        in_crate.is_some_and(|(_, path)| path.starts_with("src/")) && !source.test_file
    });
    for source in sources {
        let text = tree.file(&source.path).and_then(|file| file.text()).unwrap_or_default();
        for (line, number) in text.lines().zip(1..) {
            if let Some(name) = defined(line) {
                definitions.entry(name).or_default().push((&source.path, number));
            }
        }
    }
    let mut faults = Vec::new();
    for (name, places) in &definitions {
        if shared.iter().any(|(permitted, _)| permitted == name) {
            continue;
        }
        let (first, _) = places[0];
        faults.extend(places[1..].iter().map(|(path, line)| {
            let text = format!("`{name}` is also a public type in {first}; name each after what it is");
            Fault::new(path, *line, text)
        }));
    }
    let unused =
        shared.iter().filter(|(name, _)| definitions.get(name).is_none_or(|places| places.len() < 2));
    faults.extend(unused.map(|(name, _)| {
        Fault::new(
            "xtask/src/checks/names.rs",
            1,
            format!("take `{name}` off the list: only one type has it"),
        )
    }));
    faults
}

/// Returns the name of the public type that a line defines. The line may be in a macro call, which the parser
/// does not look into.
fn defined(line: &str) -> Option<&str> {
    let (keyword, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    (KEYWORDS.contains(&keyword) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 4] = [
        ("crates/a/src/lib.rs", "//! x\npub struct Place<'a>(&'a u8);\npub(crate) enum Own {}\n"),
        ("crates/b/src/lib.rs", "//! x\nkeys! {\n    pub struct Place in \"[place]\" {}\n}\nenum Own {}\n"),
        (
            "crates/b/src/own.rs",
            "//! x\npub type Own = u8;\nmacro_rules! m { () => { pub struct $name; } }\n",
        ),
        ("crates/b/tests/it.rs", "//! x\npub enum Place {}\npub fn place() {}\n"),
    ];

    #[test]
    fn the_second_public_type_of_a_name_is_found_also_in_macro_calls() {
        let faults = duplicates(&Tree::of(&FILES), &[]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!((faults[0].path.as_str(), faults[0].line), ("crates/b/src/lib.rs", 3));
    }

    #[test]
    fn exceptions_are_permitted_and_only_where_they_are_needed() {
        assert_eq!(duplicates(&Tree::of(&FILES), &[("Place", "x")]), []);
        let faults = duplicates(&Tree::of(&FILES), &[("Place", "x"), ("Own", "x")]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].text.contains("`Own`"));
    }
}
