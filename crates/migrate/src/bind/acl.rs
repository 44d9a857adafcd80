//! Client lists (`address_match_list`): which clients pass, in nomen's syntax.

use std::collections::HashMap;

use crate::ledger::Coverage;
use crate::network::{Client, Member, Network, is_for_all, passes, refusals};
use crate::tree::{Part, SourceWord, Statement};
use crate::work::Work;

/// Lists by name.
pub(crate) type Acls<'t> = HashMap<String, &'t [Statement]>;

/// Most nested lists.
const MAX_DEPTH: usize = 16;

/// Words for clients that depend on the host.
const HERE: [(&str, &str); 2] = [("localhost", "loopback"), ("localnets", "attached")];

/// The words of a member: whether it refuses, and the remaining words.
fn words(member: &Statement) -> (bool, Vec<&SourceWord>) {
    let mut words: Vec<&SourceWord> = member.words().collect();
    let mut deny = false;
    while words.first().is_some_and(|word| word.text == "!" && !word.quoted) {
        words.remove(0);
        deny = !deny;
    }
    (deny, words)
}

/// The members of a list; reports those whose clients cannot be determined.
pub(super) fn members(work: &mut Work, acls: &Acls<'_>, list: &[Statement], depth: usize) -> Vec<Member> {
    // nomen answers no message that a key has signed which it does not have.
    read(work, acls, list, depth, &Client::Networks(Vec::new()))
}

/// [`members`], with this client for keys that nomen does not have.
fn read(work: &mut Work, acls: &Acls<'_>, list: &[Statement], depth: usize, of_key: &Client) -> Vec<Member> {
    let mut out = Vec::new();
    for member in list {
        let (deny, words) = words(member);
        let text = words.first().map_or("", |word| word.text.as_str());
        let inner = member.parts.iter().find_map(|part| match part {
            Part::Block(block) => Some(block.as_slice()),
            Part::Word(_) => None,
        });
        if depth > MAX_DEPTH {
            work.ledger.part(&member.span, text, Coverage::Missing, "lists stand too deep within each other");
            out.push(Member { deny, client: Client::Unknown });
            continue;
        }
        let client = match (text, inner) {
            ("", Some(block)) => Client::List(read(work, acls, block, depth + 1, of_key)),
            ("key", None) if words.len() == 2 => match work.known_key(&member.span, &words[1].text) {
                Some(key) => Client::Key(key),
                None => of_key.clone(),
            },
            // `none` is `! any`, and `! none` is `any`.
            ("any" | "none", None) => Client::Networks(Network::all().into()),
            ("localhost", None) => {
                let how = "here it is 127.0.0.1 and ::1, not this machine's other addresses";
                work.ledger.part(&member.span, text, Coverage::Differs, how);
                Client::Own
            }
            ("localnets", None) => Client::Attached,
            (text, None) => match (Network::parse(text), acls.get(text)) {
                (Some(network), _) => Client::Networks(vec![network]),
                (None, Some(list)) => Client::List(read(work, acls, list, depth + 1, of_key)),
                (None, None) => unknown(work, member, text),
            },
            (text, Some(_)) => unknown(work, member, text),
        };
        let deny = deny != (text == "none" && inner.is_none());
        out.push(Member { deny, client });
    }
    out
}

fn unknown(work: &mut Work, member: &Statement, text: &str) -> Client {
    let why = match text {
        "geoip" => "nomen does not know where addresses are",
        _ => "nomen cannot say who that is",
    };
    work.ledger.part(&member.span, &member.title(), Coverage::Missing, why);
    Client::Unknown
}

/// The clients that pass, as members of a list such as `allow-transfer`. Clients that nomen cannot express do
/// not pass.
pub(crate) fn grants(
    work: &mut Work,
    acls: &Acls<'_>,
    statement: &Statement,
    list: &[Statement],
) -> Vec<String> {
    let members = members(work, acls, list, 0);
    if names_attached(&members) {
        let why = "there is no word for the networks of this machine here; write them as addresses";
        work.ledger.part(&statement.span, &statement.title(), Coverage::Missing, why);
    }
    match passes(&members) {
        Some(passes) => passes.iter().map(ToString::to_string).collect(),
        None => {
            let why = "it refuses clients in a form that nomen lacks; no client passes";
            work.ledger.part(&statement.span, &statement.title(), Coverage::Narrower, why);
            Vec::new()
        }
    }
}

/// Whether a list names the networks that the host is attached to.
fn names_attached(list: &[Member]) -> bool {
    list.iter().any(|member| match &member.client {
        Client::Attached => true,
        Client::List(inner) => names_attached(inner),
        _ => false,
    })
}

/// The networks that pass, for keys that accept only networks.
pub(crate) fn networks(work: &mut Work, acls: &Acls<'_>, statement: &Statement) -> Vec<String> {
    let all = grants(work, acls, statement, statement.block());
    let (keys, networks): (Vec<String>, Vec<String>) =
        all.into_iter().partition(|text| text.contains("key:"));
    if !keys.is_empty() {
        let why = "keys do not count here, only networks";
        work.ledger.part(&statement.span, &statement.title(), Coverage::Missing, why);
    }
    match networks.iter().any(|text| text == "any") {
        true => vec!["0.0.0.0/0".into(), "::/0".into()],
        false => networks,
    }
}

/// Whether a list permits every client.
pub(super) fn for_all(acls: &Acls<'_>, list: &[Statement]) -> bool {
    // The list is reported where it is translated.
    is_for_all(&read(&mut Work::default(), acls, list, 0, &Client::Unknown))
}

/// The networks that a list permits, if they can be expressed exactly.
pub(super) fn exact(acls: &Acls<'_>, list: &[Statement]) -> Option<Vec<Network>> {
    refusals(&read(&mut Work::default(), acls, list, 0, &Client::Unknown))
}

/// Adds `[[resolver.access]]` blocks for clients that pass both lists. Returns whether this can be expressed.
pub(super) fn access_both(work: &mut Work, acls: &Acls<'_>, lists: [&[Statement]; 2]) -> bool {
    if for_all(acls, lists[1]) {
        return access(work, acls, lists[0]);
    }
    if for_all(acls, lists[0]) {
        return access(work, acls, lists[1]);
    }
    for (named, other) in [(lists[0], lists[1]), (lists[1], lists[0])] {
        // Refuses all clients outside one list first; the other list then decides.
        if let Some(left) = exact(acls, named).and_then(|networks| Network::complement(&networks)) {
            left.iter().for_each(|network| work.nomen.grant("refuse", network.to_string()));
            return access(work, acls, other);
        }
    }
    same(lists[0], lists[1]) && access(work, acls, lists[0])
}

/// Whether two lists have the same words.
fn same(left: &[Statement], right: &[Statement]) -> bool {
    same_of(&left.iter().collect::<Vec<_>>(), &right.iter().collect::<Vec<_>>())
}

/// [`same`] for statements from several places.
pub(super) fn same_of(left: &[&Statement], right: &[&Statement]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| {
            let words = left.words().map(|word| &word.text).eq(right.words().map(|word| &word.text));
            let (mut of_left, mut of_right) = (left.blocks(), right.blocks());
            words
                && loop {
                    match (of_left.next(), of_right.next()) {
                        (None, None) => break true,
                        (Some(left), Some(right)) if same(left, right) => {}
                        _ => break false,
                    }
                }
        })
}

/// Adds `[[resolver.access]]` blocks; the first match decides, as in BIND. Returns whether everything could
/// be expressed.
pub(crate) fn access(work: &mut Work, acls: &Acls<'_>, list: &[Statement]) -> bool {
    access_within(work, acls, list, 0, false)
}

/// [`access`] for a list at nesting depth `depth`. `followed`: members of the outer list follow it.
fn access_within(work: &mut Work, acls: &Acls<'_>, list: &[Statement], depth: usize, followed: bool) -> bool {
    for (number, member) in list.iter().enumerate() {
        let (deny, words) = words(member);
        let text = words.first().map_or("", |word| word.text.as_str());
        let block = member.blocks().next();
        let deny = deny != (text == "none" && block.is_none());
        if deny && followed {
            let why =
                "within a list, it leaves its clients to what stands behind that list; here they may not ask";
            work.ledger.part(&member.span, &member.title(), Coverage::Narrower, why);
        }
        let action = if deny { "refuse" } else { "allow" };
        let named = acls.get(text).copied();
        let here = HERE.iter().find(|(word, _)| *word == text);
        if let Some((word, here)) = here {
            // nomen's `loopback` is narrower than BIND's `localhost`, so it may permit but not refuse.
            if deny && *word == "localhost" {
                return stop(work, member);
            }
            work.nomen.grant(action, *here);
        } else if (text == "any" || text == "none") && block.is_none() {
            work.nomen.grant(action, "any");
        } else if let Some(network) = Network::parse(text).filter(|_| block.is_none()) {
            match network.is_mapped() {
                false => work.nomen.grant(action, network.to_string()),
                // nomen would treat it as the IPv4 addresses themselves, which BIND does not.
                true => unknown_client(work, member),
            }
        } else if let (false, Some(inner), true) = (deny, named.or(block), depth < MAX_DEPTH) {
            let followed = followed || number + 1 < list.len();
            if !access_within(work, acls, inner, depth + 1, followed) {
                return false;
            }
        } else if let (true, Some(inner)) = (deny, named.or(block)) {
            let inner = members(work, acls, inner, depth + 1);
            let Some(refused) = refusals(&inner) else { return stop(work, member) };
            refused.iter().for_each(|network| work.nomen.grant("refuse", network.to_string()));
        } else if deny {
            return stop(work, member);
        } else {
            unknown_client(work, member);
        }
    }
    true
}

fn unknown_client(work: &mut Work, member: &Statement) {
    let why = "clients of recursion are known by their addresses here, and cannot be named otherwise";
    work.ledger.part(&member.span, &member.title(), Coverage::Missing, why);
}

/// Reports a refusal that cannot be expressed: no client after it passes.
fn stop(work: &mut Work, member: &Statement) -> bool {
    let why = "this refusal cannot be said here; no client behind it may ask";
    work.ledger.part(&member.span, &member.title(), Coverage::Narrower, why);
    false
}
