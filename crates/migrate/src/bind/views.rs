//! Views of named.conf: `[[view]]` with the clients of each, and recursion for the clients of some.
//!
//! In BIND the first view whose lists match decides. In nomen a key that views name decides first, whatever
//! the address. So a key is named if it is in one view from all addresses. A client whose view cannot be
//! expressed is in a view without zones, where it gets no answer.

use std::collections::HashSet;

use super::{Frame, acl, collect, is_of_other_class, options, policy, zones};
use crate::addresses::AddressSet;
use crate::clients::{PLACES, Permitted, Place, keys, permitted};
use crate::ledger::Coverage;
use crate::model::Keys;
use crate::network::{Client, Member, Network};
use crate::tree::Statement;
use crate::units;
use crate::work::{Work, domain};

/// Most views of nomen.
const MAX_VIEWS: usize = 64;
/// Statements that decide which clients a view has.
const MATCHES: [&str; 3] = ["match-clients", "match-destinations", "match-recursive-only"];
/// Statements that may differ between views with the same resolver.
const OWN: [&str; 4] = ["recursion", "allow-recursion", "allow-query-cache", "allow-query"];

/// A view of the source.
struct SourceView<'t> {
    statement: &'t Statement,
    /// Its `match-clients`, with all members.
    clients: Vec<Member>,
    /// Whether its clients can be expressed. If not, no zones are served to them.
    is_known: bool,
    /// Its name in nomen; `None` if no client is in it.
    name: Option<String>,
    frame: Frame<'t>,
}

impl SourceView<'_> {
    fn title(&self) -> &str {
        self.statement.value()
    }

    /// Whether the source offers recursion to clients of the view.
    fn recurses(&self) -> bool {
        let found = self.frame.global("recursion");
        found.is_none_or(|found| units::switch(found.value()) != Some(false))
    }

    /// The clients that `match-clients` matches. Of a view whose clients cannot be expressed: all that may be
    /// in it.
    fn matched(&self, key: Option<&str>, place: Place) -> AddressSet {
        let found = permitted(&self.clients, key, place);
        if self.is_known { found.surely } else { found.maybe }
    }
}

/// Converts views, and all statements that depend on them. Returns the frame for the settings of the server.
pub(super) fn convert<'t>(work: &mut Work, frame: &Frame<'t>, statements: &[&'t Statement]) -> Frame<'t> {
    let mut views = read(work, frame, statements);
    clients(work, &mut views);
    let main = recursion(work, frame, &mut views);
    options::options(work, &main);
    let names: Vec<(String, Option<String>)> =
        views.iter().map(|view| (view.title().to_owned(), view.name.clone())).collect();
    let mut policies = HashSet::new();
    for view in &mut views {
        view.frame.view_names.clone_from(&names);
        zones_of(work, view, &mut policies);
    }
    catalogs(work, &views);
    policy::response_policy(work, &main);
    for view in &views {
        settings(work, view);
    }
    main
}

/// Reads the views, with the keys that they define.
fn read<'t>(work: &mut Work, frame: &Frame<'t>, statements: &[&'t Statement]) -> Vec<SourceView<'t>> {
    let mut frames: Vec<Frame<'t>> = Vec::new();
    for view in statements {
        let mut own = frame.clone();
        own.scopes.push(view);
        collect(work, view.block(), &mut own);
        frames.push(own);
    }
    let mut out = Vec::new();
    for (statement, frame) in statements.iter().zip(frames) {
        work.ledger.open(statement);
        let found = statement.find("match-clients");
        let clients = match found {
            Some(found) => acl::members(work, &frame.acls, found.block(), 0),
            None => vec![Member { deny: false, client: Client::Networks(Network::all().into()) }],
        };
        if let Some(found) = found {
            work.ledger.translated(found, "`from` of [[view]]");
        }
        let limits = [
            statement.find("match-destinations").filter(|found| !acl::for_all(&frame.acls, found.block())),
            statement
                .find("match-recursive-only")
                .filter(|found| units::switch(found.value()) != Some(false)),
        ];
        for limit in limits.into_iter().flatten() {
            let why = "a view of nomen has no such condition: its zones are left out, and its clients get no \
                       answers";
            work.ledger.narrower(limit, why);
        }
        for found in MATCHES.iter().filter_map(|key| statement.find(key)) {
            if !work.ledger.is_seen(found) {
                work.ledger.unneeded(found, "nomen does so anyway");
            }
        }
        let is_known = limits.iter().all(Option::is_none) && is_expressible(&clients);
        if !is_known && limits.iter().all(Option::is_none) {
            let why = "`from` of [[view]] cannot say which clients it has: its zones are left out, and clients \
                       that may be in it get no answers";
            work.ledger.narrower(found.unwrap_or(statement), why);
        }
        out.push(SourceView { statement, clients, is_known, name: None, frame });
    }
    out
}

/// Whether `from` can express the clients without a key: networks, and all attached networks or none.
fn is_expressible(clients: &[Member]) -> bool {
    let of = |key, place| permitted(clients, key, place);
    let keys = keys(clients).into_iter().map(Some).chain([None]);
    let is_exact = keys.into_iter().all(|key| PLACES.iter().all(|place| of(key, *place).is_exact()));
    let [elsewhere, attached, own] = PLACES.map(|place| of(None, place).surely);
    // Addresses of the host that are neither listed nor on loopback are not in the view, which is reported.
    is_exact && (attached == elsewhere || attached.is_all()) && own.covers(&attached)
}

/// Names the views and writes `[[view]]` for those with clients.
fn clients(work: &mut Work, views: &mut [SourceView<'_>]) {
    let (mut of_views, ambiguous) = keys_of(views);
    let mut taken: HashSet<String> = HashSet::new();
    if !ambiguous.is_empty() {
        let mut block = Keys::default();
        block.text("name", name("not-moved", &mut taken));
        block.texts("from", ambiguous.iter().map(|key| format!("key:{key}")).collect());
        work.nomen.views.push(block);
        for view in views.iter() {
            if let Some(found) = view.statement.find("match-clients")
                && keys(&view.clients).iter().any(|key| ambiguous.iter().any(|other| other == key))
            {
                let why = format!(
                    "in nomen a key is in one view, whatever the address: queries that are signed by {} get no \
                     answers",
                    ambiguous.join(", ")
                );
                work.ledger.narrower(found, why);
            }
        }
    }
    let (mut before, mut attached_before) = (AddressSet::none(), false);
    for (view, keys) in views.iter_mut().zip(&mut of_views) {
        let [elsewhere, attached, _] = PLACES.map(|place| view.matched(None, place));
        let (attached, set) = match view.is_known {
            true => (attached.is_all() && !elsewhere.is_all(), elsewhere),
            // All clients that may be in it.
            false => (
                false,
                PLACES.iter().fold(AddressSet::none(), |set, place| set.or(&view.matched(None, *place))),
            ),
        };
        let has_clients =
            !before.covers(&set) || attached && !attached_before && !before.is_all() || !keys.is_empty();
        if !has_clients {
            let why = "no client is in it: all are in views before it";
            work.ledger.part(&view.statement.span, &view.statement.title(), Coverage::Unneeded, why);
            continue;
        }
        if work.nomen.views.len() == MAX_VIEWS {
            let why = format!("there can be {MAX_VIEWS} views: its clients get no answers");
            work.ledger.part(&view.statement.span, &view.statement.title(), Coverage::Narrower, why);
            continue;
        }
        before = before.or(&set);
        attached_before |= attached;
        let mut from: Vec<String> = match before.is_all() && !set.is_empty() {
            true => vec!["any".to_owned()],
            false => set.networks().iter().map(ToString::to_string).collect(),
        };
        if attached && !before.is_all() {
            from.push("attached".to_owned());
        }
        from.extend(keys.iter().map(|key| format!("key:{key}")));
        let name = name(view.statement.value(), &mut taken);
        let mut block = Keys::default();
        block.text("name", name.clone());
        block.texts("from", from);
        work.nomen.views.push(block);
        let words = format!("[[view]] `{name}`, in the same order");
        work.ledger.part(&view.statement.span, &view.statement.title(), Coverage::Translated, words);
        view.name = Some(name);
    }
}

/// The keys of each view, and those that are in a view from some addresses only.
fn keys_of(views: &[SourceView<'_>]) -> (Vec<Vec<String>>, Vec<String>) {
    let mut all: Vec<&str> = Vec::new();
    for key in views.iter().flat_map(|view| keys(&view.clients)) {
        if !all.contains(&key) {
            all.push(key);
        }
    }
    let (mut out, mut ambiguous) = (vec![Vec::new(); views.len()], Vec::new());
    for key in all {
        let signed = PLACES.map(|place| shares(views, Some(key), place));
        let unsigned = PLACES.map(|place| shares(views, None, place));
        let of_all = (0..views.len()).find(|at| signed.iter().all(|shares| shares[*at].is_all()));
        match of_all {
            Some(at) => out[at].push(key.to_owned()),
            None if signed == unsigned => {}
            None => ambiguous.push(key.to_owned()),
        }
    }
    (out, ambiguous)
}

/// The addresses whose clients are in each view.
fn shares(views: &[SourceView<'_>], key: Option<&str>, place: Place) -> Vec<AddressSet> {
    let mut left = AddressSet::all();
    let mut share = |view: &SourceView<'_>| {
        let own = left.and(&view.matched(key, place));
        left = left.minus(&own);
        own
    };
    views.iter().map(&mut share).collect()
}

/// A name of a view in nomen that no other has.
fn name(text: &str, taken: &mut HashSet<String>) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '-' | '_') => c,
        _ => '-',
    };
    let short: String = text.chars().map(plain).take(24).collect();
    let short = if short.is_empty() { "view".to_owned() } else { short };
    let mut names = std::iter::once(short.clone()).chain((2..).map(|n: usize| format!("{short}-{n}")));
    let found = names.find(|name| !taken.contains(name)).unwrap_or(short);
    taken.insert(found.clone());
    found
}

/// Chooses the views whose clients may recurse: those that have the resolver of the first of them. Returns
/// the frame for the server's settings.
fn recursion<'t>(work: &mut Work, frame: &Frame<'t>, views: &mut [SourceView<'t>]) -> Frame<'t> {
    let first = views.iter().position(|view| view.is_known && view.name.is_some() && view.recurses());
    let Some(first) = first else {
        views.iter_mut().for_each(|view| view.frame.aside = true);
        return Frame { split: true, ..frame.clone() };
    };
    let part = resolver(views[first].statement);
    let title = views[first].title().to_owned();
    let mut chosen = Vec::new();
    for view in views.iter_mut() {
        let is_same = acl::same_of(&part, &resolver(view.statement));
        view.frame.aside = !(view.is_known && view.name.is_some() && view.recurses() && is_same);
        chosen.push(!view.frame.aside);
        if view.frame.aside && view.recurses() && view.name.is_some() && view.is_known {
            let why = format!(
                "nomen has one resolver, which is that of view {title}: clients of this view may not recurse"
            );
            work.ledger.part(&view.statement.span, &view.statement.title(), Coverage::Narrower, why);
        }
    }
    let mut main = views[first].frame.clone();
    let mut is_exact = true;
    let sets = PLACES.map(|place| {
        let shares = shares(views, None, place);
        let recursing = views.iter().zip(&shares).zip(&chosen).filter(|(_, chosen)| **chosen);
        recursing.fold(AddressSet::none(), |set, ((view, share), _)| {
            let both = recursive_clients(work, &view.frame);
            let own = both.iter().map(|list| permitted(list, None, place));
            let own = own.fold(Permitted { surely: share.clone(), maybe: share.clone() }, |left, list| {
                Permitted { surely: left.surely.and(&list.surely), maybe: left.maybe.and(&list.maybe) }
            });
            is_exact &= own.is_exact();
            set.or(&own.surely)
        })
    });
    main.recursing = Some((sets, is_exact));
    main.view = None;
    main
}

/// The lists that a client must pass for recursion.
fn recursive_clients(work: &mut Work, frame: &Frame<'_>) -> Vec<Vec<Member>> {
    let mut members = |found: &Statement| acl::members(work, &frame.acls, found.block(), 0);
    let [recursion, cache, query] =
        ["allow-recursion", "allow-query-cache", "allow-query"].map(|key| frame.global(key));
    match (recursion, cache, query) {
        (Some(recursion), Some(cache), _) => vec![members(recursion), members(cache)],
        (Some(found), None, _) | (None, Some(found), _) | (None, None, Some(found)) => vec![members(found)],
        (None, None, None) => {
            let own = [Client::Attached, Client::Own].map(|client| Member { deny: false, client });
            vec![own.into()]
        }
    }
}

/// The statements of a view that decide how names are resolved for its clients.
fn resolver(view: &Statement) -> Vec<&Statement> {
    const RULES: [&str; 6] = ["forward", "stub", "static-stub", "hint", "mirror", "redirect"];
    let policies: HashSet<String> = view.find("response-policy").into_iter().flat_map(zones_named).collect();
    let is_part = |statement: &&Statement| match statement.key() {
        "zone" => {
            let kind = statement.find("type").map_or("", Statement::value).to_ascii_lowercase();
            let is_policy = domain(statement.value()).is_some_and(|name| policies.contains(&name));
            RULES.contains(&kind.as_str()) || is_policy
        }
        "key" | "server" => false,
        key => !MATCHES.contains(&key) && !OWN.contains(&key) && !zones::INHERITED.contains(&key),
    };
    view.block().iter().filter(is_part).collect()
}

/// The names of the zones in `response-policy` or `catalog-zones`.
fn zones_named(list: &Statement) -> impl Iterator<Item = String> {
    list.block().iter().filter_map(|entry| domain(entry.value()))
}

/// Converts the zones of a view.
fn zones_of(work: &mut Work, view: &mut SourceView<'_>, policies: &mut HashSet<String>) {
    let of_view: HashSet<String> = match view.frame.aside {
        true => HashSet::new(),
        false => view.frame.global("response-policy").into_iter().flat_map(zones_named).collect(),
    };
    for zone in view.statement.block().iter().filter(|statement| statement.key() == "zone") {
        if view.name.is_none() || !view.is_known {
            let why = match view.name.is_none() {
                true => "no client is in its view",
                false => "the clients of its view cannot be expressed: it is left out",
            };
            let outcome = if view.name.is_none() { Coverage::Unneeded } else { Coverage::Narrower };
            work.ledger.add(zone, outcome, why.to_owned());
            continue;
        }
        let plain = domain(zone.value());
        let is_policy = plain.as_ref().is_some_and(|plain| of_view.contains(plain));
        if let Some(plain) = plain.filter(|_| is_policy) {
            if !policies.insert(plain.clone()) {
                work.ledger.translated(zone, "that of the view before, which is the same");
                continue;
            }
            view.frame.view = None;
            let before = work.nomen.zones.len();
            zones::zone(work, &view.frame, zone);
            if work.nomen.zones.len() > before {
                work.serve_without_answers(&plain);
                let why = "a policy zone has no view: no client gets answers from the zone itself";
                work.ledger.part(&zone.span, &zone.title(), Coverage::Narrower, why);
            }
            continue;
        }
        view.frame.view.clone_from(&view.name);
        zones::zone(work, &view.frame, zone);
    }
}

/// Reports catalog zones of views: nomen has them outside views alone.
fn catalogs(work: &mut Work, views: &[SourceView<'_>]) {
    for view in views.iter().filter(|view| view.name.is_some()) {
        if let Some(found) = view.frame.global("catalog-zones") {
            work.ledger.narrower(found, "catalog zones have no view: their members are left out");
        }
    }
}

/// Reports the settings of a view whose recursion is not that of the first view with a resolver.
fn settings(work: &mut Work, view: &SourceView<'_>) {
    let rest: Vec<&Statement> =
        view.statement.block().iter().filter(|statement| statement.key() != "zone").collect();
    for statement in rest {
        if view.name.is_none() {
            work.ledger.unneeded(statement, "no client is in its view");
            continue;
        }
        let key = statement.key();
        let is_resolver = OWN[..3].contains(&key) || options::is_of_recursion(key);
        if work.ledger.is_seen(statement) || !is_resolver {
            continue;
        }
        match (view.frame.aside, view.recurses()) {
            (true, false) => work.ledger.unneeded(statement, "recursion is off in this view"),
            (true, true) => work.ledger.narrower(statement, "clients of this view may not recurse"),
            (false, _) => work.ledger.translated(statement, "that of the view before, which is the same"),
        }
    }
}

/// Separates views of class IN from others, which are reported.
pub(super) fn of_class_in<'t>(work: &mut Work, views: Vec<&'t Statement>) -> Vec<&'t Statement> {
    let (others, views): (Vec<&Statement>, Vec<&Statement>) = views.into_iter().partition(is_of_other_class);
    for view in others {
        work.ledger
            .missing(view, "nomen has zones of class IN alone; `version` and `id` of [server] are its own");
    }
    views
}
