//! Facts about one Rust file: functions and their lengths, uses of `unsafe`, calls that may panic, threads
//! that it starts, and lines of test code. The limits are in `checks`.

mod threads;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

pub(crate) use threads::NameText;

/// Facts about one file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Path from the repository root.
    pub(crate) path: String,
    /// Whether the whole file is test code: under `tests/` or `benches/`, or declared `#[cfg(test)] mod`.
    pub(crate) test_file: bool,
    /// Number of lines that are not test code.
    pub(crate) code_lines: usize,
    /// Functions that are not test code.
    pub(crate) functions: Vec<Function>,
    /// Every use of `unsafe`, including test code.
    pub(crate) unsafes: Vec<Unsafe>,
    /// `unwrap()`, `expect("…")` and `panic!` outside test code and constant evaluation.
    pub(crate) panics: Vec<Panic>,
    /// Inner attributes of the file, printed without spaces: `forbid(unsafe_code)`.
    pub(crate) inner_attributes: Vec<String>,
    /// Started threads, and locks in types, outside test code.
    pub(crate) threads: threads::Threads,
    /// Modules declared `#[cfg(test)] mod name;` here, whose files are test code.
    test_modules: Vec<String>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// `name`, or `Type::name` for a method.
    pub(crate) name: String,
    /// Line of the signature's first token, counted from 1.
    pub(crate) line: usize,
    /// Lines from the signature to the closing brace, both included.
    pub(crate) lines: usize,
}

/// One use of the keyword `unsafe`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsafe {
    /// Line of the keyword.
    pub(crate) line: usize,
    /// First line of the enclosing statement or item: the safety comment is above that line or above `line`.
    pub(crate) statement: usize,
    /// Its kind.
    pub(crate) kind: UnsafeKind,
}

/// The proof that a use of `unsafe` needs.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum UnsafeKind {
    /// A block, an `impl` or an `extern` block: `// SAFETY:` above it.
    Claim,
    /// A function or trait declaration: `# Safety` in its documentation.
    Contract,
    /// Inside a macro's tokens, where the two cannot be distinguished.
    InMacro,
}

/// A call that can panic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panic {
    /// The enclosing function, named as [`Function::name`].
    pub(crate) function: String,
    /// Line of the call.
    pub(crate) line: usize,
    /// `unwrap()`, `expect(…)` or `panic!`.
    pub(crate) call: &'static str,
}

impl Source {
    /// Parses the file's text; the error is the line and the parser's message.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Source, (usize, String)> {
        let file = syn::parse_file(text).map_err(|e| (e.span().start().line, e.to_string()))?;
        let mut reader = Reader::default();
        reader.source.path = path.to_owned();
        reader.source.threads = threads::Threads::of(&file);
        reader.source.inner_attributes = file.attrs.iter().map(|a| squeeze(&a.meta)).collect();
        let in_test_folder = path.split('/').any(|part| part == "tests" || part == "benches");
        reader.source.test_file = in_test_folder || file.attrs.iter().any(is_cfg_test);
        reader.visit_file(&file);
        let total = text.lines().count();
        let tested: usize = reader.test_ranges.iter().map(|(first, last)| last - first + 1).sum();
        let mut source = reader.source;
        source.code_lines = total - tested.min(total);
        Ok(source)
    }
}

/// Marks the files of modules declared `#[cfg(test)] mod name;`, and all files below them.
pub(crate) fn mark_test_files(sources: &mut [Source]) {
    let mut stems = Vec::new();
    for source in sources.iter() {
        let stem = source.path.trim_end_matches(".rs");
        let folder = match stem.rsplit_once('/') {
            Some((folder, "lib" | "main" | "mod")) => folder,
            _ => stem,
        };
        stems.extend(source.test_modules.iter().map(|name| format!("{folder}/{name}")));
    }
    for source in sources {
        let stem = source.path.trim_end_matches(".rs");
        if stems.iter().any(|s| stem == s || stem.starts_with(&format!("{s}/"))) {
            source.test_file = true;
        }
    }
}

#[derive(Default)]
struct Reader {
    source: Source,
    test_ranges: Vec<(usize, usize)>,
    /// Depth of enclosing test items; functions and panics in them are not counted.
    test_depth: usize,
    /// Depth of enclosing constant evaluation, where a panic is a build error.
    const_depth: usize,
    owner: Option<String>,
    functions: Vec<String>,
    statement: usize,
}

impl Reader {
    fn line(span: Span) -> usize {
        span.start().line
    }

    fn in_tests(&self) -> bool {
        self.test_depth > 0
    }

    /// Runs `walk`, as test code if the attributes say so, and records the lines of test code.
    fn item(&mut self, attrs: &[syn::Attribute], span: Span, walk: impl FnOnce(&mut Self)) {
        let test = attrs.iter().any(|a| is_cfg_test(a) || is_test(a));
        if test && !self.in_tests() {
            self.test_ranges.push((span.start().line, span.end().line));
        }
        let statement = std::mem::replace(&mut self.statement, Self::line(span));
        self.test_depth += usize::from(test);
        walk(self);
        self.test_depth -= usize::from(test);
        self.statement = statement;
    }

    fn function(&mut self, sig: &syn::Signature, block: Option<&syn::Block>, walk: impl FnOnce(&mut Self)) {
        let name = match &self.owner {
            Some(owner) => format!("{owner}::{}", sig.ident),
            None => sig.ident.to_string(),
        };
        if let Some(word) = sig.unsafety {
            self.note_unsafe(word.span, UnsafeKind::Contract);
        }
        if let (Some(block), false) = (block, self.in_tests()) {
            let line = Self::line(sig.span());
            let lines = block.brace_token.span.close().end().line - line + 1;
            self.source.functions.push(Function { name: name.clone(), line, lines });
        }
        self.functions.push(name);
        // A function inside a method does not belong to the method's type.
        let owner = self.owner.take();
        walk(self);
        self.owner = owner;
        self.functions.pop();
    }

    fn owned(&mut self, owner: Option<String>, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.owner, owner);
        walk(self);
        self.owner = before;
    }

    fn constant(&mut self, walk: impl FnOnce(&mut Self)) {
        self.const_depth += 1;
        walk(self);
        self.const_depth -= 1;
    }

    fn note_unsafe(&mut self, span: Span, kind: UnsafeKind) {
        let line = Self::line(span);
        self.source.unsafes.push(Unsafe { line, statement: self.statement.min(line), kind });
    }

    fn note_panic(&mut self, span: Span, call: &'static str) {
        if self.in_tests() || self.const_depth > 0 {
            return;
        }
        let function = self.functions.last().cloned().unwrap_or_default();
        self.source.panics.push(Panic { function, line: Self::line(span), call });
    }

    /// Macro arguments are only tokens: finds the same words in them.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (i, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(word) if word == "unsafe" => {
                    self.note_unsafe(word.span(), UnsafeKind::InMacro);
                }
                TokenTree::Ident(word) => {
                    let after_dot = i > 0 && is_punct(&tokens[i - 1], '.');
                    let call = match tokens.get(i + 1) {
                        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis => g.stream(),
                        Some(next) if is_punct(next, '!') && word == "panic" => {
                            self.note_panic(word.span(), "panic!");
                            continue;
                        }
                        _ => continue,
                    };
                    let mut arguments = call.into_iter();
                    match (word.to_string().as_str(), arguments.next()) {
                        ("unwrap", None) if after_dot => self.note_panic(word.span(), "unwrap()"),
                        ("expect", Some(TokenTree::Literal(l))) if after_dot && is_text(&l) => {
                            self.note_panic(word.span(), "expect(…)");
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attrs = item_attributes(item);
        if let syn::Item::Mod(m) = item
            && m.content.is_none()
            && attrs.iter().any(is_cfg_test)
        {
            self.source.test_modules.push(m.ident.to_string());
        }
        self.item(attrs, item.span(), |r| visit::visit_item(r, item));
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attrs = match item {
            syn::ImplItem::Fn(f) => f.attrs.as_slice(),
            syn::ImplItem::Const(c) => c.attrs.as_slice(),
            _ => &[],
        };
        self.item(attrs, item.span(), |r| visit::visit_impl_item(r, item));
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        self.item(&[], item.span(), |r| visit::visit_trait_item(r, item));
    }

    fn visit_stmt(&mut self, stmt: &'ast syn::Stmt) {
        let before = std::mem::replace(&mut self.statement, Self::line(stmt.span()));
        visit::visit_stmt(self, stmt);
        self.statement = before;
    }

    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.function(&f.sig, Some(&f.block), |r| visit::visit_item_fn(r, f));
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.function(&f.sig, Some(&f.block), |r| visit::visit_impl_item_fn(r, f));
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        self.function(&f.sig, f.default.as_ref(), |r| visit::visit_trait_item_fn(r, f));
    }

    fn visit_item_impl(&mut self, i: &'ast syn::ItemImpl) {
        if let Some(word) = i.unsafety {
            self.note_unsafe(word.span, UnsafeKind::Claim);
        }
        let owner = match i.self_ty.as_ref() {
            syn::Type::Path(p) => p.path.segments.last().map(|s| s.ident.to_string()),
            _ => None,
        };
        self.owned(owner, |r| visit::visit_item_impl(r, i));
    }

    fn visit_item_trait(&mut self, t: &'ast syn::ItemTrait) {
        if let Some(word) = t.unsafety {
            self.note_unsafe(word.span, UnsafeKind::Contract);
        }
        self.owned(Some(t.ident.to_string()), |r| visit::visit_item_trait(r, t));
    }

    fn visit_item_foreign_mod(&mut self, m: &'ast syn::ItemForeignMod) {
        if let Some(word) = m.unsafety {
            self.note_unsafe(word.span, UnsafeKind::Claim);
        }
        visit::visit_item_foreign_mod(self, m);
    }

    fn visit_item_const(&mut self, c: &'ast syn::ItemConst) {
        self.constant(|r| visit::visit_item_const(r, c));
    }

    fn visit_item_static(&mut self, s: &'ast syn::ItemStatic) {
        self.constant(|r| visit::visit_item_static(r, s));
    }

    fn visit_impl_item_const(&mut self, c: &'ast syn::ImplItemConst) {
        self.constant(|r| visit::visit_impl_item_const(r, c));
    }

    fn visit_expr_const(&mut self, c: &'ast syn::ExprConst) {
        self.constant(|r| visit::visit_expr_const(r, c));
    }

    fn visit_expr_unsafe(&mut self, e: &'ast syn::ExprUnsafe) {
        self.note_unsafe(e.unsafe_token.span, UnsafeKind::Claim);
        visit::visit_expr_unsafe(self, e);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "unwrap" && call.args.is_empty() {
            self.note_panic(call.method.span(), "unwrap()");
        }
        // A parser of ours may have an `expect(b'(')`; the one that panics has a text argument.
        if call.method == "expect"
            && let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(_), .. })) = call.args.first()
        {
            self.note_panic(call.method.span(), "expect(…)");
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        if m.path.is_ident("panic") {
            self.note_panic(m.path.span(), "panic!");
        }
        self.tokens(m.tokens.clone());
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == wanted)
}

fn is_text(literal: &proc_macro2::Literal) -> bool {
    let printed = literal.to_string();
    printed.starts_with('"') || printed.starts_with("r\"") || printed.starts_with("r#")
}

fn squeeze(meta: &syn::Meta) -> String {
    let path = |p: &syn::Path| p.segments.iter().map(|s| s.ident.to_string()).collect::<Vec<_>>().join("::");
    match meta {
        syn::Meta::List(list) => {
            let inner: String = list.tokens.to_string().split_whitespace().collect();
            format!("{}({inner})", path(&list.path))
        }
        other => path(other.path()),
    }
}

fn is_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("test")
}

/// Whether this is `cfg(test)`, or `cfg(all(…))` with `test` in it: code that only a test build has.
fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    fn only_in_tests(meta: &syn::Meta) -> bool {
        match meta {
            syn::Meta::Path(p) => p.is_ident("test"),
            syn::Meta::List(l) if l.path.is_ident("all") => l
                .parse_args_with(syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
                .is_ok_and(|list| list.iter().any(only_in_tests)),
            _ => false,
        }
    }
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Meta>().is_ok_and(|m| only_in_tests(&m))
}

fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(i) => &i.attrs,
        syn::Item::Enum(i) => &i.attrs,
        syn::Item::Fn(i) => &i.attrs,
        syn::Item::Impl(i) => &i.attrs,
        syn::Item::Macro(i) => &i.attrs,
        syn::Item::Mod(i) => &i.attrs,
        syn::Item::Static(i) => &i.attrs,
        syn::Item::Struct(i) => &i.attrs,
        syn::Item::Trait(i) => &i.attrs,
        syn::Item::Type(i) => &i.attrs,
        syn::Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Source {
        Source::parse("crates/x/src/lib.rs", text).expect("the sample parses")
    }

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let s = read("/// Doc.\n#[inline]\nfn a() {\n    let x = 1;\n}\nimpl T { fn b() {} }\n");
        let (a, b) = (&s.functions[0], &s.functions[1]);
        assert_eq!((a.name.as_str(), a.line, a.lines), ("a", 3, 3));
        assert_eq!((b.name.as_str(), b.line, b.lines), ("T::b", 6, 1));
    }

    #[test]
    fn test_code_is_left_out() {
        let s = read("fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() { None.unwrap() }\n}\n");
        assert_eq!(s.functions.len(), 1);
        assert!(s.panics.is_empty());
        assert_eq!(s.code_lines, 1);
    }

    #[test]
    fn a_feature_beside_test_is_not_test_code() {
        let s = read(
            "#[cfg(any(test, feature = \"x\"))]\nfn a() { None.unwrap() }\n#[cfg(not(test))]\nfn b() {}\n",
        );
        assert_eq!(s.functions.len(), 2);
        assert_eq!(s.panics.len(), 1);
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_test_files() {
        let parse = |path, text| Source::parse(path, text).expect("the sample parses");
        let mut all = vec![
            parse("crates/x/src/lib.rs", "#[cfg(test)]\nmod tests;\nmod name;\n"),
            parse("crates/x/src/name.rs", "#[cfg(test)]\nmod oracle;\n"),
            parse("crates/x/src/name/oracle.rs", "fn f() {}\n"),
            parse("crates/x/src/oracle.rs", "fn f() {}\n"),
        ];
        mark_test_files(&mut all);
        assert_eq!(all.iter().map(|s| s.test_file).collect::<Vec<_>>(), [false, false, true, false]);
    }

    #[test]
    fn panics_are_found_in_calls_and_in_macros() {
        let s =
            read("fn a() {\n x.unwrap();\n y.expect(\"y\");\n assert!(z.unwrap());\n panic!(\"no\");\n}\n");
        let calls: Vec<_> = s.panics.iter().map(|p| (p.line, p.call)).collect();
        assert_eq!(calls, [(2, "unwrap()"), (3, "expect(…)"), (4, "unwrap()"), (5, "panic!")]);
        assert!(s.panics.iter().all(|p| p.function == "a"));
    }

    #[test]
    fn neither_a_parsers_expect_nor_a_constant_counts() {
        let s = read("fn a() { p.expect(b'('); x.unwrap_or(1); }\nconst B: u8 = C.unwrap();\n");
        assert!(s.panics.is_empty(), "{:?}", s.panics);
    }

    #[test]
    fn unsafe_is_found_with_its_kind() {
        let s = read(
            "unsafe fn a() {}\nfn b() {\n    let x =\n        unsafe { 1 };\n    m!(unsafe { 2 });\n}\n\
             unsafe impl Send for T {}\n",
        );
        let found: Vec<_> = s.unsafes.iter().map(|u| (u.line, u.statement, u.kind)).collect();
        assert_eq!(
            found,
            [
                (1, 1, UnsafeKind::Contract),
                (4, 3, UnsafeKind::Claim),
                (5, 5, UnsafeKind::InMacro),
                (7, 7, UnsafeKind::Claim)
            ]
        );
    }

    #[test]
    fn inner_attributes_are_printed_without_spaces() {
        let s = read("//! x\n#![forbid( unsafe_code )]\n#![no_std]\n");
        assert!(s.inner_attributes.contains(&"forbid(unsafe_code)".to_owned()));
        assert!(s.inner_attributes.contains(&"no_std".to_owned()));
    }
}
