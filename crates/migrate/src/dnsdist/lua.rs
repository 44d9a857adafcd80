//! The declarative part of Lua: calls with literal arguments, and names for values.
//!
//! Everything else, such as functions and conditions, becomes [`LuaItem::Code`], which is not executed.

use std::collections::HashMap;
use std::ops::Range;

use crate::text::{SourceSpan, SyntaxFault, SyntaxFaultKind, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// Most nested values.
const MAX_DEPTH: usize = 30;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LuaValue {
    Text(String),
    /// A number, or a name, such as `true` or `DNSRCode.REFUSED`.
    Word(String),
    /// Members with their keys; the key of a list's member is empty.
    Table(Vec<(String, LuaValue)>),
    /// A call of a function; of a method (`:name`) the first argument is its object.
    Call(String, Vec<LuaValue>),
    /// A value that is computed.
    Other,
}

impl LuaValue {
    /// A text, a number or a name; empty for other values.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Word(text) => text,
            _ => "",
        }
    }

    /// The member of a table with this key.
    pub(super) fn get(&self, key: &str) -> Option<&LuaValue> {
        match self {
            Self::Table(all) => {
                let found = all.iter().find(|(name, _)| name == key).map(|(_, value)| value);
                found.filter(|value| !value.is_nil())
            }
            _ => None,
        }
    }

    /// Whether it is `nil`, which is as no value.
    pub(super) fn is_nil(&self) -> bool {
        matches!(self, Self::Word(word) if word == "nil")
    }

    /// The texts of a list, or of a single value; `None` if one is no literal.
    pub(super) fn texts(&self) -> Option<Vec<String>> {
        match self {
            Self::Text(text) => Some(vec![text.clone()]),
            Self::Table(all) => all
                .iter()
                .map(|(key, value)| match value {
                    Self::Text(text) if key.is_empty() => Some(text.clone()),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }
}

/// A statement.
#[derive(Debug)]
pub(super) enum LuaItem {
    /// A call.
    Call(Statement, String, Vec<LuaValue>),
    /// A name for a value.
    Name(Statement),
    /// Code that is not executed, with its words.
    Code(Statement, Vec<String>),
}

impl LuaItem {
    pub(super) fn statement(&self) -> &Statement {
        match self {
            Self::Call(statement, ..) | Self::Name(statement) | Self::Code(statement, _) => statement,
        }
    }
}

/// Parses a text that has been opened.
pub(super) fn parse(texts: &mut Texts<'_>, number: usize) -> Result<Vec<LuaItem>, SyntaxFault> {
    let text = texts.text(number);
    let tokens = tokens(&text, number)?;
    let mut reader = Reader { tokens: &tokens, at: 0, names: HashMap::new() };
    let mut out = Vec::new();
    while reader.at < tokens.len() {
        let start = reader.at;
        let item = reader.item();
        reader.at = reader.at.max(start + 1);
        let used = &tokens[start..reader.at];
        let span = SourceSpan { text: number, range: used[0].range.start..used[used.len() - 1].range.end };
        if used.iter().all(|token| token.is(";")) {
            continue;
        }
        let words = used.iter().filter(|token| token.kind != TokenKind::Mark).map(|token| SourceWord {
            text: token.text.clone(),
            quoted: token.kind == TokenKind::Text,
            span: SourceSpan { text: number, range: token.range.clone() },
        });
        let statement = Statement { id: texts.number(), parts: words.map(Part::Word).collect(), span };
        out.push(match item {
            Some((name, Some(LuaValue::Call(call, arguments)))) => {
                if !name.is_empty() {
                    let made = LuaValue::Call(call.clone(), arguments.clone());
                    reader.names.insert(name, made);
                }
                LuaItem::Call(statement, call, arguments)
            }
            Some((name, Some(value))) if !name.is_empty() => {
                reader.names.insert(name, value);
                LuaItem::Name(statement)
            }
            _ => LuaItem::Code(statement, used.iter().map(|token| token.text.clone()).collect()),
        });
    }
    Ok(out)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Word,
    Text,
    Mark,
}

#[derive(Debug)]
struct Token {
    kind: TokenKind,
    text: String,
    range: Range<usize>,
    /// Whether it is the first of its line.
    begins: bool,
}

impl Token {
    fn is(&self, mark: &str) -> bool {
        self.kind != TokenKind::Text && self.text == mark
    }
}

/// The tokens of a text, without its comments.
fn tokens(text: &str, number: usize) -> Result<Vec<Token>, SyntaxFault> {
    let (mut out, mut at, mut begins) = (Vec::<Token>::new(), 0, true);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let fault = |kind| SyntaxFault { span: Some(SourceSpan { text: number, range: at..at + 1 }), kind };
        if first == '\n' {
            (at, begins) = (at + 1, true);
            continue;
        }
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if let Some(comment) = rest.strip_prefix("--") {
            at += match long(comment) {
                Some(found) => 2 + found.ok_or_else(|| fault(SyntaxFaultKind::OpenComment))?.1,
                None => rest.find('\n').unwrap_or(rest.len()),
            };
            continue;
        }
        let (kind, value, length) = if let Some(found) = long(rest) {
            let (inner, length) = found.ok_or_else(|| fault(SyntaxFaultKind::OpenString))?;
            (TokenKind::Text, inner.to_owned(), length)
        } else if first == '"' || first == '\'' {
            let (inner, length) = quoted(rest, first).ok_or_else(|| fault(SyntaxFaultKind::OpenString))?;
            (TokenKind::Text, inner, length)
        } else if is_word(first) {
            let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            (TokenKind::Word, rest[..length].to_owned(), length)
        } else {
            (TokenKind::Mark, first.to_string(), first.len_utf8())
        };
        out.push(Token { kind, text: value, range: at..at + length, begins });
        (at, begins) = (at + length, false);
    }
    Ok(out)
}

/// Names keep their dots: `DNSRCode.REFUSED`, `1.5`.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// A long string or comment, `[[…]]` or `[=[…]=]`: its text and length, `Some(None)` if it does not end.
fn long(text: &str) -> Option<Option<(&str, usize)>> {
    let rest = text.strip_prefix('[')?;
    let level = rest.len() - rest.trim_start_matches('=').len();
    let inner = rest[level..].strip_prefix('[')?;
    let end = format!("]{}]", "=".repeat(level));
    Some(inner.find(&end).map(|length| (&inner[..length], 2 + level + length + end.len())))
}

/// A quoted string: its text and length; `None` if it does not end on its line.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let (mut out, mut chars) = (String::new(), text.char_indices().skip(1));
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((out, at + 1)),
            '\n' => return None,
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                c => out.push(c),
            },
            c => out.push(c),
        }
    }
    None
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
    /// Values by their names.
    names: HashMap<String, LuaValue>,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is(mark));
        self.at += usize::from(found);
        found
    }

    /// A statement: the name that it sets, and the value. `None` if it is code, which is passed over.
    fn item(&mut self) -> Option<(String, Option<LuaValue>)> {
        const BLOCKS: [&str; 6] = ["function", "if", "for", "while", "repeat", "do"];
        let start = self.at;
        if self.eat(";") {
            return None;
        }
        self.eat("local");
        if self.peek().is_some_and(|token| BLOCKS.iter().any(|word| token.is(word))) {
            self.block();
            return None;
        }
        let name = match (self.peek(), self.tokens.get(self.at + 1)) {
            (Some(token), Some(next)) if token.kind == TokenKind::Word && next.is("=") => token.text.clone(),
            _ => String::new(),
        };
        self.at += if name.is_empty() { 0 } else { 2 };
        let value = self.value(0).filter(|value| match name.is_empty() {
            true => matches!(value, LuaValue::Call(..)),
            false => *value != LuaValue::Other,
        });
        let ends = self.peek().is_none_or(|token| token.begins || token.is(";"));
        if value.is_none() || !ends {
            // A value that is not read is no value at all.
            self.names.remove(&name);
            self.at = start;
            self.line();
            return None;
        }
        Some((name, value))
    }

    /// Passes over a block of code to its end.
    fn block(&mut self) {
        let mut depth = 0usize;
        while let Some(token) = self.peek() {
            self.at += 1;
            match token.text.as_str() {
                "function" | "if" | "do" | "repeat" if token.kind == TokenKind::Word => depth += 1,
                "end" | "until" if token.kind == TokenKind::Word => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                // `until` has a condition behind it.
                while self.peek().is_some_and(|token| !token.begins && !token.is(";")) {
                    self.at += 1;
                }
                return;
            }
        }
    }

    /// Passes over a statement that is not read: to the next line outside all brackets and blocks.
    fn line(&mut self) {
        let (start, mut depth) = (self.at, 0i32);
        while let Some(token) = self.peek() {
            if self.at > start && depth <= 0 && (token.begins || token.is(";")) {
                return;
            }
            match token.text.as_str() {
                _ if token.kind == TokenKind::Text => {}
                "(" | "{" | "[" | "function" | "if" | "do" | "repeat" => depth += 1,
                ")" | "}" | "]" | "end" | "until" => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<LuaValue> {
        if depth > MAX_DEPTH {
            return None;
        }
        let minus = self.eat("-");
        let token = self.peek()?;
        self.at += 1;
        let mut value = match token.kind {
            TokenKind::Text => LuaValue::Text(token.text.clone()),
            TokenKind::Word if ["function", "not"].contains(&token.text.as_str()) => return None,
            TokenKind::Word if minus => LuaValue::Word(format!("-{}", token.text)),
            TokenKind::Word => match self.names.get(&token.text) {
                Some(value) => value.clone(),
                None => LuaValue::Word(token.text.clone()),
            },
            TokenKind::Mark if token.text == "{" => LuaValue::Table(self.members("}", depth)?),
            TokenKind::Mark if token.text == "(" => {
                let value = self.value(depth + 1)?;
                self.eat(")").then_some(value)?
            }
            TokenKind::Mark => return None,
        };
        loop {
            let token = self.peek();
            let same_line = token.is_some_and(|token| !token.begins);
            let word = match &value {
                LuaValue::Word(word) => Some(word.clone()),
                _ => None,
            };
            let mark = token.filter(|token| token.kind == TokenKind::Mark).map(|token| token.text.as_str());
            value = match (mark, word) {
                (Some("("), Some(name)) if same_line => {
                    self.at += 1;
                    LuaValue::Call(name, self.arguments(depth)?)
                }
                // A table or a text alone needs no brackets.
                (Some("{"), Some(name)) if same_line => LuaValue::Call(name, vec![self.single(depth)?]),
                (_, Some(name)) if same_line && token.is_some_and(|token| token.kind == TokenKind::Text) => {
                    LuaValue::Call(name, vec![self.single(depth)?])
                }
                (Some(":"), _) => {
                    let method =
                        self.tokens.get(self.at + 1).filter(|token| token.kind == TokenKind::Word)?;
                    self.at += 2;
                    self.eat("(").then_some(())?;
                    let mut all = vec![value];
                    all.extend(self.arguments(depth)?);
                    LuaValue::Call(format!(":{}", method.text), all)
                }
                _ => return Some(value),
            };
        }
    }

    /// The only argument of a call without brackets.
    fn single(&mut self, depth: usize) -> Option<LuaValue> {
        let token = self.peek()?;
        self.at += 1;
        match token.kind {
            TokenKind::Text => Some(LuaValue::Text(token.text.clone())),
            _ => Some(LuaValue::Table(self.members("}", depth)?)),
        }
    }

    fn arguments(&mut self, depth: usize) -> Option<Vec<LuaValue>> {
        let all = self.members(")", depth)?;
        Some(all.into_iter().map(|(_, value)| value).collect())
    }

    /// Values with their keys, after an opening bracket.
    fn members(&mut self, end: &str, depth: usize) -> Option<Vec<(String, LuaValue)>> {
        let mut out = Vec::new();
        while !self.eat(end) {
            let mut key = String::new();
            if self.eat("[") {
                key = self.value(depth + 1)?.text().to_owned();
                (self.eat("]") && self.eat("=")).then_some(())?;
            } else if self.tokens.get(self.at + 1).is_some_and(|next| next.is("=")) {
                key = self.peek()?.text.clone();
                self.at += 2;
            }
            let value = self.value(depth + 1)?;
            let ends = [",", ";", end].iter().any(|mark| self.peek().is_some_and(|token| token.is(mark)));
            let value = match ends {
                true => value,
                false => self.computed(end)?,
            };
            out.push((key, value));
            let _ = self.eat(",") || self.eat(";");
        }
        Some(out)
    }

    /// Passes over the rest of a computed value.
    fn computed(&mut self, end: &str) -> Option<LuaValue> {
        let mut depth = 0i32;
        loop {
            let token = self.peek()?;
            let is_end = [",", ";", end].iter().any(|mark| token.is(mark));
            if depth == 0 && is_end {
                return Some(LuaValue::Other);
            }
            match token.text.as_str() {
                _ if token.kind == TokenKind::Text => {}
                "(" | "{" | "[" => depth += 1,
                ")" | "}" | "]" => depth -= 1,
                _ => {}
            }
            if depth < 0 {
                return None;
            }
            self.at += 1;
        }
    }
}
