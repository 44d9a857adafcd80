//! Random rules against a matcher that compares texts character by character, without tables and automata.

use std::net::IpAddr;

use policy::{ListFormat, NameKeys, RuleBuilder, RuleEffect, SourceId};
use proptest::prelude::*;
use wire::Type;

use super::{decide, key};

/// A rule as its parts.
#[derive(Clone, Debug)]
struct Line {
    exempts: bool,
    important: bool,
    mask: Mask,
    types: Option<(bool, Vec<Type>)>,
    clients: Option<(bool, u8)>,
    left_out: Option<String>,
}

#[derive(Clone, Debug)]
enum Mask {
    Glob(&'static str, String, &'static str),
    Regex(bool, Vec<(Atom, &'static str)>, bool),
}

/// A part of a regular expression that matches one character.
#[derive(Clone, Copy, Debug)]
enum Atom {
    Char(char),
    Any,
    AOrB,
    NotA,
}

impl Atom {
    fn text(self) -> String {
        match self {
            Atom::Char('.') => "\\.".into(),
            Atom::Char(c) => c.into(),
            Atom::Any => ".".into(),
            Atom::AOrB => "[AB]".into(),
            Atom::NotA => "[^a]".into(),
        }
    }

    fn is(self, c: char) -> bool {
        match self {
            Atom::Char(own) => own == c,
            Atom::Any => true,
            Atom::AOrB => c == 'a' || c == 'b',
            Atom::NotA => c != 'a',
        }
    }
}

/// Whether a pattern with wildcards matches the start of a text, or all of it.
fn glob(pattern: &str, text: &str, whole: bool) -> bool {
    let rest = |text: &str| text.chars().skip(1).collect::<String>();
    match (pattern.chars().next(), text.chars().next()) {
        (None, c) => c.is_none() || !whole,
        (Some('*'), c) => {
            glob(&rest(pattern), text, whole) || c.is_some() && glob(pattern, &rest(text), whole)
        }
        (Some(own), c) => c == Some(own) && glob(&rest(pattern), &rest(text), whole),
    }
}

/// Whether a regular expression matches the start of a text, or all of it.
fn regex(atoms: &[(Atom, &str)], text: &str, whole: bool) -> bool {
    let Some(((atom, repeat), rest)) = atoms.split_first() else { return text.is_empty() || !whole };
    let here = |from: &[(Atom, &str)]| {
        let mut chars = text.chars();
        chars.next().is_some_and(|c| atom.is(c)) && regex(from, chars.as_str(), whole)
    };
    match *repeat {
        "*" => regex(rest, text, whole) || here(atoms),
        "?" => regex(rest, text, whole) || here(rest),
        "+" => here(rest) || here(atoms),
        _ => here(rest),
    }
}

impl Line {
    fn is_plain(&self) -> bool {
        let Line { exempts, important, types, clients, left_out, .. } = self;
        !exempts && !important && types.is_none() && clients.is_none() && left_out.is_none()
    }

    fn text(&self) -> String {
        let sign = |excludes: bool| if excludes { "~" } else { "" };
        let mut modifiers = Vec::new();
        if let Some((excludes, types)) = &self.types {
            let types: Vec<_> = types.iter().map(|rtype| format!("{}{rtype}", sign(*excludes))).collect();
            modifiers.push(format!("dnstype={}", types.join("|")));
        }
        if self.important {
            modifiers.push("important".into());
        }
        if let Some((excludes, last)) = self.clients {
            modifiers.push(format!("client={}192.0.2.{last}", sign(excludes)));
        }
        if let Some(name) = &self.left_out {
            modifiers.push(format!("denyallow={name}|x.invalid"));
        }
        let mask = match &self.mask {
            Mask::Glob(start, body, end) => format!("{start}{body}{end}"),
            Mask::Regex(start, atoms, end) => {
                let [start, end] = [(start, "^"), (end, "$")].map(|(is, text)| if *is { text } else { "" });
                let atoms = atoms.iter().map(|(atom, repeat)| format!("{}{repeat}", atom.text()));
                format!("/{start}{}{end}/", atoms.collect::<String>())
            }
        };
        let (dollar, modifiers) = (if modifiers.is_empty() { "" } else { "$" }, modifiers.join(","));
        format!("{}{mask}{dollar}{modifiers}", if self.exempts { "@@" } else { "" })
    }

    fn covers(&self, name: &str) -> bool {
        let starts = || (0..=name.len()).map(|at| name.split_at(at));
        match &self.mask {
            Mask::Glob("", body, "")
                if self.is_plain() && !body.strip_prefix("*.").unwrap_or(body).contains('*') =>
            {
                let of = body.strip_prefix("*.").or(body.strip_prefix('.')).unwrap_or(body);
                name == of || of != body && name.ends_with(&format!(".{of}")) && !of.starts_with('.')
            }
            Mask::Glob(start, body, end) => {
                let is_narrow = self.types.is_some() || self.clients.is_some() || self.left_out.is_some();
                if start.len() + body.len() + end.len() < 3 && !is_narrow {
                    return false;
                }
                starts().any(|(before, text)| match *start {
                    "|" => before.is_empty() && glob(body, text, !end.is_empty()),
                    "||" => (before.is_empty() || before.ends_with('.')) && glob(body, text, !end.is_empty()),
                    _ => glob(body, text, !end.is_empty()),
                })
            }
            Mask::Regex(start, atoms, end) => {
                starts().any(|(before, text)| (!start || before.is_empty()) && regex(atoms, text, *end))
            }
        }
    }

    /// The rank of its effect, if it applies.
    fn rank(&self, name: &str, qtype: Type, client: u8) -> Option<u8> {
        let Line { exempts, important, types, clients, left_out, .. } = self;
        let applies = types.as_ref().is_none_or(|(excludes, types)| types.contains(&qtype) != *excludes)
            && clients.is_none_or(|(excludes, last)| (last == client) != excludes)
            && left_out.as_ref().is_none_or(|of| name != of && !name.ends_with(&format!(".{of}")));
        (applies && self.covers(name)).then_some(1 + u8::from(*exempts) + 2 * u8::from(*important))
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]{1,3}", 1..4).prop_map(|labels| labels.join("."))
}

fn mask() -> impl Strategy<Value = Mask> {
    let start = prop::sample::select(vec!["", "|", "||"]);
    let end = prop::sample::select(vec!["", "^", "|", "^|", "^*"]);
    // A name is read with or without the dot of the root: the masks here have none at the end.
    let body = prop_oneof!["[ab.*]{0,5}[ab*]", name(), name().prop_map(|name| format!("*.{name}"))];
    let atom = prop_oneof![
        3 => prop::sample::select(vec!['a', 'b', '.']).prop_map(Atom::Char),
        1 => Just(Atom::Any),
        1 => Just(Atom::AOrB),
        1 => Just(Atom::NotA),
    ];
    let repeat = prop::sample::select(vec!["", "", "", "*", "?", "+"]);
    prop_oneof![
        3 => (start, body, end).prop_map(|(start, body, end)| Mask::Glob(start, body, end)),
        1 => (any::<bool>(), prop::collection::vec((atom, repeat), 1..6), any::<bool>())
            .prop_map(|(start, atoms, end)| Mask::Regex(start, atoms, end)),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    let types = prop::sample::subsequence(vec![Type::A, Type::AAAA, Type::MX], 1..3);
    let conditions = (
        prop::option::weighted(0.2, (any::<bool>(), types)),
        prop::option::weighted(0.1, (any::<bool>(), 0..2u8)),
        prop::option::weighted(0.1, name()),
    );
    (prop::bool::weighted(0.3), prop::bool::weighted(0.2), mask(), conditions).prop_map(
        |(exempts, important, mask, (types, clients, left_out))| Line {
            exempts,
            important,
            mask,
            types,
            clients,
            left_out,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn rules_decide_as_a_walk_over_their_texts(
        lists in prop::collection::vec(prop::collection::vec(line(), 1..6), 1..3),
        asked in prop::collection::vec((name(), 0..3usize, 0..2u8), 1..12),
        kept: bool,
    ) {
        let keys = NameKeys::new(key());
        let mut builder = RuleBuilder::new(keys);
        for (source, lines) in (0..).zip(&lists) {
            // Some masks match no name and are faults: other lines keep the text a list.
            let text: String = lines.iter().map(|line| format!("{}\nx.invalid\n", line.text())).collect();
            builder.list(SourceId(source), ListFormat::Auto, text.as_bytes(), false).expect("a list");
        }
        let mut rules = builder.build();
        if kept {
            let mut again = RuleBuilder::new(keys);
            (0..lists.len() as u8).rev().for_each(|source| again.keep(SourceId(source + 3), &rules, SourceId(source)));
            rules = again.build();
        }
        for (name, qtype, client) in asked {
            let qtype = [Type::A, Type::AAAA, Type::MX][qtype];
            let wanted = lists.iter().flatten().filter_map(|line| line.rank(&name, qtype, client)).max();
            let address = IpAddr::from([192, 0, 2, client]);
            let found = decide(&rules, &format!("{name}."), qtype, Some(address)).list;
            let found = found.map(|found| match found.rule.effect {
                RuleEffect::Block { important } => 1 + 2 * u8::from(important),
                RuleEffect::Allow { important } => 2 + 2 * u8::from(important),
                other => panic!("{other:?}"),
            });
            let texts: Vec<_> = lists.iter().flatten().map(Line::text).collect();
            prop_assert_eq!(found, wanted, "{} {} {}: {:?}", name, qtype, client, texts);
        }
    }
}
