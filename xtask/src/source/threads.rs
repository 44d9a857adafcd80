//! Facts about the threads that one Rust file starts, and about the locks of its types. Test code is left
//! out. The rules are in `checks::threads`.
//!
//! A thread is named by `thread::Builder::name`. If that call has a text or a `format!`, also through a local
//! variable or a closure that is called with a text, the name is read here. If a function takes the name as
//! an argument, [`HELPERS`] lists the calls with the text.

use std::collections::HashMap;

use syn::visit::{self, Visit};

/// Functions that start threads with a name from their caller: the function that calls `Builder`, and the
/// function whose first argument is the name.
const HELPERS: &[(&str, &str)] = &[
    ("Background::run", "Lane::new"),
    ("KeptThreads::run", "KeptThreads::new"),
    ("Outgoing::start", "Outgoing::start"),
    ("Starter::spawn", "Starter::start"),
    ("TopThread::resize", "TopThread::new"),
    ("WriterThread::start", "WriterThread::start"),
    ("on_thread", "on_thread"),
];

/// Threads and locks of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Threads {
    /// The names of threads, in the order of the file.
    pub(crate) names: Vec<ThreadName>,
    /// Fields that are a `Mutex` or an `RwLock`, as `Type::field`.
    pub(crate) locks: Vec<String>,
}

/// The name of a thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ThreadName {
    /// Line of the call.
    pub(crate) line: usize,
    /// The readable part of the name.
    pub(crate) text: NameText,
}

/// The readable part of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameText {
    /// The whole name.
    Whole(String),
    /// The part before the first placeholder of a `format!`.
    Prefix(String),
    /// An argument of a function that is not in [`HELPERS`], or unreadable.
    Unknown,
    /// No name: `thread::spawn`.
    Nameless,
}

impl Threads {
    /// Reads a file.
    pub(crate) fn of(file: &syn::File) -> Threads {
        let mut reader = Reader::default();
        reader.visit_file(file);
        reader.found.names.sort_by_key(|name| name.line);
        reader.found
    }
}

#[derive(Default)]
struct Reader {
    found: Threads,
    owner: Option<String>,
    functions: Vec<Function>,
}

/// The current function.
#[derive(Default)]
struct Function {
    /// `name`, or `Type::name` for a method.
    name: String,
    /// Its local variables and their values.
    variables: HashMap<String, syn::Expr>,
    /// Enclosing local closures: the variable, and the parameters.
    closures: Vec<(String, Vec<String>)>,
    /// Local closures whose first argument is the name of a thread.
    naming: Vec<String>,
    /// Calls of local variables: the variable, the line and the first argument.
    calls: Vec<(String, usize, Option<syn::Expr>)>,
}

impl Function {
    /// Returns the thread name that an expression yields; `None` if it is an argument of the function, or a
    /// field.
    fn name_of(&self, expression: &syn::Expr, depth: usize) -> Option<NameText> {
        match expression {
            _ if depth > 8 => Some(NameText::Unknown),
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
                Some(NameText::Whole(text.value()))
            }
            syn::Expr::Reference(inner) => self.name_of(&inner.expr, depth + 1),
            syn::Expr::Paren(inner) => self.name_of(&inner.expr, depth + 1),
            syn::Expr::MethodCall(call) => match (call.method.to_string().as_str(), call.args.first()) {
                ("into" | "to_owned" | "to_string" | "clone", None) => {
                    self.name_of(&call.receiver, depth + 1)
                }
                ("unwrap_or", Some(other)) => self.name_of(other, depth + 1),
                _ => Some(NameText::Unknown),
            },
            syn::Expr::Macro(made) if made.mac.path.is_ident("format") => Some(formatted(&made.mac)),
            syn::Expr::Path(path) => {
                let variable = path.path.get_ident()?.to_string();
                self.name_of(self.variables.get(&variable)?, depth + 1)
            }
            syn::Expr::Field(_) => None,
            _ => Some(NameText::Unknown),
        }
    }
}

/// Returns the beginning of a `format!`.
fn formatted(made: &syn::Macro) -> NameText {
    let first = made.tokens.clone().into_iter().next().map(|token| token.to_string());
    let text = first.and_then(|token| syn::parse_str::<syn::LitStr>(&token).ok()).map(|text| text.value());
    match text {
        None => NameText::Unknown,
        Some(text) => match text.split_once('{') {
            Some((prefix, _)) => NameText::Prefix(prefix.to_owned()),
            None => NameText::Whole(text),
        },
    }
}

impl Reader {
    fn add(&mut self, line: usize, text: NameText) {
        self.found.names.push(ThreadName { line, text });
    }

    /// Records a thread named by this expression.
    fn named(&mut self, line: usize, expression: &syn::Expr) {
        let Some(function) = self.functions.last_mut() else { return };
        if let Some(text) = function.name_of(expression, 0) {
            return self.add(line, text);
        }
        let argument = base(expression);
        if let Some((closure, parameters)) = function.closures.last()
            && argument.is_some_and(|argument| parameters.first() == Some(&argument))
        {
            return function.naming.push(closure.clone());
        }
        if !HELPERS.iter().any(|(starts, _)| *starts == function.name) {
            self.add(line, NameText::Unknown);
        }
    }

    fn function(&mut self, signature: &syn::Signature, walk: impl FnOnce(&mut Self)) {
        let name = match &self.owner {
            Some(owner) => format!("{owner}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        self.functions.push(Function { name, ..Function::default() });
        walk(self);
        let Some(function) = self.functions.pop() else { return };
        let naming = |call: &&(String, usize, Option<syn::Expr>)| function.naming.contains(&call.0);
        for (_, line, argument) in function.calls.iter().filter(naming) {
            let text = argument.as_ref().and_then(|argument| function.name_of(argument, 0));
            self.add(*line, text.unwrap_or(NameText::Unknown));
        }
    }
}

/// Returns the variable in an expression, without calls such as `into()`.
fn base(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        syn::Expr::Reference(inner) => base(&inner.expr),
        syn::Expr::MethodCall(call) => base(&call.receiver),
        _ => None,
    }
}

/// Whether a chain of calls begins with `Builder::new()`.
fn is_of_builder(receiver: &syn::Expr) -> bool {
    match receiver {
        syn::Expr::MethodCall(call) => is_of_builder(&call.receiver),
        syn::Expr::Call(call) => ends(&call.func, "Builder", "new"),
        _ => false,
    }
}

/// Whether a path ends with these two parts.
fn ends(function: &syn::Expr, before: &str, last: &str) -> bool {
    path_of(function).is_some_and(|path| path == format!("{before}::{last}"))
}

/// Returns the last two parts of a path, or the only one.
fn path_of(function: &syn::Expr) -> Option<String> {
    let syn::Expr::Path(path) = function else { return None };
    let parts: Vec<String> = path.path.segments.iter().map(|part| part.ident.to_string()).collect();
    Some(parts[parts.len().saturating_sub(2)..].join("::"))
}

fn variable_of(pattern: &syn::Pat) -> Option<String> {
    match pattern {
        syn::Pat::Ident(one) => Some(one.ident.to_string()),
        syn::Pat::Type(one) => variable_of(&one.pat),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !super::item_attributes(item).iter().any(|a| super::is_cfg_test(a) || super::is_test(a)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = match item.self_ty.as_ref() {
            syn::Type::Path(path) => path.path.segments.last().map(|part| part.ident.to_string()),
            _ => None,
        };
        let before = std::mem::replace(&mut self.owner, owner);
        visit::visit_item_impl(self, item);
        self.owner = before;
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        if !f.attrs.iter().any(super::is_cfg_test) {
            self.function(&f.sig, |reader| visit::visit_impl_item_fn(reader, f));
        }
    }

    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        // A function inside a method does not belong to the method's type.
        let owner = self.owner.take();
        self.function(&f.sig, |reader| visit::visit_item_fn(reader, f));
        self.owner = owner;
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        for field in &item.fields {
            let syn::Type::Path(path) = &field.ty else { continue };
            let is_lock = |part: &syn::PathSegment| part.ident == "Mutex" || part.ident == "RwLock";
            if let Some(name) = field.ident.as_ref().filter(|_| path.path.segments.iter().any(is_lock)) {
                self.found.locks.push(format!("{}::{name}", item.ident));
            }
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let bound = variable_of(&local.pat).zip(local.init.as_ref());
        let Some((variable, init)) = bound else { return visit::visit_local(self, local) };
        if let Some(function) = self.functions.last_mut() {
            function.variables.insert(variable.clone(), syn::Expr::clone(&init.expr));
            if let syn::Expr::Closure(closure) = init.expr.as_ref() {
                let parameters = closure.inputs.iter().filter_map(variable_of).collect();
                function.closures.push((variable, parameters));
                visit::visit_local(self, local);
                self.functions.iter_mut().next_back().map(|function| function.closures.pop());
                return;
            }
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let names = call.method == "thread_name" || call.method == "name" && is_of_builder(&call.receiver);
        if let Some(expression) = call.args.first().filter(|_| names) {
            self.named(call.method.span().start().line, expression);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let (Some(path), Some(function)) = (path_of(&call.func), self.functions.last_mut()) {
            let line = syn::spanned::Spanned::span(&call.func).start().line;
            if path == "thread::spawn" {
                self.add(line, NameText::Nameless);
            } else if HELPERS.iter().any(|(_, named_by)| *named_by == path) {
                let text = call.args.first().and_then(|argument| function.name_of(argument, 0));
                // A helper may pass the name of its own caller on to another.
                let passes_on = text.is_none() && HELPERS.iter().any(|(starts, _)| *starts == function.name);
                if !passes_on {
                    self.add(line, text.unwrap_or(NameText::Unknown));
                }
            } else if !path.contains(':') {
                function.calls.push((path, line, call.args.first().cloned()));
            }
        }
        visit::visit_expr_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Threads {
        Threads::of(&syn::parse_file(text).expect("the sample parses"))
    }

    fn names(text: &str) -> Vec<NameText> {
        read(text).names.into_iter().map(|name| name.text).collect()
    }

    fn whole(name: &str) -> NameText {
        NameText::Whole(name.into())
    }

    #[test]
    fn names_are_read_from_texts_and_variables() {
        assert_eq!(
            names("fn f() { std::thread::Builder::new().name(\"a\".into()).spawn(g); }"),
            [whole("a")]
        );
        assert_eq!(
            names("fn f() { let b = Builder::new().stack_size(1).name(\"a\".to_owned()); }"),
            [whole("a")]
        );
        let text = "fn f() { let name = format!(\"udp-{}\", 1); Builder::new().name(name).spawn(g); }";
        assert_eq!(names(text), [NameText::Prefix("udp-".into())]);
        let text = "fn f() { let n = thread::current().name().unwrap_or(\"a\").to_owned(); \
                    Builder::new().name(n); }";
        assert_eq!(names(text), [whole("a")]);
        assert_eq!(names("fn f() { zone.name(1); key.name(\"k\"); }"), []);
    }

    #[test]
    fn names_are_read_where_a_closure_or_a_helper_is_called() {
        let text = "fn f() { let t = |name: &str| Builder::new().name(name.into());\n \
                    t(\"a\").spawn(g); t(\"b\"); u(\"c\"); }";
        assert_eq!(names(text), [whole("a"), whole("b")]);
        let text = "fn f() { let b = |n| Other::default().thread_name(n); b(\"log\"); }";
        assert_eq!(names(text), [whole("log")]);
        let helper = "impl<R> Outgoing<R> { fn start(name: &str) { Builder::new().name(name.to_owned()); } }";
        assert_eq!(names(helper), []);
        assert_eq!(names("fn f() { net::Outgoing::start(\"forward\", 1); }"), [whole("forward")]);
        assert_eq!(names("fn f(n: &str) { Outgoing::start(n, 1); }"), [NameText::Unknown]);
    }

    #[test]
    fn a_name_that_cannot_be_read_and_a_thread_without_one_are_noted() {
        assert_eq!(names("fn f(name: &str) { Builder::new().name(name.into()); }"), [NameText::Unknown]);
        assert_eq!(names("fn f() { std::thread::spawn(g); }"), [NameText::Nameless]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "#[cfg(test)]\nmod tests { #[test] fn f() { std::thread::spawn(g); } }\n#[test]\n\
                    fn f() { std::thread::spawn(g); }";
        assert_eq!(names(text), []);
    }

    #[test]
    fn fields_that_are_locks_are_listed() {
        let text = "struct A { b: Mutex<u8>, c: std::sync::RwLock<u8>, d: Arc<Mutex<u8>>, e: u8 }";
        assert_eq!(read(text).locks, ["A::b", "A::c"]);
    }
}
