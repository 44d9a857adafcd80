//! Paths and links in the documentation exist.

use super::Fault;
use crate::tree::Tree;

/// Folders whose paths are checked wherever a document names them in code.
const FOLDERS: &[&str] = &[
    "crates/",
    "xtask/",
    "docs/",
    "fuzz/",
    "bench/",
    "conformance/",
    "scripts/",
    ".ci/",
    "examples/",
    "packaging/",
];

/// Reports missing targets of links and paths in README.md, CONTRIBUTING.md and everything under docs.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|f| is_document(&f.path)) {
        let text = file.text().unwrap_or_default();
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            let mut missing: Vec<String> = Vec::new();
            if !fenced {
                missing.extend(links(line).filter(|l| !link_leads_somewhere(tree, &file.path, l)));
            }
            missing.extend(paths(line, fenced).into_iter().filter(|p| !tree.holds(p)));
            missing.dedup();
            for target in missing {
                let text =
                    format!("names `{target}`, which does not exist; correct it, or make what it promises");
                faults.push(Fault::new(&file.path, number + 1, text));
            }
        }
    }
    faults
}

fn is_document(path: &str) -> bool {
    let top = matches!(path, "README.md" | "CONTRIBUTING.md" | "CHANGELOG.md");
    let below = path.ends_with("/README.md") || path.starts_with("docs/") && path.ends_with(".md");
    top || below
}

/// Returns the targets of `[text](target)` on one line.
fn links(line: &str) -> impl Iterator<Item = String> + '_ {
    line.match_indices("](").filter_map(|(at, open)| {
        let rest = &line[at + open.len()..];
        rest.find(')').map(|end| rest[..end].to_owned())
    })
}

fn link_leads_somewhere(tree: &Tree, from: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { from.to_owned() } else { resolve(from, path) };
    if !tree.holds(&target) {
        return false;
    }
    let text = tree.file(&target).and_then(|f| f.text()).unwrap_or_default();
    anchor.is_empty() || text.lines().filter(|l| l.starts_with('#')).any(|l| slug(l) == anchor)
}

/// Resolves `path` relative to the folder of `from`.
fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Returns the anchor that renderers generate for a heading.
fn slug(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

/// Returns the paths of the tree in code: between backticks in prose, anywhere in a fenced block.
fn paths(line: &str, fenced: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (i, piece) in line.split('`').enumerate() {
        if !fenced && i % 2 == 0 {
            continue;
        }
        for word in words(piece) {
            let word = word.strip_prefix("./").unwrap_or(word);
            let word = word.trim_end_matches([':', '.']);
            // A path with a placeholder, or one that a command will write, is not a path of the tree.
            let placeholder = word.contains(['<', '>', '$', '*', '…']) || word.split('/').any(is_shouted);
            let ours = FOLDERS.iter().any(|f| word.starts_with(f)) && !placeholder;
            if ours {
                expand(word, &mut found);
            }
        }
    }
    found
}

/// Whether this is a placeholder such as `TARGET` or `DATE-MACHINE`.
fn is_shouted(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c == '-' || c == '_')
}

/// Splits a command or a sentence into words; a comma between braces belongs to the word.
fn words(piece: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    piece
        .split(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            matches!(c, ' ' | '"' | '\'' | '(' | ')' | ';' | '=') || c == ',' && depth == 0
        })
        .collect()
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`; a line number after a colon is not part of the path.
fn expand(word: &str, found: &mut Vec<String>) {
    let word = word.split(':').next().unwrap_or(word);
    match (word.find('{'), word.find('}')) {
        (Some(open), Some(close)) if open < close => {
            for choice in word[open + 1..close].split(',') {
                expand(&format!("{}{choice}{}", &word[..open], &word[close + 1..]), found);
            }
        }
        _ => found.push(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# Part one: the `x`\n"),
            ("crates/wire/src/name.rs", "//! x\n"),
        ]);
        check(&tree).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn dead_links_are_found() {
        assert!(faults("[b](b.md), [root](../crates/wire), [web](https://a.example/x)\n").is_empty());
        assert_eq!(faults("fine\n[c](c.md)\n"), [2]);
        assert!(faults("[p](b.md#part-one-the-x)\n").is_empty());
        assert_eq!(faults("[p](b.md#part-two)\n"), [1]);
    }

    #[test]
    fn dead_paths_in_code_are_found() {
        assert!(faults("`crates/wire/src/name.rs:12` and `crates/wire/`\n").is_empty());
        assert_eq!(faults("`crates/wire/src/label.rs`\n"), [1]);
        assert_eq!(faults("`crates/wire/src/{name,label}.rs`\n"), [1]);
        assert_eq!(faults("```\nsh scripts/gone --now\n```\n"), [2]);
        assert!(
            faults(
                "crates/wire/none.rs in prose, `crates/*/src`, `crates/<room>/src`, `bench/DATE-HOST/x`\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn braces_name_several_paths() {
        let mut found = Vec::new();
        expand("crates/wire/src/{name,label}.rs", &mut found);
        assert_eq!(found, ["crates/wire/src/name.rs", "crates/wire/src/label.rs"]);
    }
}
