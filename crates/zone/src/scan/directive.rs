//! `$ORIGIN`, `$INCLUDE` (RFC 1035 §5.1), `$TTL` (RFC 2308 §4).

use super::entry::{EntryPlace, OpenFile, Scanner, Stop, Trouble, bad_ttl, quoted_field, show};
use super::fault::FaultKind;
use super::{Sink, TextSource, ends_twice_in, words};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use wire::name::NameBuf;
use wire::text::Token;

/// Deepest nesting of included files with any configuration: each level takes stack and a file descriptor.
const MAX_INCLUDE_DEPTH: usize = 64;

impl<S: Sink> Scanner<'_, S> {
    /// Carries out a directive: an entry whose first token begins with `$`.
    pub(super) fn directive<'w>(
        &mut self,
        file: &mut OpenFile,
        here: &EntryPlace<'w>,
        tokens: &[Token<'w>],
    ) -> Result<(), Stop> {
        let Some((&word, arguments)) = tokens.split_first() else { return Ok(()) };
        let is = |name: &str| word.bytes.eq_ignore_ascii_case(name.as_bytes());
        let done = if is("$ORIGIN") {
            self.set_origin(file, here, tokens, arguments)
        } else if is("$TTL") {
            self.set_ttl(file, here, tokens, arguments)
        } else if is("$INCLUDE") {
            match self.include(file, here, tokens, arguments) {
                Ok(ended) => return ended,
                Err(trouble) => Err(trouble),
            }
        } else if is("$GENERATE") {
            match self.generate(file, here, tokens, arguments) {
                Ok(ended) => return ended,
                Err(trouble) => Err(trouble),
            }
        } else {
            let message = format!("unknown directive {}", show(word.bytes));
            let note = "the directives are $ORIGIN, $TTL, $INCLUDE and $GENERATE; write \\$ for an owner that \
                        begins with $";
            Err(Trouble::at(word, FaultKind::UnknownDirective, message).with_note(note))
        };
        done.or_else(|trouble| self.add_fault(file, here, trouble))
    }

    fn set_origin<'w>(
        &mut self,
        file: &mut OpenFile,
        here: &EntryPlace<'w>,
        tokens: &[Token<'w>],
        arguments: &[Token<'w>],
    ) -> Result<(), Box<Trouble<'w>>> {
        let (origin, rest) = argument(tokens, arguments, "$ORIGIN needs a domain name")?;
        nothing_more(rest)?;
        file.origin = name(file, origin)?;
        if ends_twice_in(file.origin.as_name(), self.config.origin.as_name()) {
            let message = format!("the origin is {}: the name lacks its final dot", file.origin);
            self.warn(file, here, Trouble::at(origin, FaultKind::OriginTwice, message));
        }
        file.owner.text.clear(); // the same text now is another name
        Ok(())
    }

    fn set_ttl<'w>(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'w>,
        tokens: &[Token<'w>],
        arguments: &[Token<'w>],
    ) -> Result<(), Box<Trouble<'w>>> {
        let (token, rest) = argument(tokens, arguments, "$TTL needs a number of seconds")?;
        nothing_more(rest)?;
        if token.quoted {
            return Err(quoted_field(token));
        }
        let seconds = words::ttl(token.bytes).ok_or_else(|| bad_ttl(token))?;
        self.default_ttl = Some(self.ttl_of(file, here, token, seconds));
        Ok(())
    }

    /// Scans another file in place of the directive. It begins with the owner before the directive, and a
    /// `$TTL` in it stays in force afterwards, both as in BIND. Origin and owner are then restored (RFC 1035
    /// §5.1).
    fn include<'w>(
        &mut self,
        file: &mut OpenFile,
        here: &EntryPlace<'w>,
        tokens: &[Token<'w>],
        arguments: &[Token<'w>],
    ) -> Result<Result<(), Stop>, Box<Trouble<'w>>> {
        let (token, rest) = argument(tokens, arguments, "$INCLUDE needs a file")?;
        let (origin, rest) = match rest.split_first() {
            Some((&origin, rest)) => (name(file, origin)?, rest),
            None => (file.origin, rest),
        };
        nothing_more(rest)?;
        let limits = &self.config.limits;
        let Some(dir) = &file.include_dir else {
            return Err(Trouble::at(token, FaultKind::IncludeForbidden, "$INCLUDE is allowed only in files"));
        };
        if file.depth >= limits.include_depth.min(MAX_INCLUDE_DEPTH) {
            let message = format!(
                "files include each other more than {} deep",
                limits.include_depth.min(MAX_INCLUDE_DEPTH)
            );
            return Err(Trouble::at(token, FaultKind::IncludeTooDeep, message)
                .with_note("perhaps a file includes itself"));
        }
        if self.included >= limits.includes {
            let message = format!("more than {} files included", limits.includes);
            return Err(Trouble::at(token, FaultKind::TooManyIncludes, message));
        }
        self.included += 1;
        let path = dir.join(path(token));
        let source = TextSource::file(&*path);
        let mut inner = self.enter(&source, origin);
        inner.depth = file.depth + 1;
        inner.owner = file.owner.inherited();
        let line = here.entry.line;
        let mut from = format!("included from {}:{line}", file.name);
        if let Some(outer) = file.included_from.as_deref() {
            let _ = write!(from, ", {}", outer.trim_start_matches("included "));
        }
        inner.included_from = Some(from.into());
        let opened = source.open().map_err(|e| {
            let message = format!("cannot read {}: {e}", show(path.as_os_str().as_bytes()));
            Trouble::at(token, FaultKind::CannotRead, message)
        })?;
        self.owner_changed = true;
        let ended = self.file(&mut inner, opened);
        self.owner_changed = true;
        Ok(ended)
    }
}

/// Returns the first of `arguments`, and the rest.
pub(super) fn argument<'w, 't>(
    tokens: &[Token<'w>],
    arguments: &'t [Token<'w>],
    needs: &str,
) -> Result<(Token<'w>, &'t [Token<'w>]), Box<Trouble<'w>>> {
    match arguments.split_first() {
        Some((&token, rest)) if !token.bytes.is_empty() => Ok((token, rest)),
        Some((&token, _)) => Err(Trouble::at(token, FaultKind::MissingArgument, needs)),
        None => Err(Trouble::after(tokens, FaultKind::MissingArgument, needs)),
    }
}

fn nothing_more<'w>(rest: &[Token<'w>]) -> Result<(), Box<Trouble<'w>>> {
    match rest.first() {
        Some(&token) => {
            let message = format!("{} is one argument too many", show(token.bytes));
            Err(Trouble::at(token, FaultKind::ExtraArgument, message))
        }
        None => Ok(()),
    }
}

fn name<'w>(file: &OpenFile, token: Token<'w>) -> Result<NameBuf, Box<Trouble<'w>>> {
    if token.quoted {
        return Err(quoted_field(token));
    }
    NameBuf::from_text(token.bytes, Some(file.origin.as_name())).map_err(|e| {
        let message = format!("{} is not a domain name: {e}", show(token.bytes));
        Trouble::at(token, FaultKind::BadOrigin(e), message)
    })
}

/// Returns a file name: any bytes, with `\X` and `\DDD` as everywhere in a zone file.
fn path(token: Token<'_>) -> PathBuf {
    let mut bytes = Vec::with_capacity(token.bytes.len());
    let mut text = token.bytes.iter();
    while let Some(&byte) = text.next() {
        let escaped = text.as_slice();
        let number = escaped.first_chunk::<3>().and_then(|d| std::str::from_utf8(d).ok()?.parse::<u8>().ok());
        match number {
            Some(number) if byte == b'\\' => {
                bytes.push(number);
                text = escaped[3..].iter();
            }
            _ if byte == b'\\' => bytes.extend(text.next()),
            _ => bytes.push(byte),
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}
