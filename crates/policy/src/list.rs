//! Block and allow lists as text: hosts files, domains, adblock syntax, response policy zones.
//!
//! | format | lines |
//! |---|---|
//! | hosts | an unspecified or loopback address (`0.0.0.0`, `127.0.0.1`, `::`, `::1`), then names |
//! | domains | a name, which covers itself; `*.name` or `.name`, which cover all names below, too |
//! | adblock | <code>&#124;&#124;name^</code>, which covers the name and all below; patterns; regular expressions between slashes; `@@` before them exempts; modifiers after `$` |
//!
//! | RPZ | records of a response policy zone ([`zone_text`](crate::zone_text)) |
//!
//! [`ListFormat::Auto`] takes a text that begins like a zone as one, and else the lines of all others.
//! Comments begin with `#` or `!`. A line that cannot be
//! used is skipped and counted, and the first such lines are reported with their place.

use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow;

use wire::{LowerName, LowerNameBuf, Name, NameBuf};

use crate::adblock::{self, Adblock, MaskText, ModifierFault};
use crate::conditions::{Choice, Condition};
use crate::local_data::Rewriting;
use crate::patterns::{Mask, NamePatternFault, Pattern, PatternRoom, Regex};
use crate::rewrites::RewriteText;
use crate::rule::{MAX_FAULTS, RuleEffect, RuleReach};
use crate::zone_text::{self, ZoneRule, ZoneText, ZoneTextFault};

/// Most bytes of a line.
const MAX_LINE: usize = 4096;
/// Names that hosts files have for the host itself.
const OWN_NAMES: [&[u8]; 10] = [
    b"localhost",
    b"localhost.localdomain",
    b"local",
    b"broadcasthost",
    b"ip6-localhost",
    b"ip6-loopback",
    b"ip6-localnet",
    b"ip6-mcastprefix",
    b"ip6-allnodes",
    b"ip6-allrouters",
];

/// The syntax of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// Each line as it looks.
    #[default]
    Auto,
    /// A hosts file.
    Hosts,
    /// Domains.
    Domains,
    /// Adblock syntax.
    Adblock,
    /// A response policy zone.
    Rpz,
}

/// Why a line is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFault {
    /// More than 4096 bytes.
    TooLong,
    /// Not a domain name.
    Name,
    /// An address of a host.
    Address,
    /// A hosts line without a name.
    NoName,
    /// A pattern or a regular expression that cannot be used.
    Pattern(NamePatternFault),
    /// A modifier that cannot be used.
    Modifier(ModifierFault),
    /// A record of a response policy zone that is no rule of a list.
    Zone(ZoneTextFault),
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::TooLong => "the line has more than 4096 bytes",
            Self::Name => "not a domain name",
            Self::Address => {
                "a list can only block names: the address is not 0.0.0.0, ::, or a loopback address"
            }
            Self::NoName => "no name after the address",
            Self::Pattern(fault) => return fault.fmt(f),
            Self::Modifier(fault) => return fault.fmt(f),
            Self::Zone(fault) => return fault.fmt(f),
        };
        f.write_str(text)
    }
}
impl std::error::Error for LineFault {}

impl From<NamePatternFault> for LineFault {
    fn from(fault: NamePatternFault) -> Self {
        LineFault::Pattern(fault)
    }
}

impl From<ModifierFault> for LineFault {
    fn from(fault: ModifierFault) -> Self {
        LineFault::Modifier(fault)
    }
}

impl From<ZoneTextFault> for LineFault {
    fn from(fault: ZoneTextFault) -> Self {
        LineFault::Zone(fault)
    }
}

/// What a list holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReport {
    /// Number of rules.
    pub rules: usize,
    /// Number of lines with rules for browsers, which have no meaning in the DNS.
    pub ignored: usize,
    /// Number of lines with a fault.
    pub faults: usize,
    /// The first of them: number of the line, from 1 on, and the reason.
    pub first: Vec<(usize, LineFault)>,
}

/// Why a list is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListFault {
    /// It has no rule and no comment: it is empty.
    Empty,
    /// More lines have a fault than have a rule: it is something else, such as an error page.
    NoList(ListReport),
}

impl fmt::Display for ListFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the list is empty"),
            Self::NoList(ListReport { rules, faults, first, .. }) => {
                write!(f, "not a list: {faults} lines cannot be used, and {rules} can")?;
                first.first().map_or(Ok(()), |(line, fault)| write!(f, "; line {line}: {fault}"))
            }
        }
    }
}
impl std::error::Error for ListFault {}

/// A rule of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListRule<'n> {
    /// Number of its line, from 1 on.
    pub(crate) line: usize,
    pub(crate) covered: Covered<'n>,
    pub(crate) reach: RuleReach,
    /// With an answer of its own, that of the rule without it.
    pub(crate) effect: RuleEffect,
    /// The answer of its own.
    pub(crate) rewrite: Option<&'n RewriteText>,
    pub(crate) condition: &'n Condition,
    /// Whether it belongs to the rule before, and is not counted.
    pub(crate) is_second: bool,
}

impl ListRule<'_> {
    /// Returns the effect in a list that exempts names or does not. `number` returns the number of an answer
    /// of its own; `None` for all answers.
    pub(crate) fn effect_in(
        &self,
        exempts: bool,
        number: impl FnOnce(&RewriteText) -> Option<Rewriting>,
    ) -> RuleEffect {
        match (self.rewrite.map(number), self.effect) {
            (Some(Some(to)), RuleEffect::Block { important }) if !exempts => {
                RuleEffect::Rewrite { to, important }
            }
            (Some(of), RuleEffect::Block { important } | RuleEffect::Allow { important }) => {
                RuleEffect::KeepAnswer { of, important }
            }
            (_, RuleEffect::Block { important }) if exempts => RuleEffect::Allow { important },
            (_, RuleEffect::Disable { important, .. }) if exempts => {
                RuleEffect::Disable { exempts, important }
            }
            (_, effect) => effect,
        }
    }
}

/// What a rule of a list is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Covered<'n> {
    Name(LowerName<'n>),
    Pattern(&'n Pattern),
}

/// The default effect of a rule.
const BLOCK: RuleEffect = RuleEffect::Block { important: false };

/// Reads a list, and calls `each` with every rule until it breaks; the report is then of the lines so far.
/// Takes the memory of its patterns from `room`; without one, no regular expression is compiled, and a list
/// is read again with little work.
///
/// # Errors
/// The text is not a list.
pub(crate) fn read(
    text: &[u8],
    format: ListFormat,
    room: Option<&mut PatternRoom>,
    mut each: impl FnMut(ListRule<'_>) -> ControlFlow<()>,
) -> Result<ListReport, ListFault> {
    let mut report = ListReport::default();
    let mut flow = ControlFlow::Continue(());
    // Some lists begin with a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let is_zone = format == ListFormat::Rpz || format == ListFormat::Auto && zone_text::is_zone(text);
    let zone = is_zone.then(ZoneText::new);
    let mut reader = LineReader { format, number: 0, name: LowerNameBuf::ROOT, room, zone };
    let mut is_empty = true;
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        // A record without an owner begins with a space.
        let line = if is_zone { line.trim_ascii_end() } else { line.trim_ascii() };
        is_empty &= line.is_empty();
        if reader.zone.as_ref().is_none_or(|zone| !zone.is_open()) {
            reader.number = number;
        }
        let outcome = reader.line(line, |rule| {
            report.rules += usize::from(!rule.is_second);
            if flow.is_continue() {
                flow = each(rule);
            }
        });
        if flow.is_break() {
            return Ok(report);
        }
        match outcome {
            Ok(Line::Used) => {}
            Ok(Line::Ignored) => report.ignored += 1,
            Err(fault) => {
                report.faults += 1;
                if report.first.len() < MAX_FAULTS {
                    report.first.push((reader.number, fault));
                }
            }
        }
    }
    match report {
        _ if is_empty => Err(ListFault::Empty),
        ListReport { rules, faults, .. } if faults > rules => Err(ListFault::NoList(report)),
        _ => Ok(report),
    }
}

/// Reads a list, and reports what it holds.
///
/// # Errors
/// The text is not a list.
pub fn check_list(text: &[u8], format: ListFormat) -> Result<ListReport, ListFault> {
    read(text, format, Some(&mut PatternRoom::default()), |_| ControlFlow::Continue(()))
}

/// Returns the first line of a list with a rule for this name, or if there is none with a pattern that it
/// matches: its number, from 1 on.
pub fn line_of(text: &[u8], format: ListFormat, name: LowerName<'_>) -> Option<usize> {
    let (mut named, mut matched) = (None, None);
    let find = |rule: ListRule<'_>| {
        match rule.covered {
            _ if matches!(rule.effect, RuleEffect::Disable { .. }) => {}
            Covered::Name(of) if of == name => {
                named = Some(rule.line);
                return ControlFlow::Break(());
            }
            Covered::Pattern(pattern) if matched.is_none() && pattern.matches(name) => {
                matched = Some(rule.line);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    // `read` calls `find` also for a text that it rejects at the end.
    let _ = read(text, format, None, find);
    named.or(matched)
}

/// The result of a line without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Its rules are passed on, or it is a comment.
    Used,
    /// It is for browsers.
    Ignored,
}

/// Reads lines, one after the other.
struct LineReader<'r> {
    format: ListFormat,
    /// Number of the line.
    number: usize,
    /// The last name.
    name: LowerNameBuf,
    /// The memory that patterns may still take.
    room: Option<&'r mut PatternRoom>,
    /// The state of a response policy zone, if the list is one.
    zone: Option<ZoneText>,
}

/// The condition of rules without one.
const ALWAYS: &Condition = &Condition {
    types: Choice { named: Vec::new(), excluded: Vec::new() },
    clients: Choice { named: Vec::new(), excluded: Vec::new() },
    tags: Choice { named: Vec::new(), excluded: Vec::new() },
    left_out: Vec::new(),
};

impl LineReader<'_> {
    fn line(&mut self, line: &[u8], each: impl FnMut(ListRule<'_>)) -> Result<Line, LineFault> {
        if self.zone.is_some() {
            return self.record(line, each);
        }
        match line {
            [] | [b'#' | b'!', ..] => return Ok(Line::Used),
            [b'[', .., b']'] if self.format != ListFormat::Hosts => return Ok(Line::Used),
            _ if line.len() > MAX_LINE => return Err(LineFault::TooLong),
            _ => {}
        }
        match self.format {
            ListFormat::Rpz => self.record(line, each),
            ListFormat::Hosts => self.hosts(line, each),
            ListFormat::Domains => self.domain(line, each),
            ListFormat::Adblock => self.adblock(line, each),
            ListFormat::Auto => {
                let first = line.split(u8::is_ascii_whitespace).next().unwrap_or(line);
                if first.len() < line.len() && address(first).is_some() {
                    return self.hosts(line, each);
                }
                let rule = without_comment(line).trim_ascii_end();
                if is_cosmetic(line) || rule.iter().any(|byte| b"|@^$/".contains(byte)) {
                    self.adblock(line, each)
                } else if rule.is_empty() || self.is_domain(rule) {
                    self.domain(line, each)
                } else {
                    self.adblock(rule, each)
                }
            }
        }
    }

    /// Reads a line of a response policy zone.
    fn record(&mut self, text: &[u8], mut each: impl FnMut(ListRule<'_>)) -> Result<Line, LineFault> {
        let Some(zone) = &mut self.zone else { return Ok(Line::Used) };
        let Some((trigger, rule)) = zone.line(text)? else { return Ok(Line::Used) };
        let (covered, reach) = (Covered::Name(trigger.name()), trigger.reach);
        let (line, condition) = (self.number, ALWAYS);
        let mut each = |effect, rewrite, is_second| {
            each(ListRule { line, covered, reach, effect, rewrite, condition, is_second });
        };
        let allow = RuleEffect::Allow { important: false };
        match &rule {
            ZoneRule::Block => each(BLOCK, None, false),
            // The answer is for query names, and the block for targets of aliases.
            ZoneRule::NoData => {
                each(BLOCK, None, false);
                each(BLOCK, Some(&zone_text::NO_DATA), true);
            }
            // Answers come before exceptions: they need one of their own.
            ZoneRule::Passthru => {
                each(allow, None, false);
                each(allow, Some(&RewriteText::All), true);
            }
            ZoneRule::Answer(record) => each(BLOCK, Some(record), false),
        }
        Ok(Line::Used)
    }

    fn hosts(&mut self, text: &[u8], mut each: impl FnMut(ListRule<'_>)) -> Result<Line, LineFault> {
        let (text, line) = (without_comment(text), self.number);
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(first) = words.next() else { return Ok(Line::Used) };
        let address = address(first).ok_or(LineFault::Address)?;
        let mut names = words.peekable();
        names.peek().ok_or(LineFault::NoName)?;
        let mut outcome = Ok(Line::Used);
        for name in names {
            // A hosts file of a system has these with their real addresses.
            if OWN_NAMES.iter().any(|own| own.eq_ignore_ascii_case(name)) || name == first {
                continue;
            }
            if !address.is_unspecified() && !address.is_loopback() {
                return Err(LineFault::Address);
            }
            match self.name(name) {
                Ok(name) => each(ListRule {
                    line,
                    covered: Covered::Name(name),
                    reach: RuleReach::Name,
                    effect: BLOCK,
                    rewrite: None,
                    condition: ALWAYS,
                    is_second: false,
                }),
                Err(fault) => outcome = Err(fault),
            }
        }
        outcome
    }

    fn domain(&mut self, text: &[u8], mut each: impl FnMut(ListRule<'_>)) -> Result<Line, LineFault> {
        let (word, line) = (without_comment(text).trim_ascii_end(), self.number);
        if word.is_empty() {
            return Ok(Line::Used);
        }
        let (name, reach) = self.domain_name(word)?;
        let (covered, effect, condition) = (Covered::Name(name), BLOCK, ALWAYS);
        let is_second = false;
        each(ListRule { line, covered, reach, effect, rewrite: None, condition, is_second });
        Ok(Line::Used)
    }

    /// Reads a name without a mark of adblock syntax, and which names it covers.
    fn domain_name(&mut self, word: &[u8]) -> Result<(LowerName<'_>, RuleReach), LineFault> {
        let (name, reach) = match word {
            [b'*', b'.', name @ ..] | [b'.', name @ ..] if self.format != ListFormat::Adblock => {
                (name, RuleReach::NameAndBelow)
            }
            name => (name, RuleReach::Name),
        };
        Ok((self.name_but_no_address(name)?, reach))
    }

    /// Whether a text without marks of adblock syntax is a name, and not a part of names: one with a wildcard
    /// or a label such as `-ads-` alone.
    fn is_domain(&self, word: &[u8]) -> bool {
        let name = match (self.format, word) {
            (ListFormat::Adblock, [b'.', ..]) => return false,
            (ListFormat::Auto, [b'*', b'.', name @ ..]) => name,
            (_, name) => name,
        };
        let is_part = !name.contains(&b'.') && (name.starts_with(b"-") || name.ends_with(b"-"));
        !is_part && !name.iter().any(|byte| b"*|^/".contains(byte))
    }

    fn adblock(&mut self, text: &[u8], mut each: impl FnMut(ListRule<'_>)) -> Result<Line, LineFault> {
        let read = adblock::read(text);
        let is_regex = matches!(read, Ok(Some(Adblock { mask: MaskText::Regex(_), .. })));
        if !is_regex && is_cosmetic(text) {
            return Ok(Line::Ignored);
        }
        let Some(Adblock { exempts, mask, modifiers }) = read? else { return Ok(Line::Ignored) };
        let important = modifiers.important;
        let effect = match (modifiers.badfilter, exempts) {
            (true, _) => RuleEffect::Disable { exempts, important },
            (false, true) => RuleEffect::Allow { important },
            (false, false) => RuleEffect::Block { important },
        };
        let (line, condition, rewrite) = (self.number, &modifiers.condition, modifiers.rewrite.as_ref());
        let mut each = |covered, reach| {
            let is_second = false;
            each(ListRule { line, covered, reach, effect, rewrite, condition, is_second });
        };
        let mask = match mask {
            MaskText::Regex(regex) => {
                let pattern = Pattern::Regex(Regex::read(regex, self.room.as_deref_mut())?);
                each(Covered::Pattern(&pattern), RuleReach::Pattern);
                return Ok(Line::Used);
            }
            MaskText::Mask(name) if !exempts && modifiers.are_none() && self.is_domain(name) => {
                let (name, reach) = self.domain_name(name)?;
                each(Covered::Name(name), reach);
                return Ok(Line::Used);
            }
            MaskText::Mask(mask) => Mask::read(mask, *condition != *ALWAYS)?,
        };
        match mask {
            Mask::Name(name, reach) => each(Covered::Name(self.name_but_no_address(&name)?), reach),
            Mask::All => each(Covered::Name(LowerNameBuf::ROOT.as_lower()), RuleReach::NameAndBelow),
            Mask::Glob(glob) => {
                let pattern = Pattern::Glob(glob);
                if let Some(room) = &mut self.room {
                    room.take(pattern.bytes())?;
                }
                each(Covered::Pattern(&pattern), RuleReach::Pattern);
            }
        }
        Ok(Line::Used)
    }

    fn name_but_no_address(&mut self, text: &[u8]) -> Result<LowerName<'_>, LineFault> {
        if address(text).is_some() { Err(LineFault::Name) } else { self.name(text) }
    }

    /// Reads a name of letters, digits, hyphens and underscores, with or without a dot at the end.
    fn name(&mut self, text: &[u8]) -> Result<LowerName<'_>, LineFault> {
        let is_plain = text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
        let name = NameBuf::from_text(text, Some(Name::ROOT)).map_err(|_| LineFault::Name)?;
        if !is_plain || name.as_name().is_root() {
            return Err(LineFault::Name);
        }
        self.name.set(name.as_name());
        Ok(self.name.as_lower())
    }
}

/// Reads an address.
fn address(word: &[u8]) -> Option<IpAddr> {
    // Most words are names: they do not begin like an address.
    word.first().filter(|byte| byte.is_ascii_hexdigit() || **byte == b':')?;
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns a line up to a comment behind the text.
fn without_comment(line: &[u8]) -> &[u8] {
    line.iter().position(|byte| *byte == b'#').map_or(line, |at| &line[..at])
}

/// Whether a line is a rule about the elements of pages: it has a marker such as `##`, `#@#` or `#?#`.
fn is_cosmetic(line: &[u8]) -> bool {
    let mut from = line;
    while let Some(at) = from.iter().position(|byte| *byte == b'#') {
        from = &from[at + 1..];
        if matches!(from, [b'#', ..] | [b'@' | b'?' | b'$' | b'%', ..])
            && from.iter().take(4).any(|byte| *byte == b'#')
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Rules = Vec<(String, RuleReach, RuleEffect)>;

    fn read_all(text: &str, format: ListFormat) -> (Rules, Result<ListReport, ListFault>) {
        let mut rules = Vec::new();
        let mut room = PatternRoom::default();
        let report =
            read(text.as_bytes(), format, Some(&mut room), |ListRule { covered, reach, effect, .. }| {
                let covered = match covered {
                    Covered::Name(name) => name.as_name().to_string(),
                    Covered::Pattern(pattern) => format!("{pattern:?}"),
                };
                rules.push((covered, reach, effect));
                ControlFlow::Continue(())
            });
        (rules, report)
    }

    /// The rules of one line.
    fn line(text: &str, format: ListFormat) -> Result<Rules, LineFault> {
        let (rules, report) = read_all(&format!("# a list\n{text}\n"), format);
        match report {
            Ok(ListReport { first, .. }) | Err(ListFault::NoList(ListReport { first, .. })) => {
                first.first().map_or(Ok(rules), |(number, fault)| {
                    assert_eq!(*number, 2);
                    Err(fault.clone())
                })
            }
            Err(ListFault::Empty) => panic!("it has a comment"),
        }
    }

    fn block(name: &str, reach: RuleReach) -> (String, RuleReach, RuleEffect) {
        (name.into(), reach, BLOCK)
    }

    const AUTO: ListFormat = ListFormat::Auto;

    #[test]
    fn a_hosts_file_blocks_names_of_unspecified_and_loopback_addresses() {
        let text = "\
            127.0.0.1 localhost\n\
            ::1 ip6-localhost ip6-loopback\n\
            0.0.0.0 0.0.0.0\n\
            0.0.0.0 Ads.Example.com tracker.example.net. # both\n\
            :: six.example\n";
        let names = ["ads.example.com.", "tracker.example.net.", "six.example."];
        for format in [AUTO, ListFormat::Hosts] {
            let (rules, report) = read_all(text, format);
            assert_eq!(rules, names.map(|name| block(name, RuleReach::Name)), "{format:?}");
            assert_eq!(report, Ok(ListReport { rules: 3, ..ListReport::default() }), "{format:?}");
        }
    }

    #[test]
    fn a_hosts_file_sets_no_address_of_a_name() {
        assert_eq!(line("192.0.2.1 bank.example", AUTO), Err(LineFault::Address));
        assert_eq!(line("2001:db8::1 bank.example", ListFormat::Hosts), Err(LineFault::Address));
        assert_eq!(line("192.0.2.1 localhost", ListFormat::Hosts), Ok(vec![]));
        assert_eq!(line("0.0.0.0", ListFormat::Hosts), Err(LineFault::NoName));
        assert_eq!(line("ads.example", ListFormat::Hosts), Err(LineFault::Address));
    }

    #[test]
    fn domains_cover_themselves_and_with_a_star_what_is_below() {
        for format in [AUTO, ListFormat::Domains] {
            let of = |text| line(text, format);
            assert_eq!(of("ads.example # why"), Ok(vec![block("ads.example.", RuleReach::Name)]));
            assert_eq!(of("*.ads.example"), Ok(vec![block("ads.example.", RuleReach::NameAndBelow)]));
            assert_eq!(of(".ads.example"), Ok(vec![block("ads.example.", RuleReach::NameAndBelow)]));
            assert_eq!(of("_x-1.ads.example."), Ok(vec![block("_x-1.ads.example.", RuleReach::Name)]));
            assert_eq!(of("-x-.example"), Ok(vec![block("-x-.example.", RuleReach::Name)]));
            for bad in ["a..example", "a b.example", ".", "192.0.2.1", "é.example"] {
                assert_eq!(of(bad), Err(LineFault::Name), "{bad}");
            }
        }
        for bad in ["*.*.example", "*", "ads*.example"] {
            assert_eq!(line(bad, ListFormat::Domains), Err(LineFault::Name), "{bad}");
        }
    }

    #[test]
    fn adblock_rules_have_anchors_exceptions_and_importance() {
        let rule = |name: &str, reach, effect| Ok(vec![(name.to_owned(), reach, effect)]);
        for format in [AUTO, ListFormat::Adblock] {
            for (text, reach, effect) in [
                ("||ads.example^", RuleReach::NameAndBelow, BLOCK),
                ("||ads.example^|", RuleReach::NameAndBelow, BLOCK),
                ("||*.ads.example^", RuleReach::Below, BLOCK),
                ("|ads.example^", RuleReach::Name, BLOCK),
                ("|ads.example|", RuleReach::Name, BLOCK),
                ("ads.example", RuleReach::Name, BLOCK),
                ("||ads.example^$important", RuleReach::NameAndBelow, RuleEffect::Block { important: true }),
                ("@@||ads.example^", RuleReach::NameAndBelow, RuleEffect::Allow { important: false }),
                ("@@|ads.example^$important", RuleReach::Name, RuleEffect::Allow { important: true }),
            ] {
                assert_eq!(line(text, format), rule("ads.example.", reach, effect), "{text} {format:?}");
            }
        }
    }

    /// A pattern that a name says as well is that name.
    #[test]
    fn patterns_are_names_where_they_can_be() {
        for format in [AUTO, ListFormat::Adblock] {
            for (text, name, reach) in [
                ("||ADS.example^*", "ads.example.", RuleReach::NameAndBelow),
                (".ads.example^", "ads.example.", RuleReach::Below),
                ("*.ads.example|", "ads.example.", RuleReach::Below),
                ("||*^", ".", RuleReach::NameAndBelow),
                ("/ads[0-9]+/", "", RuleReach::Pattern),
                ("||ads.*.example^", "", RuleReach::Pattern),
                ("||ads.example", "", RuleReach::Pattern),
                ("ads.example^", "", RuleReach::Pattern),
                ("-ads-", "", RuleReach::Pattern),
                ("*ads*", "", RuleReach::Pattern),
                ("@@ads.example", "", RuleReach::Pattern),
                ("ads.example$important", "", RuleReach::Pattern),
                ("ads.example$badfilter", "ads.example.", RuleReach::Name),
            ] {
                let found = line(text, format).expect(text);
                assert_eq!(found.len(), 1, "{text}");
                assert_eq!(found[0].1, reach, "{text} {format:?}");
                assert!(name.is_empty() || found[0].0 == name, "{text} {format:?}: {}", found[0].0);
            }
        }
    }

    #[test]
    fn rules_that_cannot_be_used_have_a_reason() {
        for (text, reason) in [
            ("||example.com/ads^", "the pattern matches no name: names do not have the character '/'"),
            ("/banner/ad.", "the pattern matches no name: names do not have the character '/'"),
            ("||bücher*.example^", "the pattern matches no name: names do not have the character 'ü'"),
            ("||ads^example", "the pattern matches no name: it goes on behind \"^\" or \"|\""),
            ("||", "the pattern covers nearly every name; it needs a modifier such as $dnstype"),
            ("@@*", "the pattern covers nearly every name; it needs a modifier such as $dnstype"),
            (
                "/ads(?!x)/",
                "the regular expression cannot be used: look-around, including look-ahead and \
                look-behind, is not supported",
            ),
            ("/ads(/", "the regular expression cannot be used: unclosed group"),
            ("/(a{1000}){1000}/", "the regular expression needs more than 1 MiB of memory"),
            ("/a.{0,20}b.{0,20}c.{0,20}d/", "the regular expression needs more than 1 MiB of memory"),
            ("||ads.example^$importnt", "unknown modifier \"importnt\""),
            (
                "||ads.example^$important=1",
                "the modifier $important has no value, or one that it cannot have",
            ),
            ("||ads.example^$ctag=", "$ctag: \"\" is not a name"),
            ("||ads.example^$ctag", "the modifier $ctag has no value, or one that it cannot have"),
            ("||ads.example^$dnsrewrite", "$dnsrewrite: it has no value"),
            ("||ads.example^$dnsrewrite=192.0.2", "$dnsrewrite: \"192.0.2\" is not a value of its type"),
            ("@@||ads.example^$dnsrewrite,badfilter", "$dnsrewrite: $badfilter cannot disable it"),
            ("||ads.example^$dnstype=AX", "$dnstype: \"AX\" is not a record type"),
            ("||ads.example^$dnstype=", "$dnstype: \"\" is not a record type"),
            ("||ads.example^$denyallow=a b", "$denyallow: \"a b\" is not a domain name"),
            (
                "||ads.example^$client=192.0.2.1/24",
                "$client: \"192.0.2.1/24\": there are bits behind the length; the network is 192.0.2.0/24",
            ),
        ] {
            let fault = line(text, AUTO).expect_err(text);
            assert_eq!(fault.to_string(), reason, "{text}");
        }
        let nested = format!("/{}a{}/", "(".repeat(1000), ")".repeat(1000));
        assert!(matches!(line(&nested, AUTO), Err(LineFault::Pattern(NamePatternFault::Syntax(_)))));
        let long = format!("||{}*^", "a".repeat(254));
        assert_eq!(line(&long, AUTO), Err(LineFault::Pattern(NamePatternFault::TooLong)));
        let longer = format!("/{}/", "a".repeat(1_000_000));
        assert_eq!(line(&longer, AUTO), Err(LineFault::TooLong));
    }

    #[test]
    fn patterns_that_are_too_large_do_not_cost_the_others() {
        let text = "||ads*.example^\n".to_owned() + &"/(a{1000}){1000}/\n".repeat(200) + "one.example\n";
        let (rules, report) = read_all(&(text + &"# or\nx.example\n".repeat(300)), AUTO);
        let report = report.expect("more rules than faults");
        assert_eq!((rules.len(), report.faults), (302, 200));
        // Memory and time of all patterns are bounded: after 64 such expressions there is none left.
        let mut room = PatternRoom::default();
        let found: Vec<_> = (0..100).map(|_| Regex::read(b"(a{1000}){1000}", Some(&mut room))).collect();
        assert_eq!(found[0], Err(NamePatternFault::TooLarge));
        assert_eq!(found[99], Err(NamePatternFault::Full));
    }

    #[test]
    fn rules_for_browsers_are_counted_and_do_nothing() {
        let text = "[Adblock Plus 2.0]\n! Title: x\nexample.com##.ad\n##.banner\nexample.com#@#.ad\n\
            ||ads.example^$third-party\n||ads.example^$~script,important\n/a##b/##.ad\n||one.example^\n";
        let (rules, report) = read_all(text, AUTO);
        assert_eq!(rules, [block("one.example.", RuleReach::NameAndBelow)]);
        assert_eq!(report, Ok(ListReport { rules: 1, ignored: 5, ..ListReport::default() }));
    }

    #[test]
    fn faults_are_counted_and_the_first_ten_are_shown() {
        let text = (0..40).map(|n| format!("n{n}.example\n")).collect::<String>() + &"a b\n".repeat(30);
        let (rules, report) = read_all(&text, AUTO);
        assert_eq!(rules.len(), 40);
        let report = report.expect("more rules than faults");
        assert_eq!((report.rules, report.faults, report.first.len()), (40, 30, MAX_FAULTS));
        assert_eq!(report.first[9], (50, LineFault::Name));
        let long = format!("{}.example", "a".repeat(MAX_LINE));
        assert_eq!(line(&long, AUTO), Err(LineFault::TooLong));
    }

    #[test]
    fn the_line_of_a_rule_is_found() {
        let text = b"# one\n0.0.0.0 a.example b.example\n||c.example^\n0.0.0.0 a.example\n||d*.example^\n\
            e.example$badfilter\n/^e.?\\.example$/\nd2.example\n";
        let line = |name: &str| {
            let name: NameBuf = name.parse().expect("a name");
            line_of(text, AUTO, name.as_name().to_lower().as_lower())
        };
        let names = ["a.example.", "B.example.", "c.example.", "d1.example.", "d2.example.", "e.example."];
        assert_eq!(names.map(line), [Some(2), Some(2), Some(3), Some(5), Some(8), Some(7)]);
        assert_eq!(line("example."), None);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let page = "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head>\n<body>\n<h1>Not \
            Found</h1>\n</body>\n</html>\n";
        let (rules, report) = read_all(page, AUTO);
        assert!(matches!(report, Err(ListFault::NoList(_))), "{report:?}");
        assert_eq!(rules, []);
        assert_eq!(read_all("", AUTO).1, Err(ListFault::Empty));
        assert_eq!(read_all(" \n\r\n", AUTO).1, Err(ListFault::Empty));
        assert_eq!(read_all("# nothing yet\n", AUTO).1, Ok(ListReport::default()));
    }

    #[test]
    fn names_of_the_greatest_length_are_read() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        assert_eq!(line(&longest, AUTO), Ok(vec![block(&format!("{longest}."), RuleReach::Name)]));
        assert_eq!(line(&format!("{longest}b"), AUTO), Err(LineFault::Name));
        assert_eq!(line(&format!("a{label}.example"), AUTO), Err(LineFault::Name));
    }

    proptest! {
        #[test]
        fn every_name_of_a_list_is_a_name(text in "[a-zA-Z0-9.*|^$@#/ \n_-]{0,200}", bytes: Vec<u8>) {
            for format in [AUTO, ListFormat::Hosts, ListFormat::Domains, ListFormat::Adblock] {
                for text in [text.as_bytes(), &bytes] {
                    let mut rules = 0;
                    let report = read(text, format, Some(&mut PatternRoom::default()), |rule| {
                        rules += 1;
                        if let Covered::Name(name) = rule.covered {
                            assert!(LowerName::new(Name::from_wire(name.as_wire()).expect("a name")).is_ok());
                        }
                        ControlFlow::Continue(())
                    });
                    if let Ok(report) = report {
                        assert_eq!(report.rules, rules);
                    }
                }
            }
        }
    }
}
