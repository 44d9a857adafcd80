//! No dependency cycle between modules: in each crate, modules use each other in one direction only, so that
//! each can be read after those that it uses. Re-exports of a `mod.rs` or `lib.rs` (`pub use`) count as uses
//! of the module that defines the item.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::Fault;
use crate::tree::Tree;

/// Crates of the query path, which are checked file by file. In all other crates each module of the crate
/// root is checked as a whole, with its submodules.
const BY_FILE: [&str; 4] = ["transport", "authority", "query-path", "net"];

/// A path in the code, as segments from the crate root.
type Path = Vec<String>;

/// What one file re-exports and uses.
#[derive(Default)]
struct Module {
    file: String,
    /// Re-exported names, with the path that each refers to.
    passed_on: BTreeMap<String, Path>,
    /// Used paths, with their lines.
    uses: Vec<(Path, usize)>,
}

/// Reports files that use each other in a cycle.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let sources = tree.sources.iter().filter_map(|source| source.path.strip_prefix("crates/"));
    let names: BTreeSet<&str> =
        sources.filter_map(|path| path.split_once("/src/")).map(|(name, _)| name).collect();
    names.into_iter().flat_map(|name| check_crate(tree, name)).collect()
}

fn check_crate(tree: &Tree, name: &str) -> Vec<Fault> {
    let root = format!("crates/{name}/src/");
    let mut modules: BTreeMap<Path, Module> = BTreeMap::new();
    for source in tree.sources.iter().filter(|s| s.path.starts_with(&root) && !s.test_file) {
        let path = module_path(&source.path[root.len()..]);
        modules.insert(path, Module { file: source.path.clone(), ..Module::default() });
    }
    let paths: BTreeSet<Path> = modules.keys().cloned().collect();
    for (path, module) in &mut modules {
        let text = tree.file(&module.file).and_then(|file| file.text()).unwrap_or_default();
        if let Ok(file) = syn::parse_file(text) {
            let mut reader = Reader { at: path, modules: &paths, module, aliases: BTreeMap::new() };
            reader.visit_file(&file);
        }
    }
    let depth = if BY_FILE.contains(&name) { usize::MAX } else { 1 };
    let whole = |path: &Path| path[..path.len().min(depth)].to_vec();
    let mut edges: Edges = BTreeMap::new();
    for (path, module) in &modules {
        for (used, line) in &module.uses {
            let target = resolve(used, &modules);
            if modules.contains_key(&target) && whole(&target) != whole(path) {
                let arrow = format!("{}:{line} uses {}", module.file, modules[&target].file);
                edges.entry(whole(path)).or_default().entry(whole(&target)).or_insert(arrow);
            }
        }
    }
    faults(&root, &edges)
}

/// Returns the module path of a file: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_path(file: &str) -> Path {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    stem.split('/').filter(|part| !matches!(*part, "lib" | "main")).map(str::to_owned).collect()
}

/// Returns the module that defines the item at a path.
fn resolve(path: &Path, modules: &BTreeMap<Path, Module>) -> Path {
    let mut path = path.clone();
    // Re-exports are followed; chains of them are short.
    for _ in 0..8 {
        let depth = (0..=path.len()).rev().find(|&n| modules.contains_key(&path[..n])).unwrap_or(0);
        let (module, rest) = path.split_at(depth);
        let passed_on = modules.get(module).zip(rest.first()).and_then(|(m, name)| m.passed_on.get(name));
        match passed_on {
            Some(elsewhere) => path = [&elsewhere[..], &rest[1..]].concat(),
            None => return module.to_vec(),
        }
    }
    path
}

/// The modules that each module uses, with the location of the first use.
type Edges = BTreeMap<Path, BTreeMap<Path, String>>;

/// Returns one fault for each cycle, with every use in it.
fn faults(root: &str, edges: &Edges) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    for start in edges.keys() {
        let reached = reachable(start, edges);
        if seen.contains(start) || !reached.contains(start) {
            continue;
        }
        let circle: Vec<&Path> =
            edges.keys().filter(|m| reached.contains(*m) && reachable(m, edges).contains(start)).collect();
        seen.extend(circle.iter().copied());
        let inside =
            |from: &&Path| edges[*from].iter().filter(|(to, _)| circle.contains(to)).map(|(_, arrow)| arrow);
        let arrows: Vec<&str> = circle.iter().flat_map(inside).map(String::as_str).collect();
        let file = arrows[0].split(':').next().unwrap_or(root);
        let text =
            format!("modules use each other in a circle; move what several need out: {}", arrows.join("; "));
        faults.push(Fault::new(file, 1, text));
    }
    faults
}

/// Returns every module that can be reached from this one in one step or more.
fn reachable(from: &Path, edges: &Edges) -> BTreeSet<Path> {
    let mut reached = BTreeSet::new();
    let mut rest = vec![from.clone()];
    while let Some(next) = rest.pop() {
        for to in edges.get(&next).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.clone()) {
                rest.push(to.clone());
            }
        }
    }
    reached
}

/// Reads one file.
struct Reader<'r> {
    at: &'r Path,
    modules: &'r BTreeSet<Path>,
    module: &'r mut Module,
    /// Names imported into this file by `use`.
    aliases: BTreeMap<String, Path>,
}

impl Reader<'_> {
    /// Returns a path from the crate root; `None` if it leads out of the crate.
    fn absolute(&self, written: &[String]) -> Option<Path> {
        let (first, rest) = written.split_first()?;
        let mut path = match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => return Some([self.at, rest].concat()),
            "super" => {
                let up = written.iter().take_while(|s| *s == "super").count();
                let parent = &self.at[..self.at.len().saturating_sub(up)];
                return Some([parent, &written[up..]].concat());
            }
            name => match self.aliases.get(name) {
                Some(path) => path.clone(),
                None => {
                    let child = [self.at, std::slice::from_ref(first)].concat();
                    self.modules.contains(&child).then_some(child)?
                }
            },
        };
        path.extend_from_slice(rest);
        Some(path)
    }

    fn used(&mut self, written: &[String], line: usize) {
        if let Some(path) = self.absolute(written) {
            self.module.uses.push((path, line));
        }
    }

    /// Collects each name that a `use` imports.
    fn leaves(prefix: &[String], tree: &syn::UseTree, out: &mut Vec<(Path, String)>) {
        let with = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => Self::leaves(&with(&path.ident), &path.tree, out),
            syn::UseTree::Name(name) if name.ident == "self" => {
                out.push((prefix.to_vec(), prefix.last().cloned().unwrap_or_default()));
            }
            syn::UseTree::Name(name) => out.push((with(&name.ident), name.ident.to_string())),
            syn::UseTree::Rename(rename) => out.push((with(&rename.ident), rename.rename.to_string())),
            syn::UseTree::Glob(_) => out.push((prefix.to_vec(), "*".to_owned())),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| Self::leaves(prefix, item, out));
            }
        }
    }
}

fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|a| a.path().is_ident("test") || a.path().is_ident("cfg") && quoted(a).contains("test"))
}

fn quoted(attribute: &syn::Attribute) -> String {
    attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default()
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        let mut leaves = Vec::new();
        Self::leaves(&[], &item.tree, &mut leaves);
        let line = item.use_token.span.start().line;
        for (written, name) in leaves {
            let Some(path) = self.absolute(&written) else { continue };
            match item.vis {
                // A private import.
                syn::Visibility::Inherited => {
                    self.aliases.insert(name, path.clone());
                    // A use of a module's item counts as a use of the module.
                    if !self.modules.contains(&path) {
                        self.module.uses.push((path, line));
                    }
                }
                _ => drop(self.module.passed_on.insert(name, path)),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let written: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if written.len() > 1 {
            let line = path.segments[0].ident.span().start().line;
            self.used(&written, line);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<Fault> {
        let files: Vec<_> = files.iter().map(|(p, t)| (format!("crates/net/src/{p}"), *t)).collect();
        let files: Vec<_> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        check(&Tree::of(&files))
    }

    #[test]
    fn a_circle_is_found_wherever_its_names_come_from() {
        let plain =
            [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "fn f() { crate::a::g() }")];
        assert_eq!(faults(&plain).len(), 1);
        let passed_on = [
            ("lib.rs", "mod a; mod c; pub use c::d::D;"),
            ("a.rs", "use crate::D;"),
            ("c/mod.rs", "pub mod d;"),
            ("c/d.rs", "use super::super::a::A;"),
        ];
        assert_eq!(faults(&passed_on).len(), 1);
        let through_a_module = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b; fn f() -> b::B { b::new() }"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(faults(&through_a_module).len(), 1);
        let with_the_root = [("lib.rs", "mod a; pub struct S(a::A);"), ("a.rs", "use crate::S;")];
        assert_eq!(faults(&with_the_root).len(), 1);
    }

    #[test]
    fn beside_the_query_path_a_module_and_those_in_it_are_one() {
        let within = |name: &str, second: &'static str| {
            let files = [
                ("lib.rs", "mod a; mod b;"),
                ("a/mod.rs", "mod x; use self::x::X; pub struct A;"),
                ("a/x.rs", second),
                ("b.rs", "use crate::a::A;"),
            ];
            let files = files.map(|(path, text)| (format!("crates/{name}/src/{path}"), text));
            let files = files.each_ref().map(|(path, text)| (path.as_str(), *text));
            check(&Tree::of(&files)).len()
        };
        assert_eq!(within("net", "use super::A;"), 1);
        assert_eq!(within("tools", "use super::A;"), 0);
        assert_eq!(within("tools", "use crate::b::B;"), 1);
    }

    #[test]
    fn one_way_is_fine() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a.rs", "use crate::B; #[cfg(test)] mod tests { use crate::a::x; use crate::c::Z; }"),
            ("b.rs", "use std::fmt; #[cfg(test)] mod tests { use crate::a::A; }"),
        ];
        assert_eq!(faults(&files), []);
    }
}
